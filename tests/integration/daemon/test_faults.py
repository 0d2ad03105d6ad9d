"""Faults, by causing them: nothing is lost, nothing is generated twice once it was stored, other jobs go on."""

import contextlib
import os
import random
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from live_node import kill_worker
from waiting import LIMIT_S

from rwkv_daemon.workers import crash_points
from rwkv_daemon.workers.worker_process import ShimRecord, is_same, read_record
from rwkv_weights.local.checkpoint_files import builtin_checkpoint_path
from rwkvctl.protocol.errors import RwkvctlError

WORK = {"limit": 40, "settings": {"k": "3", "temperature": "1.0"}}
SAMPLES = 40 * 3
HELD = 30
"""What an engine answers before it holds the rest back: whatever is to happen in the middle of the job happens then."""


@pytest.fixture(scope="module")
def undisturbed(module_node) -> dict[tuple[int, int], list[str]]:
    """The answers of a run that nothing happened to."""
    node = module_node().start()
    (name,) = node.dispatch(**WORK)
    node.wait_for_state(name, "done")
    return node.answers_of(name)


def check_whole(node, name: str, expected: dict[tuple[int, int], list[str]]) -> None:
    """Exactly one sample per (row, repeat), no stage written twice, the answers of an undisturbed run."""
    assert node.job(name)["score"]["n"] == SAMPLES
    lines = node.stage_lines(name)
    assert len(lines) == len(set(lines)), "a completion was generated again after it had been stored"
    assert node.answers_of(name) == expected


def underway(node) -> str:
    """A job that is in the middle, and stays there."""
    node.engines_do(answers=HELD)
    (name,) = node.dispatch(**WORK)
    node.wait_until_some(name, HELD)
    return name


def goes_on(node, name: str) -> None:
    """Let the engines answer, and the job come to its end."""
    node.engines_do()
    assert node.wait_for_state(name, "done", "failed")["state"] == "done"


def wait_until_at_work(node, name: str) -> None:
    """Until engine and runner are there. What was stored a moment ago may be of those that were killed before."""

    def lives(record: ShimRecord | None) -> bool:
        return record is not None and not record.done and is_same(record.pid, record.pid_start)

    node.until(lambda: lives(node.engine_record()) and lives(node.runner_record(name)), "engine and runner are there")


@pytest.mark.parametrize("victims", ["daemon", "engine", "runner", "all"])
@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.slow("kills"))])
def test_kill_9_at_random_moments(node, undisturbed, victims, seed):
    """Answers come while the kill falls, and never all of them before it."""
    rng, name = random.Random(f"{victims} {seed}"), ""
    for round_ in (1, 2):
        node.engines_do(answers=HELD * round_, slow_s=0.005)
        name = name or node.dispatch(**WORK)[0]
        node.wait_until_some(name, node.job(name).get("stages_done", 0) + rng.randrange(1, HELD // 2))
        wait_until_at_work(node, name)
        if victims in {"daemon", "all"}:
            node.kill()
        if victims in {"engine", "all"}:
            kill_worker(node.engine_record())
        if victims in {"runner", "all"}:
            kill_worker(node.runner_record(name))
        if victims in {"daemon", "all"}:
            node.start()
    goes_on(node, name)
    check_whole(node, name, undisturbed)


def test_kill_9_of_the_shims_too(node, undisturbed):
    name = underway(node)
    for record in (node.engine_record(), node.runner_record(name)):
        os.kill(record.shim, 9)
    goes_on(node, name)
    check_whole(node, name, undisturbed)
    with contextlib.closing(sqlite3.connect(node.home / "store.sqlite")) as db:
        states = [state for (state,) in db.execute("SELECT state FROM attempt ORDER BY number")]
    assert states == ["lost", "ended"], "of the first nobody knows how it ended"


@pytest.mark.parametrize(
    "point",
    [
        p
        for p in crash_points.POINTS
        if p.partition("-")[0]
        not in {"runner", "reap", "stop", "delete", "prune", "bulk", "recipe", "labels", "watch", "feedback"}
    ],
)
def test_every_crash_point_of_the_daemon(new_node, undisturbed, point):
    node = new_node().start(RWKVCTL_CRASH_AT=point)
    try:
        node.dispatch(**WORK)
    except (OSError, RwkvctlError):
        assert "dispatch" in point
    node.daemon.wait(LIMIT_S)
    assert node.daemon.returncode == -9
    node.start()
    names = [job["id"] for job in node.api.get("/v1/jobs").value["items"]]
    assert names == ([] if point == "before-dispatch-commit" else ["j1"])
    name = names[0] if names else node.dispatch(**WORK)[0]
    goes_on(node, name)
    check_whole(node, name, undisturbed)
    assert len(node.api.get("/v1/scores").value["items"]) == 1


@pytest.mark.parametrize("point", [p for p in crash_points.POINTS if p.startswith("runner-")])
def test_every_crash_point_of_the_runner(new_node, undisturbed, point):
    node = new_node().start(RWKVCTL_CRASH_AT=point)
    (name,) = node.dispatch(**WORK)
    node.until(lambda: node.job(name).get("attempt", 0) >= 3, "it was tried three times")
    node.terminate()
    node.start()
    goes_on(node, name)
    check_whole(node, name, undisturbed)


def test_a_torn_last_line_is_done_again(node, undisturbed):
    name = underway(node)
    node.kill()
    kill_worker(node.runner_record(name))
    node.until(lambda: node.runner_record(name).done, "the shim wrote the exit")
    path = node.home / "runs" / name / "samples-1.jsonl"
    whole = path.read_bytes()
    path.write_bytes(whole[: whole.rstrip(b"\n").rfind(b"\n") + 30])
    node.start()
    goes_on(node, name)
    assert node.job(name)["score"]["n"] == SAMPLES
    assert node.answers_of(name) == undisturbed


def fill(path: Path) -> None:
    """Take all the room there is."""
    with contextlib.suppress(OSError), path.open("wb", buffering=0) as file:
        while True:
            file.write(b"\0" * 4096)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: to mount a small tmpfs")
def test_disk_full_in_the_middle_holds_the_job_and_loses_nothing(new_node, undisturbed):
    node = new_node(min_free_disk_bytes="65536")
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=6m", "tmpfs", str(node.home)], check=False).returncode:
        pytest.skip("needs mount: not allowed here")
    fillers = node.home / "filler", node.home / "rest"
    try:
        node.start()
        name = underway(node)
        fill(fillers[0])
        (node.home / "runs" / "engines" / "stub.json").unlink()  # lets the engines answer, and makes room for a page
        fill(fillers[1])
        node.until(
            lambda: node.job(name)["state"] in {"held", "done"} or "cannot be written" in node.log(), "it is held"
        )
        assert node.answers()
        for filler in fillers:
            filler.unlink()
        assert node.wait_for_state(name, "done", "failed")["state"] == "done"
        check_whole(node, name, undisturbed)
    finally:
        node.close()
        subprocess.run(["umount", "--lazy", str(node.home)], check=False)


@pytest.mark.real_engine
def test_a_corrupt_checkpoint_holds_its_jobs_and_others_go_on(node):
    bad = node.home / "weights" / "rwkv7-g1-0.1b-20250101-ctx4096.pth"
    bad.write_bytes(builtin_checkpoint_path().read_bytes()[:100_000])
    os.utime(bad, (0, 0))  # else it might be being copied
    broken, good = node.dispatch(models=["rwkv7-g1*", "builtin"], limit=5)
    if "builtin" in node.job(broken)["model"]:
        broken, good = good, broken
    assert node.wait_for_state(good, "done")["score"]["n"] == 5
    node.until(lambda: node.job(broken).get("reason") == "does-not-load", "it is held")
    job = node.job(broken)
    assert job["state"] == "held"
    assert "rwkv7-g1-0.1b" in job["detail"]
    plan = node.api.post("/v1/plan", {"selection": {"models": ["rwkv7*"], "only_datasets": ["demo_choice"]}}).value
    assert plan["rows"][0]["reason"] == "does-not-load"


def test_missing_rows_hold_the_job_until_they_are_prepared(node, real_rows: Path):
    held, good = node.dispatch(
        only_datasets=["arc_challenge", "demo_arith"],
        only_jobs=["multi_choice_plain", "free_response"],
        limit=5,
        hold_missing=True,
    )
    if node.job(held)["benchmark"] != "arc_challenge":
        held, good = good, held
    assert node.job(held)["reason"] == "data-missing"
    assert "rwkvctl data prepare arc_challenge" in node.job(held)["detail"]
    assert node.wait_for_state(good, "done")["score"]["n"] == 5
    node.cli("data", "prepare", "arc_challenge", "--from", str(real_rows / "arc_challenge"))
    assert node.wait_for_state(held, "done")["score"]["n"] == 5


def test_rows_that_are_damaged_after_planning_hold_the_job(node, real_rows: Path):
    node.cli("data", "prepare", "arc_challenge", "--from", str(real_rows / "arc_challenge"))
    path = node.home / "data" / "arc_challenge" / "test.jsonl"
    path.write_bytes(path.read_bytes()[:-100])
    (name,) = node.dispatch(only_datasets=["arc_challenge"], only_jobs=["multi_choice_plain"], limit=5)
    job = node.wait_for_state(name, "held", "done")
    assert job["state"] == "held"
    assert "sha256" in job["detail"]


RUDE = r"""
import sys, torch
tensors = torch.load(sys.argv[1], weights_only=True)
head = tensors["head.weight"]
for digit, byte in zip("0123456789", b"\x1b]\x07\x9b\xff\xfe\x00\x80\x1b\xc3", strict=True):
    source, target = ord(digit) + 1, byte + 1
    head[[source, target]] = head[[target, source]]
torch.save(tensors, sys.argv[2])
"""
"""The built-in checkpoint with its digits' logits moved to bytes that hurt: ESC ] BEL CSI, and invalid UTF-8. In a
process of its own, as torch is large."""


@pytest.mark.real_engine
def test_a_rude_model_hurts_no_terminal(node):
    rude = node.home / "weights" / "rude.pth"
    subprocess.run([sys.executable, "-c", RUDE, builtin_checkpoint_path(), rude], check=True)
    (name,) = node.dispatch(models=["rude"], limit=40)
    job = node.wait_for_state(name, "done", "failed")
    assert job["state"] == "done"
    raw = [text for texts in node.answers_of(name).values() for text in texts]
    assert any("\x1b" in text for text in raw), "the model is not rude enough"
    shown = node.cli("samples", name, "--wrong", "--full", "-o", "table").stdout
    assert not set(shown) & {chr(code) for code in [*range(9), *range(11, 32), *range(0x7F, 0xA0)]}
    assert "␛" in shown


def test_a_damaged_store_is_refused_with_a_remedy_and_left_alone(node):
    node.terminate()
    store = node.home / "store.sqlite"
    for extra in node.home.glob("store.sqlite-*"):
        extra.unlink()
    store.write_bytes(b"this is no database" * 1000)
    node.start()
    assert node.daemon.returncode not in {0, None}
    assert "`rwkvctl rebuild`" in node.log()
    assert store.read_bytes().startswith(b"this is no database")


def test_no_process_is_left_when_all_is_stopped(new_node):
    node = new_node(idle_unload_s="0.1").start()
    (name,) = node.dispatch(limit=20)
    node.wait_for_state(name, "done")
    node.wait_until_cold()
    assert node.terminate() == 0
    for path in [*node.home.glob("runs/engines/e*/record.json"), *node.home.glob("runs/j*/record-*.json")]:
        assert read_record(path).done
