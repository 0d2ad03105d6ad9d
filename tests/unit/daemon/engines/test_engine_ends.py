"""What decides who is to blame for the end of an engine, without a process."""

from dataclasses import fields
from types import SimpleNamespace

import pytest

from rwkv_daemon.engines import engine_processes
from rwkv_daemon.gpus.condition_rules import ConditionRecord
from rwkv_daemon.gpus.known_gpus import Gpus
from rwkv_daemon.scheduling.lease_memory import FRESH_S
from rwkv_daemon.scheduling.live_engines import EngineHandle
from rwkv_daemon.store import EngineRow

NOW, DEADLINE_S = 1000.0, 5.0
LATEST_S = DEADLINE_S + engine_processes.NO_LOOK_S
RECORDS = SimpleNamespace(config=SimpleNamespace(settings=SimpleNamespace(sampler_deadline_s=DEADLINE_S)))
ROW = EngineRow(**{field.name: "" for field in fields(EngineRow)} | {"id": 1, "lease": "GPU-1"})


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_processes, "time", SimpleNamespace(monotonic=lambda: NOW))


def waits(ended_s_ago: float, seen_s_ago: float, lease: str = "GPU-1", trouble: str = "") -> bool:
    gpus = Gpus(tracker=None)  # which would read the processes of this machine
    gpus.watch_state.records[lease] = ConditionRecord()
    gpus.watch_state.seen_at, gpus.watch_state.trouble = NOW - seen_s_ago, trouble
    handle = EngineHandle(ROW, None, ended_at=NOW - ended_s_ago)
    return engine_processes.waits_for_a_look(RECORDS, gpus, handle)


def test_the_end_of_an_engine_waits_for_a_look_at_its_gpu() -> None:
    assert waits(ended_s_ago=1.0, seen_s_ago=2.0)
    assert waits(ended_s_ago=1.0, seen_s_ago=1.0 - FRESH_S / 2), "a look as it ended may have been too early"
    assert not waits(ended_s_ago=1.0, seen_s_ago=1.0 - FRESH_S)


def test_it_waits_for_no_look_that_does_not_come() -> None:
    assert waits(ended_s_ago=LATEST_S, seen_s_ago=LATEST_S + 1)
    assert not waits(ended_s_ago=LATEST_S + 1, seen_s_ago=LATEST_S + 2)
    assert not waits(ended_s_ago=1.0, seen_s_ago=2.0, trouble="the driver hangs")
    assert not waits(ended_s_ago=1.0, seen_s_ago=2.0, lease="GPU-2"), "its own GPU is not watched"
