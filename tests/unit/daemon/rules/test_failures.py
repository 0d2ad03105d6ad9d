"""Who is to blame when something ends: exits, engines that die, jobs that stand still. Tables and rules only."""

import random
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rwkv_daemon.jobs import poison_jobs
from rwkv_daemon.rules import exit_codes
from rwkv_daemon.rules.exit_rules import EXITS, classify, wait_s
from rwkv_daemon.runner.__main__ import ENDS, how_it_ended
from rwkv_daemon.runner.engine_client import EngineRefusedError
from rwkv_daemon.runner.job_run import RunPausedError, RunStoppedError
from rwkv_daemon.runner.samples_file import DiskFullError
from rwkv_daemon.store import JobRow
from rwkv_daemon.workers import stall_detection

CODES = {name: code for name, code in vars(exit_codes).items() if name.isupper()}


def test_every_exit_code_of_the_runner_has_its_verdict_and_a_meaning_of_its_own() -> None:
    assert set(EXITS) == set(CODES.values())
    assert len(set(CODES.values())) == len(CODES)
    assert {code for _, code, _ in ENDS} <= set(EXITS)


@pytest.mark.parametrize(
    ("code", "words", "failure", "then"),
    [
        (None, "", "infrastructure", "retry"),  # a signal, or lost with its shim
        (1, "ModuleNotFoundError: No module named 'x'", "infrastructure", "retry"),
        (127, "cannot start python", "infrastructure", "retry"),
        (exit_codes.TROUBLE, "MemoryError: ", "infrastructure", "retry"),
        (exit_codes.DISK_FULL, "no space left", "infrastructure", "hold"),
        (exit_codes.BAD_ROWS, "the rows are not those", "benchmark", "hold"),
        (exit_codes.BROKEN, "KeyError: 'x'", "benchmark", "fail"),
        (exit_codes.REFUSED, "the engine answered 400: too long", "benchmark", "fail"),
        (exit_codes.REFUSED, "the engine answered 500: oops", "infrastructure", "retry"),
        (exit_codes.OUT_OF_TIME, "max_runtime_s = 5 is over", "benchmark", "fail"),
        (exit_codes.STOPPED, "stopped", "infrastructure", "yield"),
    ],
)
def test_classes(code: int | None, words: str, failure: str, then: str) -> None:
    verdict = classify(code, words)
    assert (verdict.failure, verdict.then) == (failure, then)
    assert bool(verdict.reason) == (then == "hold")


@given(st.integers(0, 30), st.integers())
def test_waits_grow_and_are_spread(restarts: int, seed: int) -> None:
    wait = wait_s(1.0, restarts, random.Random(seed))
    assert 0.5 * 2 ** min(restarts, 16) <= wait <= 1.5 * 2 ** min(restarts, 16)
    assert wait_s(0.0, restarts, random.Random(seed)) == 0.0


@pytest.mark.parametrize(
    ("errors", "code", "words"),
    [
        ([RunStoppedError()], exit_codes.STOPPED, "stopped"),
        ([RunPausedError()], exit_codes.PAUSED, "paused"),
        ([ValueError("x"), DiskFullError("no room")], exit_codes.DISK_FULL, "no room"),
        ([EngineRefusedError("the engine answered 400: x")], exit_codes.REFUSED, "the engine answered 400: x"),
        ([ConnectionResetError("gone")], exit_codes.TROUBLE, "ConnectionResetError: gone"),
        ([KeyError("rows")], exit_codes.BROKEN, "KeyError: 'rows'"),
    ],
)
def test_the_runner_says_how_it_ended(
    errors: list[Exception], code: int, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    nested = ExceptionGroup("tasks", [ExceptionGroup("feeders", errors)])
    assert how_it_ended(nested) == (code, words)
    unexpected = code in {exit_codes.TROUBLE, exit_codes.BROKEN}
    assert (type(errors[0]).__name__ in capsys.readouterr().err) is unexpected


def job(number: int, *, deaths: int = 0, died_at: int = 0, stages_done: int = 0) -> JobRow:
    return replace(BASE, id=number, engine_deaths=deaths, died_at=died_at, stages_done=stages_done)


BASE = JobRow(
    id=1, session="s", model="m", weights_path="/w", weights_sha256="f", benchmark="b", kind="k", version=1,
    state="generating", reason="", detail="", priority=0, generation_key="g", grade_key="g", settings="{}",
    configuration="{}", grader="g", grader_version="1", grading="{}", benchmark_version=1, rows_sha256="r", seed=0,
    row_limit=None, numerics="fp32", repeats=1, stages=1, total=10, done=0, stages_done=0, right_sum=0.0, attempt=1,
    restarts=0, engine=1, run_log_dir="", queued="", started="", finished="",
)  # fmt: skip


def test_deaths_count_in_a_row_and_afresh_once_a_job_gets_on() -> None:
    assert poison_jobs.deaths(job(1)) == 1
    assert poison_jobs.deaths(job(1, deaths=3, died_at=100, stages_done=130)) == 4
    assert poison_jobs.deaths(job(1, deaths=3, died_at=100, stages_done=100 + poison_jobs.PROGRESS)) == 1


@given(st.lists(st.integers(1, 6), min_size=1, max_size=6))
def test_the_suspect_is_the_one_with_most_deaths_and_of_those_the_first(counts: list[int]) -> None:
    counted = [(job(number), count) for number, count in enumerate(counts, 1)]
    suspect = poison_jobs.suspect_of(counted)
    if max(counts) < poison_jobs.SUSPECT:
        assert suspect is None
    else:
        assert suspect is not None
        assert suspect.id == 1 + counts.index(max(counts))


def test_only_a_job_that_was_alone_is_convicted() -> None:
    assert poison_jobs.is_poison([(job(1), 6)], 6)
    assert not poison_jobs.is_poison([(job(1), 5)], 6)
    assert not poison_jobs.is_poison([(job(1), 6), (job(2), 6)], 6)


@pytest.mark.parametrize(
    ("beat", "beat_age", "progress_age", "says"),
    [
        (1, 5, 5, ""),
        (1, 11, 5, "its process has not turned for 11 s"),
        (None, 11, 5, ""),  # a runner of the version before has no beat
        (1, 1, 11, "no token and no sample for 11 s"),
        (None, 11, 11, "no token and no sample for 11 s"),
    ],
)
def test_when_a_job_stands_still(beat: int | None, beat_age: float, progress_age: float, says: str) -> None:
    motion = stall_detection.Motion(
        stall_detection.LastChange(beat, 100 - beat_age), stall_detection.LastChange(0, 100 - progress_age)
    )
    assert stall_detection.verdict(motion, 100, 10) == says


@given(st.lists(st.tuples(st.integers(0, 3), st.floats(0, 5)), min_size=1, max_size=30))
def test_what_moves_is_never_stalled(looks: list[tuple[int, float]]) -> None:
    """However the values change, a change in each look keeps a clock within the longest gap."""
    clock, at = stall_detection.LastChange(-1, 0.0), 0.0
    for number, (_, gap) in enumerate(looks):
        at += gap
        clock.see(number, at)
    assert clock.at == at
    values = [value for value, _ in looks]
    same = all(a == b for a, b in pairwise(values))
    frozen = stall_detection.LastChange(values[0], 0.0)
    for value in values:
        frozen.see(value, at)
    assert (frozen.at == 0.0) is (same or at == 0.0)
