"""The real daemon on a node with (fake) GPUs: which engines it places where, and what two daemons do to one GPU.

Engines compute on the CPU here; that a real one computes on the GPU of its lease is a test of tests/gpu.
"""

import contextlib
import json
import os
import signal
import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rwkv_daemon.workers import worker_process

LiveNode = Any
NewNode = Callable[..., Any]
TEST_DEVICE = {"RWKVCTL_TEST_DEVICE": "cpu"}
OTHER = "rwkv7-g1-0.1b-20250101-ctx4096"


def events(node: LiveNode, kind: str) -> list[dict[str, Any]]:
    found = map(json.loads, node.api.stream("/v1/events", 30.0, since=0, follow="no"))
    return [event for event in found if event["kind"] == kind]


def starts(node: LiveNode) -> list[tuple[str, str]]:
    """(model, lease) of every engine that was ever ready."""
    data = [event["data"] for event in events(node, "engine.state")]
    return [(one["model"], one["lease"]) for one in data if one["state"] == "ready"]


def command_lines(node: LiveNode) -> list[dict[str, str]]:
    """The environment of every engine process that runs."""
    found = []
    for path in node.home.glob("runs/engines/e*/record.json"):
        record = worker_process.read_record(path)
        if record is not None and not record.done:
            pairs = Path(f"/proc/{record.pid}/environ").read_bytes().decode().split("\0")
            found.append(dict(pair.split("=", 1) for pair in pairs if "=" in pair))
    return found


@pytest.fixture
def gpu_node(fake_nvml: Any, new_node: NewNode) -> Callable[..., LiveNode]:
    """Makes nodes with so many GPUs, not started yet."""

    def make(gpus: int = 0, **settings: str) -> LiveNode:
        if gpus:
            fake_nvml.gpus(gpus)
        return new_node(**settings)

    return make


def engines_of(node: LiveNode, *states: str) -> list[dict[str, Any]]:
    found = node.api.get("/v1/status").value["engines"]
    return [engine for engine in found if not states or engine["state"] in states]


def test_two_models_run_side_by_side_on_gpus_that_are_free_and_load_once_each(
    gpu_node: Callable[..., LiveNode], fake_nvml: Any, trainer: subprocess.Popen[bytes]
) -> None:
    """GPUs 0 to 3 are in somebody's training, 4 and 5 are reserved for it; the CPU takes no engine where there are
    GPUs."""
    node = gpu_node(8)
    for index in range(4):
        fake_nvml.process(index, trainer.pid)
    node.add_model(OTHER)
    node.start(**TEST_DEVICE)
    node.until(lambda: len(node.api.get("/v1/status").value["leases"]) == 9, "GPUs are known")
    node.api.post("/v1/gpus", {"action": "reserve", "gpus": ["4", "5"], "reason": "training"})
    datasets = ["demo_arith", "demo_choice"]
    jobs = node.dispatch(models=["builtin", OTHER], only_datasets=datasets, limit=20)
    assert len(jobs) == 4
    for job in jobs:
        node.wait_for_state(job, "done")
    free = {fake_nvml.uuid(6), fake_nvml.uuid(7)}
    ready = starts(node)
    assert {lease for _, lease in ready} == free
    assert {model for model, _ in ready} == {"builtin", OTHER}
    assert len(ready) == len(set(ready)), "one load of the weights for each (checkpoint, GPU)"
    node.until(lambda: leases_held(node) == dict.fromkeys(free, "leased"), "both are kept warm")
    assert {engine["lease"] for engine in engines_of(node, "ready")} == free
    for environment in command_lines(node):
        assert environment["CUDA_VISIBLE_DEVICES"] == ""  # the CPU stands in; see device_of


def test_an_engine_on_the_cpu_is_not_unloaded_for_a_job_that_only_a_gpu_may_run(
    gpu_node: Callable[..., LiveNode], fake_nvml: Any, trainer: subprocess.Popen[bytes]
) -> None:
    """The job waits for the GPU, which is in somebody's training, and says so."""
    node = gpu_node(1, cpu_engines="true")
    fake_nvml.process(0, trainer.pid)
    node.start(**TEST_DEVICE)
    node.until(lambda: len(node.api.get("/v1/status").value["leases"]) == 2, "the GPU is known")
    (first,) = node.dispatch(numerics="fp32", limit=5)
    node.wait_for_state(first, "done")
    (second,) = node.dispatch(numerics="exact", limit=5)
    why = "no lease on this node is free; see `rwkvctl gpus`"
    node.until(lambda: node.job(second).get("detail") == why, "the job says why it waits")
    assert [engine["lease"] for engine in engines_of(node, "ready")] == ["cpu:0"]
    fake_nvml.end(trainer.pid)
    node.wait_for_state(second, "done")
    assert [lease for _, lease in starts(node)] == ["cpu:0", fake_nvml.uuid(0)]


def leases_held(node: LiveNode) -> dict[str, str]:
    found = node.api.get("/v1/status").value["leases"]
    return {lease["id"]: lease["use"] for lease in found if lease.get("engine")}


@pytest.fixture
def trainer() -> Iterator[subprocess.Popen[bytes]]:
    """Somebody's process that holds GPUs."""
    process = subprocess.Popen(["sleep", "600"])
    yield process
    process.kill()
    process.wait()


def test_a_restarted_daemon_finds_its_engines_with_their_leases(
    gpu_node: Callable[..., LiveNode], fake_nvml: Any
) -> None:
    node = gpu_node(2)
    node.add_model(OTHER)
    node.start(**TEST_DEVICE)
    jobs = node.dispatch(models=["builtin", OTHER], limit=30)
    for job in jobs:
        node.wait_for_state(job, "done")
    before = {engine["id"]: (engine["lease"], engine["pid"]) for engine in engines_of(node, "ready")}
    assert {lease for lease, _ in before.values()} == {fake_nvml.uuid(0), fake_nvml.uuid(1)}
    node.kill()
    node.start(**TEST_DEVICE)
    after = {engine["id"]: (engine["lease"], engine["pid"]) for engine in engines_of(node, "ready")}
    assert after == before
    again = node.dispatch(models=["builtin"], only_datasets=["demo_choice"], limit=20)
    node.wait_for_state(again[0], "done")
    assert len(starts(node)) == 2, "nothing was loaded again"


def test_two_daemons_never_take_the_same_gpu(gpu_node: Callable[..., LiveNode], fake_nvml: Any) -> None:
    """Neither sees the other's processes in NVML here: the lock alone decides."""
    first, second = gpu_node(1), gpu_node()
    for node in (first, second):
        node.start(**TEST_DEVICE)
    [mine] = first.dispatch(limit=20)
    first.wait_for_state(mine, "done")
    [theirs] = second.dispatch(limit=20)
    second.until(
        lambda: any("leased by another daemon's engine" in event["text"] for event in events(second, "engine.state")),
        "the second meets the lock",
    )
    assert second.job(theirs)["state"] == "queued"
    assert not starts(second)
    [engine] = engines_of(first, "ready")
    os.kill(engine["pid"], 9)  # a death frees the GPU at once
    second.wait_for_state(theirs, "done")
    assert starts(second) == [("builtin", fake_nvml.uuid(0))]


def test_a_foreign_job_that_comes_between_the_decision_and_the_start_moves_the_engine_elsewhere(
    gpu_node: Callable[..., LiveNode], fake_nvml: Any, trainer: subprocess.Popen[bytes]
) -> None:
    """The sampler is stopped between two looks, so that the decision is made on what it saw last."""
    node = gpu_node(2, sampler_deadline_s="60")
    node.start(**TEST_DEVICE)
    node.until(lambda: len(node.api.get("/v1/status").value["leases"]) == 3, "GPUs are known")
    with stopped_between_looks(node):
        [job] = node.dispatch(limit=20)
        node.until(lambda: starts_on(node), "an engine has its lease")
        first = starts_on(node)[0]
        fake_nvml.process(0 if first == fake_nvml.uuid(0) else 1, trainer.pid)
    node.wait_for_state(job, "done")
    taken_back = [event["text"] for event in events(node, "engine.state") if "was not started on" in event["text"]]
    assert len(taken_back) == 1, node.log()
    assert "it is busy: sleep 600" in taken_back[0]
    assert [lease for _, lease in starts(node)] == [fake_nvml.uuid(1 if first == fake_nvml.uuid(0) else 0)]


WAITS = {"7", "23", "270", "271", "72", "73"}
"""System calls (of x86-64 and of ARM) in which a process waits for its next turn: poll and select."""


@contextlib.contextmanager
def stopped_between_looks(node: LiveNode) -> Iterator[None]:
    """Stop the daemon's sampler while it waits."""
    found: list[int] = []

    def waits() -> bool:
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            with contextlib.suppress(OSError):
                parent = int((path.parent / "stat").read_text().rpartition(")")[2].split()[1])
                if parent == node.daemon.pid and b"rwkv_daemon.gpus.sampler_main" in path.read_bytes():
                    found[:] = [int(path.parent.name)]
        if not found:
            return False
        os.kill(found[0], signal.SIGSTOP)
        if Path(f"/proc/{found[0]}/syscall").read_text().split()[0] in WAITS:
            return True
        os.kill(found[0], signal.SIGCONT)
        return False

    node.until(waits, "the sampler waits for its next look")
    try:
        yield
    finally:
        os.kill(found[0], signal.SIGCONT)


def starts_on(node: LiveNode) -> list[str]:
    """The leases that engines were given, started or not."""
    data = [event["data"] for event in events(node, "engine.state")]
    return [one["lease"] for one in data if one["state"] == "starting"]


def test_a_long_job_spreads_over_the_gpus_that_are_free(gpu_node: Callable[..., LiveNode], fake_nvml: Any) -> None:
    """Work that is known to be long gets every GPU; its samples come from several engines."""
    node = gpu_node(3, engine_slots="2")
    node.start(**TEST_DEVICE)
    [measured] = node.dispatch(limit=64)
    node.wait_for_state(measured, "done")
    assert node.terminate() == 0
    with contextlib.closing(sqlite3.connect(node.home / "store.sqlite")) as store, store:
        assert store.execute("UPDATE rate SET sample_s = 60").rowcount == 1, "the pace was measured and kept"
        assert store.execute("UPDATE engine_fit SET load_s = 1").rowcount == 1
    node.start(**TEST_DEVICE)
    node.engines_do(answers=72)  # of each, the first has given 64; what one has taken, up to 256, it does not give back
    [job] = node.dispatch(limit=240, settings={"k": "3", "temperature": "1.0"})
    node.until(lambda: len(engines_of(node, "ready")) == 3, "three engines serve it")
    node.until(lambda: len(used_by(node, job)) == 3, "all of them answered")
    node.engines_do()
    done = node.wait_for_state(job, "done")
    assert done["done"] == done["total"]
    places = node.stage_lines(job)
    assert len(places) == len(set(places)), "nothing was generated twice"
    assert len(done["score"]["provenance"]["engines"]) == 3


def used_by(node: LiveNode, job: str) -> set[str]:
    """The engines that answered for a job."""
    used = set()
    for path in (node.home / "runs" / job).glob("samples-*.jsonl"):
        for line in path.read_bytes().splitlines():
            if b'"engine"' in line and line.endswith(b"}"):
                used.add(json.loads(line)["engine"])
    return used


def test_what_auto_numerics_means_is_decided_by_whether_there_are_gpus(
    gpu_node: Callable[..., LiveNode],
) -> None:
    with_gpus = gpu_node(1, numerics="auto")
    with_gpus.start(**TEST_DEVICE)
    rows = with_gpus.api.post("/v1/plan", {"selection": {"models": ["builtin"]}}).value["rows"]
    assert {row["numerics"] for row in rows} == {"fast"}


def test_queue_tells_what_to_expect_once_something_like_it_was_measured(node: LiveNode) -> None:
    wanted = {"selection": {"models": ["builtin"], "only_datasets": ["demo_arith"]}}
    plans: list[dict[str, Any]] = []

    def planned() -> dict[str, Any]:
        plans.append(node.api.post("/v1/plan", wanted).value)
        return dict(plans[-1]["rows"][0])

    node.until(lambda: planned()["action"] == "run", "the weights are hashed")
    before = plans[-1]
    assert "est_s" not in before["rows"][0], "no figure is made up"
    assert (before.get("eta_s"), before["not_estimated"]) == (None, 1)
    [job] = node.dispatch(limit=64)
    node.wait_for_state(job, "done")
    node.until(lambda: "est_s" in planned(), "its pace is remembered")
    after = plans[-1]
    [row] = after["rows"]
    assert row["est_s"] > 0
    assert (row["lease"], row.get("loads", False), row["starts_s"]) == ("cpu:0", False, 0.0)
    assert after["eta_s"] == pytest.approx(row["est_s"])
    assert after["hash"] == before["hash"], "what is expected is no part of what would be done"


def test_a_waiting_job_says_when_and_where_it_is_expected_to_start(node: LiveNode) -> None:
    node.engines_do(slow_s=0.05)  # not held: work that stands still disproves every estimate
    [first] = node.dispatch(limit=40)
    node.wait_for_state(first, "done")
    node.engines_do(slow_s=0.5)  # from here on all of them take longer than it takes to dispatch the last
    jobs = [node.dispatch(limit=20, settings={"k": str(k), "temperature": "1.0"})[0] for k in range(10, 16)]
    node.until(lambda: node.job(jobs[-1]).get("expected_on") == "cpu:0", "the last one is expected")
    last = node.job(jobs[-1])
    assert last["eta_s"] > last["starts_s"] > 0
    status = node.api.get("/v1/status").value
    assert status["eta_s"] >= last["eta_s"] * 0.5


def test_a_gpu_that_is_drained_hands_its_work_to_another_and_is_let_go(
    gpu_node: Callable[..., LiveNode], fake_nvml: Any
) -> None:
    node = gpu_node(2, engine_slots="2")
    node.start(**TEST_DEVICE)
    node.engines_do(answers=20)  # the first engine holds 256 samples then, and the rest wait
    [job] = node.dispatch(limit=300)
    node.wait_until_some(job, 20)
    [engine] = engines_of(node, "ready")
    place = 0 if engine["lease"] == fake_nvml.uuid(0) else 1
    node.api.post("/v1/gpus", {"action": "drain", "gpus": [str(place)], "reason": "its fan rattles"})
    other = fake_nvml.uuid(1 - place)
    node.until(lambda: used_by(node, job) == {"e1", "e2"}, "another engine has taken what waited")
    node.engines_do()
    node.until(lambda: [e["lease"] for e in engines_of(node)] == [other], "only the other GPU is used")
    done = node.wait_for_state(job, "done")
    assert done["done"] == done["total"]
    places = node.stage_lines(job)
    assert len(places) == len(set(places)), "nothing was generated twice"
    assert used_by(node, job) == {"e1", "e2"}
    assert not [event for event in events(node, "engine.state") if event["data"]["state"] == "failed"]


def test_two_small_models_share_one_gpu_where_that_is_configured(
    gpu_node: Callable[..., LiveNode], fake_nvml: Any
) -> None:
    node = gpu_node(1, share_gpus="2")
    node.add_model(OTHER)
    node.start(**TEST_DEVICE)
    node.engines_do(answers=5)  # a GPU is not shared before the watch has seen that it is ours
    jobs = node.dispatch(models=["builtin", OTHER], limit=10)
    node.until(lambda: len(engines_of(node, "ready")) == 2, "both are there")
    node.engines_do()
    for job in jobs:
        node.wait_for_state(job, "done")
    warm = engines_of(node, "ready")
    assert sorted(engine["model"] for engine in warm) == sorted(["builtin", OTHER])
    assert {engine["lease"] for engine in warm} == {fake_nvml.uuid(0)}
    with contextlib.closing(sqlite3.connect(node.home / "store.sqlite")) as store:
        held = store.execute("SELECT slot, engine FROM lease ORDER BY slot").fetchall()
    assert [slot for slot, _ in held] == list(range(8))
    assert len({engine for _, engine in held}) == 2
