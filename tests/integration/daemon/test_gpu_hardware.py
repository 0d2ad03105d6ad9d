"""Errors of a GPU's memory under a running job, on a staged NVML: what `gpus` says, whether the GPU is still used, and
what becomes of the job: it goes on, there or elsewhere, and is never blamed."""

import contextlib
import json
import signal
import sqlite3
from collections.abc import Callable
from typing import Any

import pytest
from live_node import kill_worker

LiveNode = Any
NewNode = Callable[..., Any]
TEST_DEVICE = {"RWKVCTL_TEST_DEVICE": "cpu"}
LIMIT = 20


def gpus(node: LiveNode) -> dict[int, dict[str, Any]]:
    """The GPUs as `rwkvctl gpus` shows them, by index."""
    return {int(item["index"]): item for item in node.api.get("/v1/gpus").value["items"]}


def condition(node: LiveNode, index: int) -> str:
    return str(gpus(node)[index].get("condition", "ok"))


def events(node: LiveNode, kind: str) -> list[dict[str, Any]]:
    found = map(json.loads, node.api.stream("/v1/events", 30.0, since=0, follow="no"))
    return [event for event in found if event["kind"] == kind]


def starts(node: LiveNode) -> list[str]:
    """The leases of all engines that were ever ready."""
    data = [event["data"] for event in events(node, "engine.state")]
    return [one["lease"] for one in data if one["state"] == "ready"]


def deaths(node: LiveNode, name: str) -> tuple[int, int, int]:
    """What is held against a job: engines that died under it, kills, and tries that it has used."""
    with contextlib.closing(sqlite3.connect(node.home / "store.sqlite")) as store:
        found = store.execute(
            "SELECT engine_deaths, kills, restarts FROM job WHERE id = ?", (int(name[1:]),)
        ).fetchone()
    return tuple(found)


@pytest.fixture
def begun(fake_nvml: Any, new_node: NewNode) -> tuple[LiveNode, str, int]:
    """A node with two GPUs, a job in the middle, and the GPU on which its engine computes."""
    fake_nvml.gpus(2)
    node = new_node(max_restarts="1").start(**TEST_DEVICE)
    node.until(lambda: [item["use"] for item in gpus(node).values()] == ["free", "free"], "both GPUs are free")
    node.engines_do(answers=5)
    (name,) = node.dispatch(limit=LIMIT)
    node.wait_until_some(name, 5)
    node.until(lambda: "leased" in [item["use"] for item in gpus(node).values()], "its lease is seen")
    return node, name, next(index for index, item in gpus(node).items() if item["use"] == "leased")


def finish(node: LiveNode, name: str) -> dict[str, Any]:
    node.engines_do()
    job = node.wait_for_state(name, "done", "failed", "held")
    assert (job["state"], job.get("restarts", 0), job["score"]["n"]) == ("done", 0, LIMIT), job
    assert deaths(node, name) == (0, 0, 0)
    assert not [one for one in node.samples(name) if one.get("reason") == "error"]
    assert not [kind for kind in ("job.poison", "job.trial", "killed") if events(node, kind)]
    return dict(job)


def next_starts_on(node: LiveNode, fake_nvml: Any) -> int:
    """Where an engine is started now: the one that is there is killed, which is held against nobody."""
    before = len(starts(node))
    assert kill_worker(node.engine_record())
    node.wait_until_cold()
    (name,) = node.dispatch(only_datasets=["demo_choice"], limit=3)
    node.wait_for_state(name, "done")
    (lease,) = starts(node)[before:]
    return next(index for index in (0, 1) if fake_nvml.uuid(index) == lease)


@pytest.mark.parametrize(
    ("values", "code", "reason"),
    [
        ({"ecc": 2}, 0, "2 uncorrectable memory errors (ECC)"),
        ({"failed": 1}, 0, "a bad memory row could not be remapped: it needs replacing"),
        ({"recovery": 4}, 0, "the driver advises: drain and reset the GPU"),
        ({}, 48, "XID 48 (uncorrectable memory error)"),
        ({}, 64, "XID 64 (memory row could not be remapped)"),
        ({}, 95, "XID 95 (memory error, not contained)"),
    ],
)
def test_a_gpu_whose_memory_is_broken_is_quarantined_and_the_job_goes_on_elsewhere(
    begun: tuple[LiveNode, str, int], fake_nvml: Any, values: dict[str, int], code: int, reason: str
) -> None:
    node, name, bad = begun
    first = node.engine_record()
    fake_nvml.gpu(bad, **values)
    if code:
        fake_nvml.xid(bad, code)
    node.until(lambda: condition(node, bad) == "quarantined", "it is quarantined")
    assert gpus(node)[bad]["reason"] == reason
    assert condition(node, 1 - bad) == "ok"
    assert reason in node.cli("gpus").stdout
    finish(node, name)
    node.until(lambda: node.worker(node.home / "runs/engines/e1/record.json").done, "its engine leaves the GPU")
    (again,) = node.dispatch(only_datasets=["demo_choice"], limit=3)
    node.wait_for_state(again, "done")
    assert node.engine_record().pid != first.pid
    assert set(starts(node)[1:]) == {fake_nvml.uuid(1 - bad)}
    assert condition(node, bad) == "quarantined", "until somebody has seen to it"


def test_while_rows_wait_to_be_remapped_the_job_goes_on_there_and_no_new_engine_comes(
    begun: tuple[LiveNode, str, int], fake_nvml: Any
) -> None:
    node, name, bad = begun
    first = node.engine_record()
    fake_nvml.gpu(bad, pending=1)
    node.until(lambda: condition(node, bad) == "suspect", "it is suspect")
    assert gpus(node)[bad]["reason"] == "memory rows wait to be remapped: reset the GPU when it is idle"
    finish(node, name)
    assert node.engine_record().pid == first.pid, "its engine went on"
    assert next_starts_on(node, fake_nvml) == 1 - bad


def test_a_row_that_was_remapped_and_a_contained_error_leave_the_gpu_in_use(
    begun: tuple[LiveNode, str, int], fake_nvml: Any
) -> None:
    """63 is told and counts for nothing, 94 is counted; whoever was hit by it ends, which is the next test."""
    node, name, bad = begun
    first = node.engine_record()
    fake_nvml.xid(bad, 63).xid(bad, 94)
    node.until(lambda: len(events(node, "gpu.xid")) == 2, "both are told")
    assert [event["text"].partition(": ")[2] for event in events(node, "gpu.xid")] == [
        "XID 63 (memory row remapped)", "XID 94 (memory error, contained to one application)",
    ]  # fmt: skip
    assert condition(node, bad) == "ok"
    finish(node, name)
    assert node.engine_record().pid == first.pid
    assert not events(node, "gpu.state")


@pytest.mark.parametrize("code", [48, 79, 94])
def test_an_engine_that_its_gpu_ended_is_held_against_the_gpu_and_not_against_the_job(
    begun: tuple[LiveNode, str, int], fake_nvml: Any, code: int
) -> None:
    """It aborts, as CUDA has it, and what the driver says of the hardware is only seen after that."""
    node, name, bad = begun
    assert kill_worker(node.engine_record(), signal.SIGABRT)
    fake_nvml.xid(bad, code)
    node.until(lambda: len(starts(node)) > 1, "another engine is ready")
    assert starts(node)[-1] == fake_nvml.uuid(1 - bad)
    finish(node, name)
    (told,) = [event["text"] for event in events(node, "engine.state") if "is failed" in event["text"]]
    assert "(SIGABRT) because of its GPU: XID" in told
    assert condition(node, bad) == ("cooldown" if code == 94 else "quarantined")


def test_an_engine_that_aborts_without_a_word_from_the_hardware_counts_with_its_job(
    begun: tuple[LiveNode, str, int], fake_nvml: Any
) -> None:
    node, name, _ = begun
    assert kill_worker(node.engine_record(), signal.SIGABRT)
    node.until(lambda: len(starts(node)) > 1, "another engine is ready")
    assert deaths(node, name) == (1, 0, 0)
    node.engines_do()
    assert node.wait_for_state(name, "done", "failed")["state"] == "done"


def test_a_gpu_is_not_blamed_for_kills_from_outside(begun: tuple[LiveNode, str, int], fake_nvml: Any) -> None:
    """Three engines that end abnormally within an hour would quarantine it."""
    node, name, bad = begun
    for count in range(1, 5):
        node.until(lambda: kill_worker(node.engine_record()), f"engine {count} runs")
        node.until(lambda count=count: len(events(node, "killed")) >= count, "it is told")
    assert [condition(node, index) for index in (bad, 1 - bad)] == ["ok", "ok"]
    node.engines_do()
    assert node.wait_for_state(name, "done", "failed")["state"] == "done"
    assert deaths(node, name)[::2] == (0, 0)
