"""What counts as a kill from outside, and what follows from several."""

import random
import signal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rwkv_daemon.rules import exit_rules, outside_kills
from rwkv_daemon.workers import shim
from rwkv_daemon.workers.worker_process import ShimRecord

IDENTITY = {"shim": 1, "shim_start": 1, "pid": 2, "pid_start": 2, "boot_id": "b"}
CRASHES = (signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGABRT, signal.SIGTRAP, signal.SIGSYS)
records = st.builds(
    lambda code, number, oom, done: ShimRecord(
        **IDENTITY, done=done, code=None if number else code, signal=number or None, oom=oom
    ),
    st.integers(0, 255), st.integers(0, 64), st.sampled_from([None, "", "cgroup", "machine"]), st.booleans(),
)  # fmt: skip


@given(records)
def test_an_error_of_its_own_is_never_called_a_kill_and_a_kill_never_an_error(record: ShimRecord) -> None:
    cause, engine = exit_rules.cause_of(record), exit_rules.engine_cause(record)
    if not record.done:
        assert cause == engine == "outside"
    elif record.signal in CRASHES or (record.signal is None and record.code):
        assert cause == engine == "fault"
    elif record.signal in {signal.SIGTERM, signal.SIGINT, signal.SIGHUP}:
        assert cause == engine == "outside"
    elif record.signal == signal.SIGKILL:
        assert cause == engine == ("outside" if record.oom == "" else "memory")
    elif record.signal is None:
        assert (cause, engine) == ("fault", "outside"), "an engine ends with 0 when it is sent SIGTERM"
    assert exit_rules.how(record)


def test_without_a_record_the_shim_was_killed_too() -> None:
    assert exit_rules.cause_of(None) == exit_rules.engine_cause(None) == "outside"
    assert exit_rules.how(None) == "killed together with its shim"


@pytest.mark.parametrize(
    ("number", "oom", "says"),
    [
        (signal.SIGKILL, "", "SIGKILL from outside"),
        (signal.SIGTERM, "", "SIGTERM from outside"),
        (signal.SIGKILL, "machine", "SIGKILL as the machine ran out of memory"),
        (signal.SIGKILL, "cgroup", "SIGKILL as it reached its memory limit"),
        (signal.SIGKILL, None, "SIGKILL"),
        (signal.SIGSEGV, "", "SIGSEGV"),
        (40, "", "signal 40"),
    ],
)
def test_an_operator_reads_what_it_was(number: int, oom: str | None, says: str) -> None:
    assert exit_rules.how(ShimRecord(**IDENTITY, done=True, signal=number, oom=oom)) == says  # type: ignore[arg-type]


@given(st.lists(st.integers(0, 3), max_size=60))
def test_kills_count_in_a_row_and_afresh_after_any_progress(steps: list[int]) -> None:
    """Each step: how many completions came before the next kill."""
    count, killed_at, done, expected = 0, 0, 0, 0
    for progress in steps:
        done += progress
        count, killed_at = outside_kills.in_a_row(count, killed_at, done), done
        expected = 1 if progress else expected + 1
        assert count == expected


@given(st.floats(0, 100), st.integers(1, 60), st.integers())
def test_pauses_grow_are_spread_and_have_an_end(base_s: float, count: int, seed: int) -> None:
    pause = outside_kills.pause_s(base_s, count, random.Random(seed))
    assert 0 <= pause <= outside_kills.LONGEST_S
    assert pause >= min(outside_kills.LONGEST_S, 0.5 * base_s * 2 ** min(count - 1, 16))
    assert outside_kills.pause_s(0.0, count, random.Random(seed)) == 0.0


def test_a_job_that_is_killed_for_ever_is_tried_for_hours_before_it_is_held() -> None:
    waits = [outside_kills.pause_s(1.0, count, random.Random(count)) for count in range(1, outside_kills.MOST)]
    assert sum(waits) > 3600


def test_a_kill_that_could_not_be_stored_at_once_is_counted_once() -> None:
    recent = outside_kills.RecentKills()
    for at in range(10):
        assert not recent.note(at, "e1", "e1")
    assert recent.count(10.0) == 1


@given(st.lists(st.floats(0, 2000), min_size=1, max_size=100))
def test_the_alarm_is_raised_at_the_third_and_then_more_rarely(gaps: list[float]) -> None:
    recent, at, times = outside_kills.RecentKills(), 0.0, list[float]()
    for number, gap in enumerate(gaps):
        at += gap
        times = [*(one for one in times if at - one <= outside_kills.WINDOW_S), at]
        alarm = recent.note(at, f"e{number}", number)
        assert recent.count(at) == len(times)
        assert alarm == (len(times) in {3 * 2**power for power in range(10)})
        said = recent.sentence(at)
        assert bool(said) == (len(times) >= outside_kills.TOLD)
        assert not said or (f"ended {len(times)} of its processes" in said and f"e{number}" in said)
    assert not recent.sentence(at + outside_kills.WINDOW_S + 1)


def test_the_kernels_counters_are_evidence_and_what_cannot_be_read_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "memory.events").write_text("low 0\noom 1\noom_kill 0\noom_group_kill 0\n")
    assert shim.counter(str(tmp_path / "memory.events"), "oom_kill") == 0
    assert shim.counter(str(tmp_path / "none"), "oom_kill") is None
    assert shim.counter(str(tmp_path / "memory.events"), "nothing") is None
    killed: list[int | None] = [5]
    monkeypatch.setattr(shim.OomWatch, "killed", lambda _self: killed[0])
    memory = shim.OomWatch(str(tmp_path))
    assert memory.verdict() == ""
    killed[0] = 6
    for _ in range(2 * shim.MEMORY_EVERY):
        memory.look()
        assert memory.verdict() == "machine", "a large process takes a while to be gone"
    for _ in range(2 * shim.MEMORY_EVERY):
        memory.look()
    assert memory.verdict() == "", "it is long ago"
    (tmp_path / "memory.events").write_text("oom_kill 1\n")
    assert memory.verdict() == "cgroup"
    killed[0] = None
    assert shim.OomWatch("").verdict() is None
