"""Kills from outside, again and again: no job fails by them, no sample, engine or GPU is blamed, and the operator is
told. The kills are real; what crashes by itself is still found to blame."""

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from live_node import kill_worker
from waiting import wait_for

from rwkv_daemon.rules import outside_kills
from rwkv_daemon.workers import worker_process
from rwkv_data.definition import registry
from rwkv_data.prepare import prepared_sets

LiveNode = Any
NewNode = Callable[..., Any]
OFTEN = 6
POISON = str(dict(prepared_sets.load_rows(Path(), registry.load("demo_arith"))[7])["question"])


def events(node: LiveNode, kind: str) -> list[dict[str, Any]]:
    found = map(json.loads, node.api.stream("/v1/events", 30.0, since=0, follow="no"))
    return [event for event in found if event["kind"] == kind]


def attempts(node: LiveNode, name: str) -> list[dict[str, Any]]:
    return list(node.api.get(f"/v1/jobs/{name}").value["item"].get("attempts", ()))


def end(node: LiveNode, record: Callable[[], worker_process.ShimRecord | None], number: int, times: int) -> None:
    """Send a signal to one worker after the other, as soon as it runs, and wait for the end of each."""
    for count in range(1, times + 1):
        node.until(lambda: kill_worker(record(), number), f"number {count} runs")
        node.until(lambda count=count: len(events(node, "killed")) >= count, f"the end of number {count} is told")


def at_work(node: LiveNode, **selection: Any) -> str:
    """A job with a runner, and an engine that gives no answer."""
    node.engines_do(answers=0)
    (name,) = node.dispatch(**{"limit": 20} | selection)
    node.until(lambda: node.runner_record(name), "its runner has been started")
    return str(name)


def check_unharmed(node: LiveNode, name: str, total: int = 20) -> None:
    """It came to its end as if nothing had been."""
    node.engines_do()
    job = node.wait_for_state(name, "done", "failed", "held")
    assert (job["state"], job.get("restarts", 0), job["score"]["n"]) == ("done", 0, total), job
    assert not [one for one in node.samples(name) if one.get("reason") == "error"]
    assert not events(node, "job.poison")
    assert not events(node, "job.trial")


@pytest.mark.parametrize(
    ("victim", "number"),
    [
        ("engine", signal.SIGKILL),
        ("runner", signal.SIGTERM),
        pytest.param("engine", signal.SIGTERM, marks=pytest.mark.slow("kills")),
        pytest.param("runner", signal.SIGKILL, marks=pytest.mark.slow("kills")),
    ],
)
def test_no_job_fails_however_often_somebody_else_ends_its_processes(
    new_node: NewNode, victim: str, number: int
) -> None:
    node = new_node(max_restarts="1").start()
    name = at_work(node)
    end(node, node.engine_record if victim == "engine" else lambda: node.runner_record(name), number, OFTEN)
    assert len(node.cli("events", "--kind", "killed", "-o", "tsv").stdout.splitlines()) >= OFTEN
    (note,) = [text for text in node.api.get("/v1/status").value["notes"] if "outside rwkvctl" in text]
    assert f"ended {OFTEN} of its processes within the hour" in note
    assert signal.Signals(number).name in note or (victim, number) != ("engine", signal.SIGKILL)
    assert [event["data"]["alarm"] for event in events(node, "killed")] == [n in {3, 6} for n in range(1, OFTEN + 1)]
    check_unharmed(node, name)


def test_an_engine_that_is_killed_while_it_loads_uses_up_no_try(new_node: NewNode) -> None:
    node = new_node(max_restarts="1").start()
    node.engines_do(answers=0)
    (name,) = node.dispatch(limit=20)
    end(node, node.engine_record, signal.SIGKILL, 4)
    check_unharmed(node, name)


def end_runner(node: LiveNode, name: str, number: int = signal.SIGKILL) -> None:
    """Kill a job's runner, and wait until another one has been started, or none will be."""
    before = node.job(name)["attempt"]
    node.until(lambda: kill_worker(node.runner_record(name), number), "its runner is there")

    def follows() -> bool:
        job = node.job(name)
        return job["state"] in {"held", "failed"} or job["attempt"] > before

    node.until(follows, "what follows")


def test_a_job_that_gets_nowhere_is_held_at_last_and_goes_on_when_it_is_resumed(new_node: NewNode) -> None:
    node = new_node(max_restarts="1", restart_backoff_s="0").start()
    name = at_work(node)
    for _ in range(outside_kills.MOST):
        end_runner(node, name)
    job = node.wait_for_state(name, "held")
    assert job["reason"] == "killed"
    assert f"{outside_kills.MOST} times in a row" in job["detail"]
    assert f"rwkvctl resume {name}" in job["detail"]
    node.cli("resume", name)
    check_unharmed(node, name)


@pytest.mark.slow("kills")
def test_kills_with_progress_between_them_are_never_too_many(new_node: NewNode) -> None:
    """The engine gives one more answer to each runner, which is stored before that one is killed."""
    node = new_node(max_restarts="1", restart_backoff_s="0").start()
    name = at_work(node, limit=2 * outside_kills.MOST)
    for count in range(1, outside_kills.MOST + 3):
        node.engines_do(answers=count)
        node.wait_until_some(name, count)
        end_runner(node, name)
    check_unharmed(node, name, 2 * outside_kills.MOST)


@pytest.mark.slow("kills")
def test_nor_are_kills_of_engines_that_got_on(new_node: NewNode) -> None:
    """Each engine gives one answer, which is stored before it is killed."""
    node = new_node(max_restarts="1", restart_backoff_s="0").start()
    node.engines_do(answers=1)
    (name,) = node.dispatch(limit=outside_kills.MOST + 5)
    for count in range(1, outside_kills.MOST + 3):
        node.wait_until_some(name, count)
        node.until(lambda: kill_worker(node.engine_record()), f"engine {count} runs")
    check_unharmed(node, name, outside_kills.MOST + 5)


def test_a_runner_that_crashes_by_itself_is_still_bounded(new_node: NewNode) -> None:
    node = new_node(max_restarts="1").start()
    name = at_work(node)
    for _ in range(2):
        end_runner(node, name, signal.SIGSEGV)
    job = node.wait_for_state(name, "failed")
    assert (job["failure"], "SIGSEGV" in job["detail"]) == ("infrastructure", True)
    assert not events(node, "killed")


def test_a_sample_that_crashes_engines_is_found_though_somebody_kills_them_too(new_node: NewNode) -> None:
    """Three crashes convict it; the kills before them count for nobody."""
    node = new_node().start()
    name = at_work(node, limit=30)
    end(node, node.engine_record, signal.SIGKILL, 3)
    node.engines_do(dies_on=POISON)
    job = node.wait_for_state(name, "done", "failed", "held")
    assert job["state"] == "done"
    (error,) = [one for one in node.samples(name) if one.get("reason") == "error"]
    assert "the engine died 3 times with this sample, the last time alone" in error["detail"]
    assert len(events(node, "killed")) == 3


def test_a_machine_that_goes_down_again_and_again_fails_no_job(new_node: NewNode) -> None:
    """Daemon, shims and workers at once, as when the power goes: five times, where one try is allowed."""
    node = new_node(max_restarts="1").start()
    name = at_work(node)
    for _ in range(5):
        node.until(lambda: alive(node.engine_record()) and alive(node.runner_record(name)), "both are at work")
        victims = [node.engine_record(), node.runner_record(name)]
        node.kill()
        for record in victims:
            os.kill(record.shim, signal.SIGKILL)
        for record in victims:
            wait_for(lambda one=record: not worker_process.is_same(one.pid, one.pid_start), "its worker follows")
        node.start()
    check_unharmed(node, name)


def alive(record: worker_process.ShimRecord | None) -> bool:
    return record is not None and not record.done and worker_process.is_same(record.pid, record.pid_start)
