"""What a hostile reader found: each case by causing it. One bad thing never ends the daemon or lies in a score."""

import hashlib
import json
import os
import shutil
import signal
import sqlite3
from pathlib import Path

import pytest
from live_node import kill_worker

from rwkv_weights.local.checkpoint_files import builtin_checkpoint_path
from rwkvctl.protocol.errors import RefusedError


def hashed(node, path: Path) -> str:
    """The hash that `models` shows for a path."""
    models = node.api.get("/v1/models").value["items"]
    return next((m.get("sha256", "") for m in models if m["path"] == str(path)), "")


def used(job) -> set[str]:
    """The weights of the engines that a score came from."""
    return {engine["weights_sha256"] for engine in job["score"]["provenance"]["engines"]}


def test_a_file_replaced_at_its_path_is_another_model(node):
    path = node.home / "weights" / "m.pth"
    shutil.copy(builtin_checkpoint_path(), path)
    (first,) = node.dispatch(models=["m"], limit=20)
    done = node.wait_for_state(first, "done")
    before = hashed(node, path)
    assert used(done) == {before}
    node.add_model("other").replace(path)
    node.until(lambda: hashed(node, path) not in {"", before}, "the new file is hashed")
    (second,) = node.dispatch(models=["m"], limit=20)
    assert used(node.wait_for_state(second, "done")) == {hashed(node, path)}
    assert node.answers_of(second) != node.answers_of(first)


def test_a_file_replaced_between_dispatch_and_load_holds_the_job(node):
    path = node.add_model("m")
    node.until(lambda: hashed(node, path), "it is hashed")
    before = hashed(node, path)
    node.engines_do(answers=5)
    (busy,) = node.dispatch(limit=10)
    node.wait_until_some(busy, 5)
    (name,) = node.dispatch(models=["m"], limit=20)
    node.add_model("other").replace(path)
    node.engines_do()
    node.wait_for_state(busy, "done")
    node.wait_for_state(name, "held", "done")
    node.until(lambda: hashed(node, path) not in {"", before}, "the new file is hashed")
    node.look_at_held()
    job = node.job(name)
    assert (job["state"], job["reason"]) == ("held", "weights-missing")
    assert "dispatch again" in job["detail"]


def test_a_file_whose_rights_change_is_hashed_again_and_its_job_goes_on(node):
    path = node.add_model("m")
    node.until(lambda: hashed(node, path), "it is hashed")
    node.engines_do(answers=5)
    (busy,) = node.dispatch(limit=10)
    node.wait_until_some(busy, 5)
    (name,) = node.dispatch(models=["m"], limit=20)
    path.chmod(0o640)
    node.engines_do()
    node.wait_for_state(busy, "done")
    assert node.wait_for_state(name, "done", "failed")["state"] == "done"


def test_a_store_that_was_moved_aside_takes_nothing_of_the_old_runs(node):
    node.add_model("bad")
    (name,) = node.dispatch(models=["bad"], limit=20)
    old = node.wait_for_state(name, "done")
    answers = node.answers_of(name)
    node.terminate()
    for file in node.home.glob("store.sqlite*"):
        file.rename(file.with_name(f"old-{file.name}"))
    node.start()
    (again,) = node.dispatch(limit=20)
    assert again == name
    assert used(node.wait_for_state(again, "done")).isdisjoint(used(old))
    assert node.answers_of(again) != answers
    assert list(node.home.glob("runs.before-*"))


def test_strange_files_do_not_end_the_daemon(node):
    weights, data = node.home / "weights", node.home / "data" / "gsm8k"
    Path(os.fsdecode(os.fsencode(weights) + b"/m\xff.pth")).write_bytes(b"x")
    (weights / "loop.pth").symlink_to(weights / "loop.pth")
    os.mkfifo(weights / "fifo.pth")
    data.mkdir(parents=True)
    (data / "manifest.json").write_bytes(b"\xff\xfe{")
    (node.home / "a-file").write_text("kept")
    jobs = node.dispatch(limit=3, run_log_dir=str(node.home / "a-file"))
    jobs += node.dispatch(
        only_datasets=["demo_choice", "gsm8k"], only_jobs=["multi_choice_plain", "free_response"], limit=3
    )
    for name in jobs:
        if node.job(name)["benchmark"] != "gsm8k":
            assert node.wait_for_state(name, "done")["score"]["n"] == 3
    node.look_at_held()
    assert node.answers()
    assert (node.home / "a-file").read_text() == "kept"


def test_a_locked_store_strands_nothing(node):
    node.engines_do(answers=20)
    (name,) = node.dispatch(limit=40)
    node.wait_until_some(name, 20)
    with sqlite3.connect(node.home / "store.sqlite", isolation_level=None) as other:
        other.execute("BEGIN IMMEDIATE")
        kill_worker(node.runner_record(name))
        kill_worker(node.engine_record())
        node.until(lambda: "the store cannot be written" in node.log(), "the daemon meets the lock")
        other.execute("ROLLBACK")
    other.close()
    node.engines_do()
    assert node.wait_for_state(name, "done", "failed")["score"]["n"] == 40


def test_a_job_stopped_while_its_weights_are_hashed_gets_its_keys_when_it_goes_on(node):
    node.add_model("big")
    (name,) = node.dispatch(models=["big"], limit=5)
    node.api.post("/v1/stop", {"jobs": [name]})
    node.dispatch(models=["big"], limit=5)
    node.api.post("/v1/resume", {"jobs": [name]})
    names = [job["id"] for job in node.api.get("/v1/jobs").value["items"]]
    states = [node.wait_for_state(one, "done", "stopped") for one in names]
    done = [job for job in states if job["state"] == "done"]
    assert done
    assert all(job["score"]["provenance"]["generation_key"] for job in done)


def test_settings_of_one_kind_do_not_hold_another(node):
    node.add_model("fresh")
    jobs = node.dispatch(
        models=["fresh"], only_datasets=["demo_arith", "demo_choice"], limit=3, settings={"temperature": "0.5"}
    )
    assert len(jobs) == 2
    for name in jobs:
        assert node.wait_for_state(name, "done")["score"]["n"] == 3


def test_a_checkpoint_that_comes_back_releases_its_job(node, tmp_path):
    """It lies elsewhere, so that it is not hashed before a job waits for it."""
    path = node.add_model("shy").rename(tmp_path / "shy.pth")
    (name,) = node.dispatch(models=[], checkpoints=[{"path": str(path)}], limit=3)
    path.rename(path.with_suffix(".away"))
    node.until(
        lambda: node.job(name).get("reason") == "weights-missing" or node.job(name)["state"] == "done", "it is missed"
    )
    path.with_suffix(".away").rename(path)
    assert node.wait_for_state(name, "done")["score"]["n"] == 3


def test_a_stopped_job_goes_on_where_its_checkpoint_was_moved_to(node):
    path = node.add_model("moved")
    node.cli("pause", "--queue")
    (name,) = node.dispatch(models=["moved"], limit=3)
    node.wait_for_state(name, "queued")
    node.cli("stop", name)
    (path.parent / "below").mkdir()
    path.rename(path.parent / "below" / path.name)
    node.until(lambda: any(one.get("sha256") for one in models(node, "moved")), "it is hashed where it is now")
    assert node.dispatch(models=["moved"], limit=3) == [name]
    node.cli("resume", "--queue")
    assert node.wait_for_state(name, "done")["score"]["n"] == 3


def models(node, name):
    return [one for one in node.api.get("/v1/models").value["items"] if name in one["path"]]


def test_rows_damaged_behind_an_intact_manifest_are_not_tried_again_and_again(node, real_rows: Path):
    node.cli("data", "prepare", "arc_challenge", "--from", str(real_rows / "arc_challenge"))
    rows = node.home / "data" / "arc_challenge" / "test.jsonl"
    rows.write_bytes(rows.read_bytes() + b"\n")
    (name,) = node.dispatch(only_datasets=["arc_challenge"], only_jobs=["multi_choice_plain"], limit=3)
    node.wait_for_state(name, "held")
    node.look_at_held()
    assert (node.job(name)["state"], node.job(name)["attempt"]) == ("held", 1)
    node.cli("data", "prepare", "arc_challenge", "--from", str(real_rows / "arc_challenge"))
    assert node.wait_for_state(name, "done")["score"]["n"] == 3


def test_a_hung_engine_is_replaced(new_node):
    node = new_node(engine_hang_s="5").start()
    node.engines_do(answers=20)
    (name,) = node.dispatch(limit=40)
    node.wait_until_some(name, 20)
    hung = node.engine_record()
    os.kill(hung.pid, signal.SIGSTOP)
    node.until(lambda: node.engine_record().pid != hung.pid, "another engine takes its place")
    node.engines_do()
    assert node.wait_for_state(name, "done", "failed")["score"]["n"] == 40
    assert node.worker(node.home / "runs" / "engines" / "e1" / "record.json").signal == signal.SIGKILL


@pytest.mark.parametrize("path", ["jobs?before=", "status?limit=", "scores?limit=", "jobs/j1/samples?after="])
def test_absurd_numbers_are_refused_with_a_sentence(node, path):
    node.dispatch(limit=1)
    with pytest.raises(RefusedError, match=path.partition("?")[2].rstrip("=")):
        node.api.get(f"/v1/{path}{10**23}")
    assert node.answers()


def test_two_dispatches_while_hashing_are_two_jobs_only_if_they_ask_for_other_work(node):
    node.add_model("one")
    first = node.dispatch(models=["one"], limit=4)
    same = node.dispatch(models=["one"], limit=4)
    other = node.dispatch(models=["one"], limit=6)
    assert (len(first), len(same), len(other)) == (1, 0, 1)
    for name in first + other:
        node.wait_for_state(name, "done")


def test_the_score_a_script_reads_is_the_one_the_daemon_stored(node):
    (name,) = node.dispatch(limit=3)
    stored = node.wait_for_state(name, "done")["score"]
    found = json.loads(node.cli("scores", "--json").stdout)
    assert found["schema"] == "rwkvctl.scores/1"
    assert found["items"] == [stored]


def test_a_checkpoint_that_is_copied_holds_its_job_until_it_is_whole_and_then_it_goes_by_itself(node):
    content = builtin_checkpoint_path().read_bytes()
    path = node.home / "weights" / "rwkv7-g1-0.1b-20260910-ctx4096.pth"
    with path.open("wb") as file:
        file.write(content[: len(content) // 2])
        file.flush()
        (name,) = node.dispatch(models=["*20260910*"], limit=5)

        def being_copied():
            os.utime(path)  # as by a copy that goes on
            return node.job(name).get("reason") == "weights-copying"

        node.until(being_copied, "it is held because its checkpoint is being copied")
        (model,) = [one for one in node.api.get("/v1/models").value["items"] if one["path"] == str(path)]
        assert model["copying"]
        assert not model.get("sha256")
        assert "being copied" in node.cli("models").stdout
        file.write(content[len(content) // 2 :])
    assert node.wait_for_state(name, "done")["score"]["n"] == 5
    assert hashed(node, path) == hashlib.sha256(content).hexdigest()
