"""What an operator does with jobs at night: pause, hold, drain, priorities, stop; a real daemon, real workers."""

import contextlib
import json
import os
import signal
import subprocess
from concurrent.futures import ThreadPoolExecutor

import pytest
from live_node import kill_worker
from waiting import LIMIT_S

from rwkv_daemon.workers import crash_points, worker_process
from rwkv_daemon.workers.run_directory import RunDir
from rwkvctl.protocol.errors import RwkvctlError

SAMPLES, HELD = 40, 20
WORK = {"limit": SAMPLES}
LONG = 300
"""More than an engine is given at once (four batches of 64), so that a job that pauses has something left to do."""


def post(node, route: str, **body):
    return node.api.post(f"/v1/{route}", body).value


def only(reply):
    (item,) = reply["items"]
    return item


def texts(node, kind: str) -> list[str]:
    """The sentences of all stored events of a kind."""
    events = node.api.stream("/v1/events", 10.0, since=0, follow=False)
    return [event.get("text", "") for event in map(json.loads, events) if event["kind"] == kind]


def underway(node, **selection) -> str:
    """A job in the middle of its work, which the engine holds there until `node.engines_do()`."""
    node.engines_do(answers=HELD)
    (name,) = node.dispatch(**WORK | selection)
    node.wait_until_some(name, HELD)
    return name


def finish_batches(node, name: str) -> None:
    """Let the engines answer as soon as the runner knows that it is to pause: what it has not sent by then it keeps."""
    folder = RunDir(node.home / "runs" / name)
    node.until(lambda: folder.read_desired() == "pause", f"the runner of {name} is to pause")
    looked = folder.alive(1).stat().st_mtime_ns
    node.until(lambda: folder.alive(1).stat().st_mtime_ns != looked, "the runner has looked at what is wanted")
    node.engines_do()


def paused(node, name: str, **body):
    """Pause with what `name` has sent still in flight; the answer."""
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(post, node, "pause", **body)
        finish_batches(node, name)
        return asked.result()


def whole(node, name: str, samples: int = SAMPLES) -> None:
    """The job ended with every sample, and nothing was generated twice."""
    node.engines_do()
    assert node.wait_for_state(name, "done", "failed")["score"]["n"] == samples
    lines = node.stage_lines(name)
    assert len(lines) == len(set(lines)) == samples


def test_a_paused_job_keeps_what_it_has_and_its_engine_and_goes_on(node):
    name = underway(node, limit=LONG)
    item = only(paused(node, name, jobs=[name], why="wrong prompt?"))
    assert item["changed"]
    job = node.wait_for_state(name, "paused")
    assert job["detail"] == "wrong prompt?"
    assert node.runner_record(name).code == 16, "it ended between two batches"
    assert job["stages_done"] == len(node.stage_lines(name)) < LONG
    assert [engine["state"] for engine in node.api.get("/v1/status").value["engines"]] == ["ready"]
    again = only(post(node, "pause", jobs=[name]))
    assert (again["state"], again["changed"]) == ("paused", False)
    assert only(post(node, "resume", jobs=[name]))["changed"]
    whole(node, name, LONG)
    assert len(list(node.home.glob("runs/engines/e*"))) == 1, "the engine stayed warm"


def test_a_pause_that_is_taken_back_before_it_takes_effect_costs_nothing(node):
    name = underway(node)
    with ThreadPoolExecutor(1) as pool:  # it is answered once the batch has ended, or the hold is taken back
        pool.submit(post, node, "hold", jobs=[name], why="?")
        node.until(lambda: "is asked to finish its batch" in node.job(name).get("detail", ""), "it is asked")
        assert only(post(node, "release", jobs=[name]))["changed"]
        whole(node, name)
    assert node.job(name)["attempt"] == 1


def test_a_paused_queue_covers_what_runs_and_what_comes_and_survives_the_daemon(node):
    name = underway(node, limit=LONG)
    reply = paused(node, name, queue=True, why="training")
    assert [(p["scope"], p["why"]) for p in reply["pauses"]] == [("queue", "training")]
    (later,) = node.dispatch(limit=5)
    job = node.wait_for_state(name, "queued")
    node.kill()
    node.start()
    node.until(lambda: node.job(later).get("reason") == "paused", "the reason is shown")
    assert "the queue is paused by" in node.job(later)["detail"]
    assert "training" in " ".join(node.api.get("/v1/status").value["notes"])
    assert node.job(name)["attempt"] == job["attempt"] == 1
    assert node.job(name).get("stages_done", 0) < LONG
    assert not post(node, "pause", queue=True, off=True).get("pauses")
    whole(node, name, LONG)
    assert node.wait_for_state(later, "done")["score"]["n"] == 5


def test_a_model_and_a_group_are_paused_alone(node):
    post(node, "pause", model="builtin")
    post(node, "pause", group="night")
    (one,) = node.dispatch(limit=5, group="night")
    node.until(lambda: node.job(one).get("reason") == "paused", "it waits")
    post(node, "pause", model="builtin", off=True)
    node.until(lambda: "group night" in node.job(one).get("detail", ""), "it waits for its group")
    (other,) = node.dispatch(limit=6)
    node.wait_for_state(other, "done")
    assert node.job(one)["state"] == "queued"
    post(node, "pause", group="night", off=True)
    node.wait_for_state(one, "done")


def test_what_an_operator_holds_only_an_operator_releases(node):
    post(node, "pause", queue=True)
    (name,) = node.dispatch(limit=5)
    with pytest.raises(RwkvctlError, match="`why` may have 500 characters; there are 650"):
        post(node, "hold", jobs=[name], why="a whole novel" * 50)
    post(node, "hold", jobs=[name], why="rows are being checked")
    held = node.job(name)
    assert (held["reason"], held["detail"]) == ("held", "rows are being checked")
    post(node, "pause", queue=True, off=True)
    assert post(node, "resume", all=True)["items"] == []
    assert "rwkvctl release" in only(post(node, "resume", jobs=[name]))["error"]
    node.kill()
    node.start()
    node.look_at_held()
    assert node.job(name)["state"] == "held"
    assert only(post(node, "release", jobs=[name]))["changed"]
    whole(node, name, 5)


def test_a_hold_outlives_a_stop_and_a_resume(node):
    post(node, "pause", queue=True)
    (name,) = node.dispatch(limit=5)
    post(node, "hold", jobs=[name], why="rows are being checked")
    for resume in ({"jobs": [name]}, {"all": True}):
        assert only(post(node, "stop", jobs=[name]))["state"] == "stopped"
        wanted = {"models": ["builtin"], "only_datasets": ["demo_arith"], "limit": 5}
        (row,) = node.api.post("/v1/plan", {"selection": wanted}).value["rows"]
        assert (row["action"], row["reason"]) == ("skip", "held"), "neither does a dispatch let it go"
        assert only(post(node, "resume", **resume))["state"] == "held"
        held = node.job(name)
        assert (held["state"], held["reason"], held["detail"]) == ("held", "held", "rows are being checked")
    post(node, "stop", jobs=[name])
    assert only(post(node, "release", jobs=[name]))["changed"]
    assert node.job(name)["state"] == "stopped", "it is let go, and stays stopped"
    post(node, "pause", queue=True, off=True)
    post(node, "resume", jobs=[name])
    whole(node, name, 5)


def test_a_job_that_was_to_be_held_when_it_was_stopped_is_held_when_it_is_resumed(node):
    name = underway(node, limit=30)
    node.api.post("/v1/hold", {"jobs": [name], "why": "wrong prompt?"})
    post(node, "stop", jobs=[name])
    node.until(lambda: node.job(name)["state"] in {"stopped", "held"}, "its runner has ended")
    post(node, "stop", jobs=[name])
    assert only(post(node, "resume", jobs=[name]))["state"] == "held"
    assert node.job(name)["detail"] == "wrong prompt?"


def test_a_drain_lets_work_end_says_when_it_has_and_empties_the_engines(node):
    name = underway(node, limit=30)
    reply = post(node, "drain", why="new driver")
    assert reply["running"] == [name]
    (later,) = node.dispatch(limit=5)
    whole(node, name, 30)
    node.until(lambda: texts(node, "drained"), "the node says that it is idle")
    node.until(lambda: not node.api.get("/v1/status").value["engines"], "engines are unloaded")
    assert node.job(later)["state"] == "queued"
    assert "the node is draining" in node.job(later)["detail"]
    assert not post(node, "drain", off=True).get("pauses")
    node.wait_for_state(later, "done")


def test_priorities_change_live(node):
    post(node, "pause", queue=True)
    first, second = (node.dispatch(limit=limit)[0] for limit in (5, 6))
    assert only(post(node, "priority", jobs=[second], priority=5))["changed"]
    assert not only(post(node, "priority", jobs=[second], priority=5))["changed"]
    waiting = [job["id"] for job in node.api.get("/v1/status").value["waiting"]]
    assert waiting == [second, first]
    post(node, "pause", queue=True, off=True)
    for name in (first, second):
        node.wait_for_state(name, "done")
    assert node.job(second)["started"] <= node.job(first)["started"]
    assert "has no effect any more" in only(post(node, "priority", jobs=[first], priority=1))["error"]


def test_a_frozen_runner_is_stopped_all_the_same_and_each_step_is_said(new_node):
    node = new_node(stop_grace_s="0.3", stop_term_s="0.3").start()
    name = underway(node)
    os.kill(node.runner_record(name).pid, signal.SIGSTOP)
    item = only(post(node, "stop", jobs=[name]))
    assert (item["state"], item.get("still", "")) == ("stopped", "")
    record = node.runner_record(name)
    assert (record.done, record.signal) == (True, signal.SIGKILL)
    steps = texts(node, "job.pressed")
    assert ["asked to stop" in steps[0], "SIGTERM" in steps[1], "SIGKILL" in steps[2]] == [True] * 3
    only(post(node, "resume", jobs=[name]))
    whole(node, name)


def test_a_stop_goes_on_where_it_was_after_a_kill_of_the_daemon(new_node):
    node = new_node(stop_grace_s="600", stop_term_s="600").start()
    name = underway(node)
    os.kill(node.runner_record(name).pid, signal.SIGSTOP)
    node.settings["RWKVCTL_STOP_GRACE_S"] = "0.2"  # as the next daemon has it
    asked = post(node, "stop", jobs=[name])
    assert "is asked to stop" in only(asked)["still"]
    assert node.job(name)["state"] == "stopping"
    node.kill()
    node.start()
    node.until(lambda: any("SIGTERM" in text for text in texts(node, "job.pressed")), "it went on")
    assert node.job(name)["state"] == "stopping", "what still runs is not stopped"
    os.kill(node.runner_record(name).pid, signal.SIGCONT)
    node.wait_for_state(name, "stopped")


@pytest.mark.parametrize("point", [point for point in crash_points.POINTS if point.startswith("stop-")])
def test_a_stop_outlives_the_daemon_at_every_crash_point(new_node, point):
    node = new_node(stop_grace_s="20").start(RWKVCTL_CRASH_AT=point)
    name = underway(node)
    with contextlib.suppress(OSError, RwkvctlError):
        post(node, "stop", jobs=[name])
    assert node.daemon.wait(LIMIT_S) == -signal.SIGKILL
    node.start()
    job = node.wait_for_state(name, "stopped", "done", "failed")
    assert job["state"] == "stopped"
    record = node.runner_record(name)
    assert not worker_process.is_same(record.pid, record.pid_start)
    assert only(post(node, "resume", jobs=[name]))["changed"]
    whole(node, name)


def test_stop_of_a_model_and_of_all_leave_nothing_queued(node):
    post(node, "pause", queue=True)
    names = [node.dispatch(limit=limit)[0] for limit in (5, 6, 7)]
    assert post(node, "stop", model="no-such-model")["items"] == []
    assert {item["state"] for item in post(node, "stop", model="builtin")["items"]} == {"stopped"}
    assert {node.job(name)["state"] for name in names} == {"stopped"}
    assert post(node, "stop", all=True)["items"] == []
    assert {item["error"] for item in post(node, "resume", jobs=names, failed=True)["items"]} == {
        f"{name} is stopped, not failed" for name in names
    }


def test_a_job_that_stands_still_shows_its_stacks_and_starts_again(new_node, tmp_path):
    """What counts as a stall is short only while there is one: a slow start would count as well."""
    file = tmp_path / "config" / "rwkvctl" / "config.toml"
    file.parent.mkdir(parents=True)
    node = new_node()
    node.settings["XDG_CONFIG_HOME"] = str(tmp_path / "config")
    node.start()
    name = underway(node)
    os.kill(node.runner_record(name).pid, signal.SIGSTOP)
    file.write_text("stall_s = 1\n")
    post(node, "reload")
    node.until(lambda: texts(node, "job.stalled"), "the stall is noticed")
    file.write_text("")
    post(node, "reload")
    whole(node, name)
    assert node.job(name)["attempt"] >= 2
    assert "makes no progress" in texts(node, "job.stalled")[0]


def test_a_job_that_takes_engines_along_fails_alone(new_node):
    """Every engine that the first job goes on with crashes as soon as it is ready, and no other."""
    node = new_node(max_restarts="2").start()
    node.engines_do(slow_s=1.0)  # so that both are at work whenever an engine ends
    first, second = (node.dispatch(limit=limit)[0] for limit in (100, 99))
    for name in (first, second):
        node.wait_until_some(name, 1)

    def killed_until_it_ended() -> bool:
        ready = [engine["id"] for engine in node.api.get("/v1/status").value["engines"] if engine["state"] == "ready"]
        job = node.job(first)
        if job.get("engine") in ready and job["state"] not in {"failed", "done"}:
            kill_worker(node.engine_record(), signal.SIGSEGV)
        return job["state"] in {"failed", "done"}

    node.until(killed_until_it_ended, "the first job has ended")
    job = node.job(first)
    assert (job["state"], job["failure"]) == ("failed", "benchmark")
    assert "engines ended under it, and no other job was there" in job["detail"]
    assert any(text.startswith(f"{first} runs alone") for text in texts(node, "job.trial"))
    whole(node, second, 99)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: to mount a small tmpfs")
def test_too_little_room_pauses_what_runs_before_it_fails(new_node):
    node = new_node(min_free_disk_bytes=str(40 * 2**20), ballast_bytes=str(2**20))
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=80m", "tmpfs", str(node.home)], check=False).returncode:
        pytest.skip("needs mount: not allowed here")
    filler = node.home / "filler"
    try:
        node.start()
        name = underway(node, limit=LONG)
        with filler.open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, 45 * 2**20)
        finish_batches(node, name)
        node.until(lambda: node.job(name)["state"] in {"queued", "done"}, "it made place")
        assert "MiB are free under" in " ".join(node.api.get("/v1/status").value["notes"])
        attempt = node.job(name)["attempt"]
        assert node.runner_record(name).code == 16, "it ended between two batches, and not by an error"
        filler.unlink()
        whole(node, name, LONG)
        assert node.job(name)["attempt"] == attempt + 1
        node.until((node.home / "ballast").exists, "the ballast is taken where there is room")
    finally:
        node.close()
        subprocess.run(["umount", "--lazy", str(node.home)], check=False)
