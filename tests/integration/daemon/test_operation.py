"""What an operator does with jobs at night: pause, hold, drain, priorities, stop; a real daemon, real workers."""

import contextlib
import json
import os
import signal
import subprocess
import time

import pytest

from rwkv_daemon import faults, processes
from rwkvctl.protocol.errors import RwkvctlError

LONG = {"limit": 80, "settings": {"k": "8", "temperature": "1.0"}}
SAMPLES = 640


def post(node, route: str, **body):
    return node.api.post(f"/v1/{route}", body).value


def only(reply):
    (item,) = reply["items"]
    return item


def texts(node, kind: str) -> list[str]:
    """The sentences of all stored events of a kind."""
    events = node.api.stream("/v1/events", 10.0, since=0, follow=False)
    return [event.get("text", "") for event in map(json.loads, events) if event["kind"] == kind]


def underway(node, stages: int = 40, **selection) -> str:
    (name,) = node.dispatch(**LONG | selection)
    node.wait_until_some(name, stages)
    return name


def whole(node, name: str, samples: int = SAMPLES) -> None:
    """The job ended with every sample, and nothing was generated twice."""
    assert node.wait_for_state(name, "done", "failed", timeout_s=240)["score"]["n"] == samples
    lines = node.stage_lines(name)
    assert len(lines) == len(set(lines)) == samples


def test_a_paused_job_keeps_what_it_has_and_its_engine_and_goes_on(node, tools):
    name = underway(node)
    item = only(post(node, "pause", jobs=[name], why="wrong prompt?"))
    assert item["changed"]
    job = node.wait_for_state(name, "paused")
    assert job["detail"] == "wrong prompt?"
    assert node.runner_record(name).code == 16, "it ended between two batches"
    assert job["stages_done"] == len(node.stage_lines(name)) < SAMPLES
    assert [engine["state"] for engine in node.api.get("/v1/status").value["engines"]] == ["ready"]
    again = only(post(node, "pause", jobs=[name]))
    assert (again["state"], again["changed"]) == ("paused", False)
    assert only(post(node, "resume", jobs=[name]))["changed"]
    whole(node, name)
    assert len(list((node.home / "runs/engines").iterdir())) == 1, "the engine stayed warm"


def test_a_pause_that_is_taken_back_before_it_takes_effect_costs_nothing(node, tools):
    name = underway(node)
    os.kill(node.runner_record(name).pid, signal.SIGSTOP)
    post(node, "hold", jobs=[name], why="?")
    assert "is asked to finish its batch" in node.job(name)["detail"]
    assert only(post(node, "release", jobs=[name]))["changed"]
    os.kill(node.runner_record(name).pid, signal.SIGCONT)
    whole(node, name)
    assert node.job(name)["attempt"] == 1


def test_a_paused_queue_covers_what_runs_and_what_comes_and_survives_the_daemon(node, tools):
    name = underway(node)
    reply = post(node, "pause", queue=True, why="training")
    assert [(p["scope"], p["why"]) for p in reply["pauses"]] == [("queue", "training")]
    (later,) = node.dispatch(limit=5)
    job = node.wait_for_state(name, "queued")
    node.kill()
    node.start()
    tools.wait_for(lambda: node.job(later).get("reason") == "paused", 30, "the reason is shown", node.log)
    assert "the queue is paused by" in node.job(later)["detail"]
    assert "training" in " ".join(node.api.get("/v1/status").value["notes"])
    assert node.job(name)["attempt"] == job["attempt"] == 1
    assert node.job(name).get("stages_done", 0) < SAMPLES
    assert not post(node, "pause", queue=True, off=True).get("pauses")
    whole(node, name)
    assert node.wait_for_state(later, "done")["score"]["n"] == 5


def test_a_model_and_a_group_are_paused_alone(node, tools):
    post(node, "pause", model="builtin")
    post(node, "pause", group="night")
    (one,) = node.dispatch(limit=5, group="night")
    tools.wait_for(lambda: node.job(one).get("reason") == "paused", 30, "it waits", node.log)
    post(node, "pause", model="builtin", off=True)
    tools.wait_for(lambda: "group night" in node.job(one).get("detail", ""), 30, "it waits for its group", node.log)
    (other,) = node.dispatch(limit=6)
    node.wait_for_state(other, "done")
    assert node.job(one)["state"] == "queued"
    post(node, "pause", group="night", off=True)
    node.wait_for_state(one, "done")


def test_what_an_operator_holds_only_an_operator_releases(node, tools):
    post(node, "pause", queue=True)
    (name,) = node.dispatch(**LONG | {"limit": 5})
    with pytest.raises(RwkvctlError, match="length <= 500"):
        post(node, "hold", jobs=[name], why="a whole novel" * 50)
    post(node, "hold", jobs=[name], why="rows are being checked")
    held = node.job(name)
    assert (held["reason"], held["detail"]) == ("held", "rows are being checked")
    post(node, "pause", queue=True, off=True)
    assert post(node, "resume", all=True)["items"] == []
    assert "rwkvctl release" in only(post(node, "resume", jobs=[name]))["error"]
    node.kill()
    node.start()
    time.sleep(2.5)  # a whole look at held jobs
    assert node.job(name)["state"] == "held"
    assert only(post(node, "release", jobs=[name]))["changed"]
    whole(node, name, 40)


def test_a_drain_lets_work_end_says_when_it_has_and_empties_the_engines(node, tools):
    name = underway(node, limit=60)
    reply = post(node, "drain", why="new driver")
    assert reply["running"] == [name]
    (later,) = node.dispatch(limit=5)
    whole(node, name, 480)
    tools.wait_for(lambda: texts(node, "drained"), 30, "the node says that it is idle", node.log)
    tools.wait_for(lambda: not node.api.get("/v1/status").value["engines"], 30, "engines are unloaded", node.log)
    assert node.job(later)["state"] == "queued"
    assert "the node is draining" in node.job(later)["detail"]
    assert not post(node, "drain", off=True).get("pauses")
    node.wait_for_state(later, "done")


def test_priorities_change_live(node, tools):
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
    assert "means nothing any more" in only(post(node, "priority", jobs=[first], priority=1))["error"]


def test_a_frozen_runner_is_stopped_all_the_same_and_each_step_is_said(new_node, tools):
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


def test_a_stop_goes_on_where_it_was_after_a_kill_of_the_daemon(new_node, tools):
    node = new_node(stop_grace_s="600", stop_term_s="600").start()
    name = underway(node)
    os.kill(node.runner_record(name).pid, signal.SIGSTOP)
    node.settings["RWKVCTL_STOP_GRACE_S"] = "0.2"  # as the next daemon has it
    asked = post(node, "stop", jobs=[name])
    assert "is asked to stop" in only(asked)["still"]
    assert node.job(name)["state"] == "stopping"
    node.kill()
    node.start()
    tools.wait_for(lambda: any("SIGTERM" in text for text in texts(node, "job.pressed")), 30, "it went on", node.log)
    assert node.job(name)["state"] == "stopping", "what still runs is not stopped"
    os.kill(node.runner_record(name).pid, signal.SIGCONT)
    node.wait_for_state(name, "stopped")


@pytest.mark.parametrize("point", [point for point in faults.POINTS if point.startswith("stop-")])
def test_a_stop_outlives_the_daemon_at_every_crash_point(new_node, point):
    node = new_node(stop_grace_s="20").start(RWKVCTL_CRASH_AT=point)
    name = underway(node)
    runner = node.runner_record(name).pid
    if point == "stop-after-intent":  # or it would have done all its work by the time there is a daemon again
        os.kill(runner, signal.SIGSTOP)
    with contextlib.suppress(OSError, RwkvctlError):
        post(node, "stop", jobs=[name])
    assert node.daemon.wait(timeout=60) == -signal.SIGKILL
    node.start()
    if point == "stop-after-intent":
        os.kill(runner, signal.SIGCONT)
    job = node.wait_for_state(name, "stopped", "done", "failed")
    assert job["state"] == "stopped"
    record = node.runner_record(name)
    assert not processes.is_same(record.pid, record.pid_start)
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


def test_a_job_that_stands_still_shows_its_stacks_and_starts_again(new_node, tools):
    node = new_node(stall_s="20").start()
    name = underway(node)
    os.kill(node.runner_record(name).pid, signal.SIGSTOP)
    tools.wait_for(lambda: texts(node, "job.stalled"), 60, "the stall is noticed", node.log)
    whole(node, name)
    assert node.job(name)["attempt"] >= 2
    assert "stands still" in texts(node, "job.stalled")[0]


def test_a_job_that_takes_engines_along_fails_alone(new_node, tools):
    """Every engine is killed as soon as it is ready while the first job is there, and none after that."""
    node = new_node(max_restarts="2").start()
    first, second = (node.dispatch(**LONG | {"settings": {"k": "8", "temperature": t}})[0] for t in ("1.0", "2.0"))
    for name in (first, second):
        node.wait_until_some(name, 1)
    while node.job(first)["state"] not in {"failed", "done"}:
        ready = [engine["id"] for engine in node.api.get("/v1/status").value["engines"] if engine["state"] == "ready"]
        if ready and node.job(first).get("engine"):
            tools.kill_worker(node.engine_record())
        time.sleep(0.02)
    job = node.job(first)
    assert (job["state"], job["failure"]) == ("failed", "benchmark")
    assert "engines ended under it, and no other job was there" in job["detail"]
    assert any(text.startswith(f"{first} goes on alone") for text in texts(node, "job.trial"))
    whole(node, second)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: to mount a small tmpfs")
def test_too_little_room_pauses_what_runs_before_it_fails(new_node, tools):
    node = new_node(min_free_disk_bytes=str(40 * 2**20), ballast_bytes=str(2**20))
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=80m", "tmpfs", str(node.home)], check=False).returncode:
        pytest.skip("needs mount: not allowed here")
    filler = node.home / "filler"
    try:
        node.start()
        name = underway(node, settings={"k": "20", "temperature": "1.0"})
        with node.engine_stands_still(), filler.open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, 45 * 2**20)
            tools.wait_for(
                lambda: "MiB are free under" in " ".join(node.api.get("/v1/status").value["notes"]),
                60, "the disk has been looked at", node.log,
            )  # fmt: skip
        tools.wait_for(lambda: node.job(name)["state"] in {"queued", "done"}, 60, "it made place", node.log)
        attempt = node.job(name)["attempt"]
        assert node.runner_record(name).code == 16, "it ended between two batches, and not by an error"
        filler.unlink()
        whole(node, name, samples=80 * 20)
        assert node.job(name)["attempt"] == attempt + 1
        tools.wait_for((node.home / "ballast").exists, 30, "the ballast is taken where there is room", node.log)
    finally:
        node.close()
        subprocess.run(["umount", "--lazy", str(node.home)], check=False)
