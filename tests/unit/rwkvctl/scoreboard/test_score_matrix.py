"""What the matrix of scores shows: which rows and columns, which marks, over what a mean is, what was lost most."""

from typing import Any

import pytest

from rwkvctl.protocol.views import ComparisonView, JobView, MetricView, ModelView, ScoreView
from rwkvctl.scoreboard.book import Book, Key, Score, Value
from rwkvctl.scoreboard.matrix import (
    Choice,
    MatrixRow,
    groups,
    keys_of,
    mean,
    metrics_of,
    pair_of,
    rows_of,
    running_of,
    shared,
    titles_of,
    verdict_of,
    worst,
    worst_first,
)
from rwkvctl.tui.scores.columns import FIXED, MatrixView, columns, in_words, mark_of, score_cell
from rwkvctl.tui.widgets.matrix_table import seen, window

GSM: Key = ("gsm8k", "cot")
MMLU: Key = ("mmlu", "plain")


def view(job: int, model: str = "a", **more: Any) -> ScoreView:
    given = {
        "benchmark": "gsm8k", "kind": "cot", "version": 1, "primary": "accuracy", "n": 100, "rows": 100, "repeats": 1,
        "metrics": {"accuracy": MetricView(value=0.5, ci_low=0.4, ci_high=0.58)}, "finished": "2026-11-20T01:02:03Z",
    }  # fmt: skip
    return ScoreView(job=f"j{job}", model=model, **(given | more))


def score(value: float | None = 0.5, job: str = "j1", unit: str = "share", **more: Any) -> Score:
    return Score(job, "2026-11-20T01:02:03Z", "accuracy", {"accuracy": Value(value, 0.4, 0.58, unit)}, n=100, **more)


def compared(verdict: Any = "worse", change: float | None = -0.03, **more: Any) -> ComparisonView:
    difference = None if change is None else MetricView(value=change, ci_low=-0.05, ci_high=-0.01)
    given = {"benchmark": "gsm8k", "kind": "cot", "job_a": "j0", "job_b": "j1", "p": 0.01, "p_holm": 0.02}
    return ComparisonView(verdict=verdict, difference=difference, **(given | more))


def model(name: str, **more: Any) -> ModelView:
    return ModelView(name=name, path="", size_bytes=0, **more)


def test_a_job_that_was_graded_again_shows_its_new_score() -> None:
    book = Book()
    book.take([view(5), view(5, metrics={"accuracy": MetricView(value=0.75)})])
    found = book.models["a"][GSM].read()
    assert found is not None
    assert found.value == 0.75


def test_samples_without_a_verdict_are_missing_whatever_the_cause() -> None:
    book = Book()
    book.take([view(5, errors=2, unjudged=3)])
    assert book.models["a"][GSM].missing == 5


def test_the_newest_score_counts_and_an_import_never_hides_ours() -> None:
    book = Book()
    book.take([view(5), view(3), view(9, provenance={"imported": {}}), view(7, kind="param_search_1")])
    assert book.models["a"][GSM].job == "j5"
    assert set(book.models["a"]) == {GSM}
    before, revision = book.models["a"], book.revision
    book.take([view(4), view(5)])
    assert book.models["a"] is before, "nothing new: the row is the same"
    assert book.revision == revision
    book.take([view(6), view(6, benchmark="mmlu", kind="plain")])
    assert book.models["a"][GSM].job == "j6"
    assert (book.count, before[GSM].job) == (2, "j5")
    imported = Book()
    imported.take([view(9, provenance={"imported": {}})])
    assert imported.models["a"][GSM].imported
    imported.take([view(2)])
    assert imported.models["a"][GSM].job == "j2"
    book.forget()
    assert (book.models, book.complete) == ({}, False)


def test_a_score_of_all_rows_is_not_hidden_by_a_later_one_of_some() -> None:
    views = [view(3, partial=True), view(5), view(7, partial=True)]
    for order in (views, views[::-1]):
        book = Book()
        for one in order:
            book.take([one])
        (found,) = book.models["a"].values()
        assert (found.job, found.partial) == ("j5", False)
    some = Book()
    some.take([view(3, partial=True), view(7, partial=True)])
    assert [found.job for found in some.models["a"].values()] == ["j7"]


def test_the_newest_model_comes_first_and_each_has_the_one_before_it() -> None:
    models = [model("old", date="20250101"), model("new", date="20260101", previous="old"), model("gone"),
              model("unscored", date="20270101")]  # fmt: skip
    scores = {name: {GSM: score()} for name in ("old", "new", "gone", "unknown")}
    rows = rows_of(models, scores, {"starts": {GSM: 0.4}}, {("old", "new"): {GSM: compared()}}, Choice())
    assert [row.name for row in rows] == ["gone", "unknown", "new", "old", "starts"], "undated: when they were measured"
    assert [row.base for row in rows] == ["", "", "old", "", ""]
    assert rows[2].verdicts == {GSM: compared()}
    assert rows[3].verdicts is None
    chosen = rows_of(models, scores, {}, {}, Choice(baseline="gone"))
    assert {row.name: row.base for row in chosen} == {"gone": "", "unknown": "gone", "new": "gone", "old": "gone"}


def test_a_pinned_baseline_comes_before_the_previous_model_and_the_chosen_one_before_both() -> None:
    models = [model("old"), model("mid"), model("new", previous="mid", baseline="old")]
    scores = {name: {GSM: score()} for name in ("old", "mid", "new")}
    verdicts = {("old", "new"): {GSM: compared(unpaired=True, test="fisher")}}
    [row] = [row for row in rows_of(models, scores, {}, verdicts, Choice()) if row.name == "new"]
    assert (row.base, row.verdicts) == ("old", verdicts["old", "new"])
    said = "".join(text for text, _ in in_words(row, GSM, MatrixView([GSM])))
    assert "against old j0, not paired" in said
    chosen = rows_of(models, scores, {}, {}, Choice(baseline="mid"))
    assert {row.name: row.base for row in chosen} == {"old": "mid", "mid": "", "new": "mid"}


def test_rows_of_one_size_and_columns_of_one_domain() -> None:
    models = [model("small", parameters_b=0.1), model("large", parameters_b=7.2)]
    scores = {"small": {GSM: score()}, "large": {MMLU: score(), ("gsm8k", "plain"): score()}}
    domains = {"gsm8k": "free_response", "mmlu": "multi_choice", "unscored": "code"}
    rows = rows_of(models, scores, {}, {}, Choice())
    assert keys_of(rows, domains) == [GSM, ("gsm8k", "plain"), MMLU]
    assert keys_of(rows, domains, "multi_choice") == [MMLU]
    assert [row.name for row in rows_of(models, scores, {}, {}, Choice(size=7.2))] == ["large"]
    assert list(titles_of(keys_of(rows, domains)).values()) == ["gsm8k·cot", "gsm8k·plain", "mmlu"]
    offered = groups(models, scores, domains)
    assert [group.words for group in offered] == [
        "everything", "free_response", "multi_choice", "models of 0.1b", "models of 7.2b",
    ]  # fmt: skip
    assert offered[0].changes == {"domain": "", "size": None}
    assert metrics_of(rows) == ["accuracy"]


def test_what_runs_is_in_the_matrix_with_its_share() -> None:
    jobs = [
        JobView(id="j1", model="a", benchmark="gsm8k", kind="cot", state="generating", session="s", done=4, total=10),
        JobView(id="j2", model="a", benchmark="mmlu", kind="plain", state="queued", session="s", total=10),
        JobView(id="j3", model="b", benchmark="mmlu", kind="plain", state="starting", session="s"),
    ]
    assert running_of(jobs) == {"a": {GSM: 0.4}, "b": {MMLU: 0.0}}


def test_a_mean_is_over_what_every_scored_model_has_and_only_over_shares() -> None:
    bits: Key = ("text", "bits")
    full = MatrixRow("full", cells={GSM: score(0.4), MMLU: score(0.8), bits: score(0.9, unit="bits")})
    half = MatrixRow("half", cells={GSM: score(0.2), bits: score(0.8, unit="bits")})
    null = MatrixRow("null", cells={GSM: score(None), MMLU: score(0.1)})
    keys = [GSM, MMLU, bits]
    assert shared([full], keys) == [GSM, MMLU]
    assert shared([full, half, MatrixRow("only runs")], keys) == [GSM]
    assert shared([full, null], keys) == [MMLU]
    assert shared([], keys) == []
    assert shared([full], keys, "pass@4") == []
    assert mean(full, [GSM, MMLU]) == pytest.approx(0.6)
    assert mean(null, [GSM]) is None


def test_what_was_lost_most_is_found_whichever_way_is_better() -> None:
    bits: Key = ("text", "bits")
    views = {
        GSM: compared(change=-0.03), MMLU: compared("no difference shown", -0.05, benchmark="mmlu", kind="plain"),
        bits: compared(change=0.2, benchmark="text", kind="bits", lower_is_better=True),
        ("svamp", "cot"): compared("not comparable", None, benchmark="svamp"),
    }  # fmt: skip
    row = MatrixRow("a", base="b", cells=dict.fromkeys(views, score()), verdicts=views)
    assert [view.benchmark for view in worst_first(views.values())] == ["text", "mmlu", "gsm8k", "svamp"]
    assert worst(row, views) is views[bits]
    assert worst(row, [GSM]) is views[GSM]
    better = MatrixRow("a", base="b", cells={GSM: score()}, verdicts={GSM: compared("better", 0.1)})
    assert worst(better, [GSM]) is None
    other = MatrixRow("a", base="b", cells={GSM: score(job="j7")}, verdicts={GSM: compared()})
    assert verdict_of(other, GSM) is None, "the comparison is of another run than the one that is shown"
    assert verdict_of(row._replace(verdicts=None), GSM) is None


@pytest.mark.parametrize(
    ("row", "mark"),
    [
        (MatrixRow("a", cells={GSM: score()}), " "),
        (MatrixRow("a", base="b", cells={GSM: score()}, verdicts={GSM: compared()}), "▼"),
        (MatrixRow("a", base="b", cells={GSM: score()}, verdicts={GSM: compared("better", 0.1)}), "▲"),
        (MatrixRow("a", base="b", cells={GSM: score()}, verdicts={GSM: compared("no difference shown", 0.0)}), " "),
        (MatrixRow("a", base="b", cells={GSM: score()}, verdicts={GSM: compared("not comparable", None)}), "~"),
        (MatrixRow("a", base="b", cells={GSM: score(job="j9")}, verdicts={GSM: compared()}), "~"),
        (MatrixRow("a", cells={GSM: score(partial=True)}), "~"),
        (MatrixRow("a", cells={GSM: score(missing=3)}), "!"),
        (MatrixRow("a", cells={GSM: score(notes=("3 % of the samples were cut off",))}), "!"),
        (MatrixRow("a", cells={GSM: score(missing=3)}, running={GSM: 0.1}), "▸"),
    ],
)
def test_a_score_has_one_mark_the_most_pressing(row: MatrixRow, mark: str) -> None:
    assert mark_of(row, GSM, row.cells[GSM], Choice())[0] == mark
    text = score_cell(GSM, Choice(), row).text
    assert text == f"50.0{mark}"


def test_cells_say_intervals_what_runs_and_what_never_ran() -> None:
    row = MatrixRow("a", base="b", cells={GSM: score(), MMLU: score(None)}, verdicts={GSM: compared()})
    assert score_cell(GSM, Choice(intervals=True), row).text == "50.0±10.0▼"
    assert score_cell(GSM, Choice(intervals=True), row).plain == "50.0 ±10.0"
    assert score_cell(MMLU, Choice(), row).text == "– "
    assert score_cell(("x", "y"), Choice(), row).text.strip() == "·"
    assert score_cell(("x", "y"), Choice(), row._replace(running={("x", "y"): 0.383})).text == "▸ 38% "
    assert score_cell(GSM, Choice(metric="pass@4"), row).text.strip() == "–"
    said = "".join(text for text, _ in in_words(row, GSM, MatrixView([GSM])))
    assert said == " 50.0 ±10.0  j1, 100 samples  ▼ -3.0 p 0.0200 against b j0"
    refused = row._replace(verdicts={GSM: compared("not comparable", None, why="the rows are others")})
    assert "~ not comparable with b: the rows are others" in "".join(
        t for t, _ in in_words(refused, GSM, MatrixView([GSM]))
    )
    assert "R runs it" in in_words(row, ("x", "y"), MatrixView([GSM]))[0][0]


def test_the_worst_column_says_what_it_knows() -> None:
    shown = MatrixView([GSM], room=79)
    cell = {column.title: column.cell for column in columns(shown)}["WORST Δ"]
    row = MatrixRow("a", base="b", cells={GSM: score()}, verdicts={GSM: compared()})
    text = {name: cell(each) for name, each in {
        "worse": row, "none": row._replace(base=""), "asked": row._replace(verdicts=None),
        "better": row._replace(verdicts={GSM: compared("better", 0.1)}), "nothing": row._replace(verdicts={}),
    }.items()}  # fmt: skip
    assert str(text["worse"][0]) == "gsm8k ▼-3.0"
    assert [str(text[name][0]) for name in ("none", "asked", "better", "nothing")] == [
        "–", "…", "nothing worse", "~ not comparable",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("room", "intervals", "least"),
    [(79, False, 4), (79, True, 2), (119, False, 6), (119, True, 4), (199, False, 14), (199, True, 10)],
)
def test_columns_fit_the_terminal_and_scroll_whole(room: int, *, intervals: bool, least: int) -> None:
    keys = [(f"benchmark_{number:02d}", "cot") for number in range(80)]
    shown = MatrixView(keys, Choice(intervals=intervals), room=room)
    made = columns(shown)
    placed = seen(made, FIXED, 0, room - 1)
    assert placed[-1].x + placed[-1].width <= room - 1
    assert len(placed) - FIXED >= least
    for at in (FIXED, 40, len(made) - 1, 5):
        first = window(made, FIXED, 0, at, room - 1)
        assert at in [one.number for one in seen(made, FIXED, first, room - 1)]
    assert window(made, FIXED, 30, 20, room - 1) == 20 - FIXED
    few = columns(MatrixView(keys[:2], room=room))
    assert seen(few, FIXED, 0, room - 1)[-1].number == FIXED + 1
    assert sum(column.width for column in few) <= room


def test_a_pair_to_compare_is_the_older_and_the_newer() -> None:
    rows = [MatrixRow("new", base="mid"), MatrixRow("mid"), MatrixRow("old")]
    assert pair_of(rows, "new", []) == ["mid", "new"]
    assert pair_of(rows, "mid", []) == ["old", "mid"], "without a base: the next older one"
    assert pair_of(rows, "old", []) == []
    assert pair_of(rows, "old", ["new"]) == ["old", "new"]
    assert pair_of(rows, "mid", ["new", "old"]) == ["old", "new"]
    assert pair_of(rows, "new", ["new"]) == ["mid", "new"]
    assert pair_of(rows, "mid", ["new", "mid", "old"]) == []
    assert pair_of([], "", []) == []


def test_a_training_set_has_no_column() -> None:
    book = Book()
    book.take([view(1), view(2, benchmark="numina_math", training=True)])
    assert [key[0] for key in book.models["a"]] == [view(1).benchmark]
    jobs = [
        JobView(id="j1", model="a", benchmark="gsm8k", kind="cot", state="generating", session="s", done=4, total=10),
        JobView(id="j2", model="a", benchmark="numina_math", kind="cot", state="generating", session="s", total=10),
    ]
    assert running_of(jobs, {"numina_math"}) == {"a": {GSM: 0.4}}
