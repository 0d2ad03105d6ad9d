"""The runs behind a cell, the curves through them, subjects; and what a rerun asks."""

from typing import Any

import pytest

from rwkvctl.protocol.replies import PlanReply
from rwkvctl.protocol.requests import Selection
from rwkvctl.protocol.views import ComparisonView, MetricView, PlanRow, ScoreView
from rwkvctl.scoreboard.book import Key, Score, Value
from rwkvctl.scoreboard.matrix import MatrixRow
from rwkvctl.tui.dispatch import rerun
from rwkvctl.tui.scores import curves, runs
from rwkvctl.tui.scores.runs import ScoredRun, pair_of_runs, rate, runs_of, versus
from rwkvctl.tui.scores.subjects import subjects_of
from rwkvctl.tui.widgets.chart import Point

GSM: Key = ("gsm8k", "cot")
KNOWN = {
    "started": "2026-11-20T01:00:00Z", "attempts": 1, "generated_tokens": 60_000, "seed": 7, "limit": 40,
    "settings": {"temperature": "0.5"}, "engines": [{"engine_version": "0.4.1"}, {"engine_version": "0.4.1"}],
    "configuration": {"profile": "demo-v1", "profile_version": 2}, "weights_sha256": "9f31c0aa55",
}  # fmt: skip


def view(job: int, value: float | None = 0.5, **more: Any) -> ScoreView:
    metric = MetricView(value=value, ci_low=0.45, ci_high=0.58) if value is not None else MetricView(value=None)
    given = {"kind": "cot", "finished": "2026-11-20T01:01:00Z", "provenance": KNOWN, "metrics": {"accuracy": metric}}
    return ScoreView(job=f"j{job}", model="a", benchmark="gsm8k", version=job, primary="accuracy", n=40, rows=40,
                       repeats=1, **(given | more))  # fmt: skip


def compared(verdict: Any, change: float | None = None, **more: Any) -> ComparisonView:
    difference = None if change is None else MetricView(value=change)
    return ComparisonView(benchmark="gsm8k", kind="cot", verdict=verdict, difference=difference, **more)


def test_runs_are_paired_with_the_one_before() -> None:
    against = compared("worse", -0.032, p=0.0004, noted=("seed: 1 in A, 7 in B",))
    found = runs_of([view(9), view(7, kind="plain"), view(5), view(2)], "cot", {("j5", "j9"): against})
    assert [(run.view.job, run.before) for run in found] == [("j9", "j5"), ("j5", "j2"), ("j2", "")]
    assert [versus(run).text for run in found] == ["▼ -3.2 p 0.0004  seed: 1 in A, 7 in B", "…", "first"]
    differs = compared("not comparable", differs=("limit: 40 in A, 50 in B",), why="not the same in both: limit")
    assert versus(ScoredRun(view(9), "j5", differs)).text == "~ limit: 40 in A, 50 in B"
    assert versus(ScoredRun(view(9), "j5", compared("not comparable", why="A came without samples"))).text == (
        "~ A came without samples"
    )
    assert pair_of_runs(found, ["j9"]) == ["j5", "j9"]
    assert pair_of_runs(found, ["j9", "j2"]) == ["j2", "j9"]
    assert pair_of_runs(found, ["j2"]) == []
    assert pair_of_runs(found, []) == []


def test_a_run_says_what_it_was_made_with() -> None:
    run = ScoredRun(view(9, truncated=3))
    said = {column.title: column.exported(run) for column in runs.COLUMNS}
    assert said == {
        "RUN": "j9", "FINISHED": "26-11-20 01:01", "SCORE ±CI": "50.0 ±8.0", "N": "40", "CUT": "3", "TOK/S": "1,000",
        "PROMPT": "demo-v1/2", "SETTINGS": "temperature=0.5 limit=40", "SEED": "7", "ENGINE": "0.4.1",
        "WEIGHTS": "9f31c0", "CHANGE FROM PREVIOUS RUN (A)": "first",
    }  # fmt: skip
    assert rate(view(9, provenance=KNOWN | {"attempts": 2})) is None, "a pause would count as time at work"
    bare = ScoredRun(view(9, None, provenance={}))
    assert {column.title: column.exported(bare) for column in runs.COLUMNS}["SETTINGS"] == "default settings"
    assert rate(bare.view) is None
    assert runs.said(bare) == "–"


def cell(value: float | None, low: float | None = None, high: float | None = None, unit: str = "share") -> Score:
    return Score("j1", "", "accuracy", {"accuracy": Value(value, low, high, unit)})


def test_a_curve_is_of_one_size_oldest_first_on_round_numbers() -> None:
    rows = [
        MatrixRow("c", 0.4, "g1b", "20260301", cells={GSM: cell(0.723, 0.70, 0.748)}),
        MatrixRow("large", 7.2, "g1", "20260201", cells={GSM: cell(0.9)}),
        MatrixRow("b", 0.4, "g1", "20260101", cells={GSM: cell(0.65, 0.62, 0.68)}),
        MatrixRow("none", 0.4, cells={GSM: cell(None)}),
        MatrixRow("never", 0.4),
    ]
    found = curves.of_checkpoints(rows, rows[0], GSM)
    assert [point.label for point in found.points] == ["g1 0101", "g1b 0301"]
    assert [point.value for point in found.points] == pytest.approx([65.0, 72.3])
    assert found.points[0].low == pytest.approx(62.0)
    assert found.scale == (60.0, 80.0)
    assert found.title == "over the checkpoints of 0.4b"
    bits = curves.of_checkpoints([MatrixRow("x", cells={GSM: cell(0.731, unit="bits")})], MatrixRow("x"), GSM)
    assert [point.value for point in bits.points] == [0.731]
    assert bits.scale[0] <= 0.731 <= bits.scale[1]
    assert curves.of_checkpoints(rows, rows[0], ("x", "y")).scale == (0.0, 1.0)


def test_a_curve_of_one_point_gives_way_to_the_other() -> None:
    row = MatrixRow("a", 0.4, cells={GSM: cell(0.5)})
    several = runs_of([view(9, 0.4), view(5, 0.5)], "cot", {})
    over_runs = curves.pick([row], row, GSM, several, "", over_runs=False)
    assert [point.value for point in over_runs.points] == [50.0, 40.0]
    assert curves.pick([row], row, GSM, several[:1], "", over_runs=False).title == "over the checkpoints of 0.4b"
    assert curves.pick([row, row], row, GSM, several[:1], "", over_runs=True).title == "over the checkpoints of 0.4b"
    assert len(curves.of_runs([ScoredRun(view(n)) for n in range(100)]).points) == curves.LONGEST


@pytest.mark.parametrize(("value", "scale"), [(100.0, (99, 100)), (0.0, (0, 1)), (61.3, (61, 62))])
def test_a_flat_curve_without_intervals_has_a_scale(value: float, scale: tuple[float, float]) -> None:
    assert curves.rounded([Point(value), Point(value)]) == scale


def test_subjects_come_the_worst_first_after_all_of_them() -> None:
    groups = {"b": {"value": 0.9, "rows": 3}, "a": {"value": 0.2, "rows": 4}}
    found = subjects_of(view(1, provenance={"groups": groups}))
    assert [(subject.name, subject.value) for subject in found] == [("all subjects", 0.5), ("a", 0.2), ("b", 0.9)]
    assert subjects_of(view(1)) == []


def test_a_rerun_says_what_it_does_and_what_would_be_another() -> None:
    selection = Selection(
        models=("a b",), only_datasets=("gsm8k",), only_jobs=("cot",), limit=40, seed=7, numerics="fp32",
        settings={"temperature": "1.5"}, overwrite=True,
    )  # fmt: skip
    assert rerun.command(selection) == [
        "dispatch", "--models", "a b", "--only-datasets", "gsm8k", "--only-jobs", "cot", "--limit", "40", "--seed", "7",
        "--numerics", "fp32", "--set", "temperature=1.5", "--overwrite",
    ]  # fmt: skip
    rows = [PlanRow(model=f"m{n}", benchmark="gsm8k", kind="cot", action="run", reason="run", samples=40, est_s=90.0)
            for n in range(8)]  # fmt: skip
    rows += [PlanRow(model="x", benchmark="gsm8k", kind="cot", action="skip", reason="excluded")]
    plan = PlanReply(hash="h", rows=tuple(rows), counts={}, computed_ms=1.0, models=9, benchmarks=1)
    said = ["".join(text for text, _ in line) for line in rerun.question(selection, plan, ("the rows are others",))]
    assert said[0] == "Run 8 jobs again?"
    assert said[1] == "m0 gsm8k cot  40 samples  about 1m30s"
    assert "and 2 more" in said
    assert "differs  the rows are others" in said
    assert said[-1].startswith("same as  rwkvctl dispatch --models 'a b' --only-datasets gsm8k")
    held = PlanRow(model="m", benchmark="b", kind="k", action="hold", reason="data-missing", detail="no rows")
    assert rerun.line(held)[-1] == ("  held: no rows", "warn")
