"""A job as clients see it: progress, ETA and the score so far."""

from dataclasses import replace
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rwkv_daemon.changes.job_view import as_data, job_view, running_score
from rwkv_daemon.recipes import rewriting
from rwkv_daemon.rules.forecast import ExpectedRun
from rwkv_daemon.store import JobRow
from rwkv_daemon.store.queries.jobs import as_json
from rwkv_data import writers
from rwkv_data.writers.split_rule import SplitRule
from rwkv_data.writers.writer_rule import WriterRule
from rwkvctl.protocol.views import JobView

JOB = JobRow(
    id=12, session="s", model="m", weights_path="/w/m.pth", weights_sha256="a", benchmark="gsm8k", kind="cot",
    version=2, state="generating", reason="", detail="", priority=0, generation_key="g", grade_key="h", settings="{}",
    configuration="{}", grader="number", grader_version="1", grading="{}", benchmark_version=1, rows_sha256="r",
    seed=42, row_limit=None, numerics="fp32", repeats=1, stages=2, total=100, done=40, stages_done=90, right_sum=10.0,
    attempt=1, restarts=0, engine=3, run_log_dir="", queued="2026-01-01T00:00:00.000Z", started="", finished="",
    judged=40,
)  # fmt: skip


def test_a_job_is_shown_by_the_names_the_operator_types() -> None:
    view = job_view(JOB)
    assert (view.id, view.engine, view.stages_done, view.stages_total) == ("j12", "e3", 90, 200)
    assert job_view(replace(JOB, engine=None)).engine == ""


@pytest.mark.parametrize(
    ("rate", "done", "eta"),
    [(None, 40, None), (2.0, 40, 30.0), (0.5, 99, 2.0), (2.0, 100, 0.0), (0.0, 40, None)],
)
def test_the_eta_is_what_is_left_at_the_present_rate(rate: float | None, done: int, eta: float | None) -> None:
    view = job_view(replace(JOB, done=done), rate=rate)
    assert view.eta_s == eta
    assert view.samples_per_s == rate


def test_a_job_that_starves_says_so_and_has_no_eta() -> None:
    view = job_view(JOB, rate=15.0, expected=ExpectedRun(0.0, 4.0, "cpu:0"), idle_s=100.0)
    assert (view.eta_s, view.idle_s) == (None, 100.0)


@pytest.mark.parametrize("rule", writers.RULES.values(), ids=lambda rule: rule.name)
def test_the_jobs_of_the_splitting_rule_alone_hold_variants(rule: WriterRule | SplitRule) -> None:
    what = as_json({rewriting.CONFIGURED: dict(rewriting.of_source(JOB, rule.label))})
    assert replace(JOB, source_job=3, configuration=what).has_variants == writers.splits(rule.label)
    assert not replace(JOB, configuration=what).has_variants


def test_there_is_no_running_score_before_the_first_sample() -> None:
    assert running_score(replace(JOB, done=0, right_sum=0.0, judged=0)) is None


@given(st.integers(1, 10_000), st.floats(0, 1))
def test_the_running_score_lies_in_its_interval_and_the_interval_in_zero_to_one(done: int, share: float) -> None:
    score = running_score(replace(JOB, done=done, right_sum=share * done, judged=done))
    assert score is not None
    assert score.value is not None
    assert score.ci_low is not None
    assert score.ci_high is not None
    assert 0 <= score.ci_low <= score.value <= score.ci_high <= 1
    assert score.value == pytest.approx(share)


def test_rounding_of_the_sum_never_shows_more_than_everything_right() -> None:
    score = running_score(replace(JOB, done=3, right_sum=3.0000000001, judged=3))
    assert score is not None
    assert score.value == 1.0


def test_samples_without_a_verdict_are_left_out_of_the_running_score() -> None:
    assert running_score(replace(JOB, done=40, right_sum=0.0, judged=0)) is None, "not 0.0: nothing is judged yet"
    score = running_score(replace(JOB, done=40, right_sum=10.0, judged=20))
    assert score is not None
    assert score.value == 0.5


def test_repeats_of_a_question_make_the_running_interval_no_narrower() -> None:
    once = running_score(replace(JOB, done=30, right_sum=15.0, judged=30))
    often = running_score(replace(JOB, done=480, right_sum=240.0, judged=480, repeats=16))
    assert often == once


@pytest.mark.parametrize("state", ["done", "failed", "stopped"])
def test_a_job_that_is_over_has_no_score_so_far(state: Any) -> None:
    assert running_score(replace(JOB, state=state)) is None


@pytest.mark.parametrize("changes", [{}, {"state": "done"}, {"reason": "retry", "detail": "again in 1 s"}])
def test_an_event_carries_the_same_view_as_a_reply(changes: dict[str, Any]) -> None:
    job = replace(JOB, **changes)
    assert msgspec.convert(as_data(job, rate=2.0), JobView) == job_view(job, rate=2.0)


def test_the_rows_that_are_picked_are_said() -> None:
    assert job_view(JOB).picks == ""
    assert job_view(replace(JOB, settings='{"k":"4","wheretofore":"1"}')).picks == ""
    picked = job_view(replace(JOB, settings='{"k":"4","rows":"0:9","where":"a=\\"x y\\""}'))
    assert picked.picks == 'rows=0:9 where=a="x y"'
    assert job_view(replace(JOB, settings='{"rows":"","where":"a=1"}')).picks == "where=a=1"
