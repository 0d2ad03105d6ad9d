"""What the comparison of two sides says: the family, the facts of one benchmark, its flips and why they were lost."""

from typing import Any

import pytest

from rwkvctl.protocol.views import ComparisonView, FlipView, MetricView, ScoreView
from rwkvctl.tui.scores.comparison import FAMILY, FLIPS, ComparedScores, facts, flipped, flips_of, flips_title, name_of
from rwkvctl.tui.widgets.table_columns import text_of

FLIPPED = (
    FlipView(row=1, value_a=1, value_b=0, sample_a=11, sample_b=21, after=0, expected="7", answer_a="7",
               reason_a="right", reason_b="no_answer", cut_b=True),
    FlipView(row=4, value_a=0, value_b=1, sample_a=14, sample_b=24, after=0, expected="8", answer_a="9", answer_b="8",
               reason_a="wrong", reason_b="right"),
    FlipView(row=6, value_a=1, value_b=0, sample_a=16, sample_b=26, after=0, answer_a="", answer_b="x",
               reason_a="right", reason_b="no_answer"),
    FlipView(row=9, value_a=0.5, value_b=0.25, sample_a=19, sample_b=29, after=0, reason_a="right", reason_b="wrong"),
)  # fmt: skip


def compared(**more: Any) -> ComparisonView:
    given = {
        "benchmark": "gsm8k", "kind": "cot", "verdict": "worse", "metric": "accuracy", "job_a": "j1", "job_b": "j2",
        "a": 0.781, "b": 0.749, "rows": 1319, "only_a": 69, "only_b": 27, "test": "mcnemar", "p": 0.00002,
        "p_holm": 0.0002, "flips": FLIPPED, "noted": ("seed: 1 in A, 2 in B",),
        "difference": MetricView(value=-0.032, ci_low=-0.046, ci_high=-0.017),
    }  # fmt: skip
    return ComparisonView(**(given | more))


def score(job: str, **more: Any) -> ScoreView:
    given = {"n": 1000, "truncated": 5, "no_answer": 3, "completion_tokens": 311.0, "finished": "2026-08-14T01:00:00Z"}
    return ScoreView(
        job=job, model="rwkv7-g1", benchmark="gsm8k", kind="cot", version=1, primary="accuracy", rows=1000, repeats=1,
        metrics={"accuracy": MetricView(value=0.781, ci_low=0.758, ci_high=0.802)}, **(given | more),
    )  # fmt: skip


def lines(view: ComparisonView, sides: ComparedScores, width: int) -> list[str]:
    return ["".join(text for text, _ in line).rstrip() for line in facts(view, sides, width, 8)]


@pytest.mark.parametrize("width", [80, 120, 200])
def test_facts_stand_in_columns(width: int) -> None:
    sides = ComparedScores(score("j1"), score("j2", truncated=38, no_answer=30, completion_tokens=352.0))
    said = lines(compared(), sides, width)
    column = (width - 13) // 3
    assert {line.find("B", 13 + column) for line in said[:1]} == {13 + column}
    assert [line[13 + 2 * column :][:6].strip() for line in said if line.startswith((" cut", " no a", " mean"))] == [
        "+3.3", "+2.7", "+41 to",
    ]  # fmt: skip
    assert said[1].startswith(" accuracy    78.1 ±2.3")
    assert "▼ -3.2  [-4.6, -1.7]" in said[1]
    assert said[1].endswith("1,319 rows") is (width >= 120)
    assert said[2] == " test        McNemar, exact  A✓B✗ 69  A✗B✓ 27  p <.0001  Holm over 8: p 0.0002"
    assert said[-1] == " settings    seed: 1 in A, 2 in B"


def test_what_is_not_known_or_not_comparable_is_said() -> None:
    refused = compared(verdict="not comparable", difference=None, p=None, p_holm=None, a=None, noted=(), flips=(),
                       why="not the same in both: limit", differs=("limit: 40 in A, 50 in B",))  # fmt: skip
    said = lines(refused, ComparedScores(), 80)
    assert said[0].split() == ["A", "j1", "B", "j2", "B", "-", "A"]
    assert said[1].split() == ["accuracy", "–", "74.9", "~", "not", "comparable"]
    assert said[2:] == [" test        none: not the same in both: limit", " settings    limit: 40 in A, 50 in B"]
    row = {column.field: column.exported(refused) for column in FAMILY}
    assert (row["verdict"], row["difference"], row["ci"], row["flips"]) == ("not comparable", "–", "–", "–")
    assert row["why"] == "not the same in both: limit"


def test_the_family_says_verdict_difference_and_p() -> None:
    row = {column.field: column.exported(compared()) for column in FAMILY}
    assert row == {
        "benchmark": "gsm8k", "kind": "cot", "verdict": "worse", "a": "78.1", "b": "74.9", "difference": "-3.2",
        "ci": "[-4.6, -1.7]", "flips": "69/27", "p": "0.0002", "why": "seed: 1 in A, 2 in B",
    }  # fmt: skip
    assert name_of(compared()) == "gsm8k cot"


def test_flips_are_lost_or_gained_for_a_reason() -> None:
    view = compared()
    every = flips_of(view)
    assert [(flip.view.row, flip.lost, flip.reason) for flip in every] == [
        (1, True, "cut off"), (4, False, "wrong"), (6, True, "no answer"), (9, True, "wrong"),
    ]  # fmt: skip
    assert [flip.view.row for flip in flips_of(view, "lost")] == [1, 6, 9]
    assert [flip.view.row for flip in flips_of(view, "gained")] == [4]
    assert [flip.view.row for flip in flips_of(view, grouped=True)] == [1, 6, 9, 4]
    lower = flips_of(compared(lower_is_better=True))
    assert [flip.lost for flip in lower] == [False, True, False, False]
    title = "".join(text for text, _ in flips_title(view, every, "lost"))
    assert title == (
        "Flips 96 of 1,319 (the first ones) · showing lost · lost 3: cut off 1, no answer 1, wrong 1 · gained 1"
    )
    cells = [[text_of(column.cell(flip)) for column in FLIPS] for flip in every]
    assert cells[0] == ["1", "✓", "✗", "7", "7", "–", "cut off"]
    assert cells[3][1:3] == ["0.5", "0.25"]


def test_what_is_not_paired_says_so_and_counts_no_flips() -> None:
    view = compared(unpaired=True, test="fisher", only_a=0, only_b=0, flips=())
    said = "\n".join(lines(view, ComparedScores(score("j1"), score("j2")), 150))
    assert "Fisher, exact, not paired  p " in said
    assert "A✓B✗" not in said
    assert "rows, not paired" in said
    assert flipped(view) == "–"


def test_what_a_given_score_does_not_say_is_not_shown_as_nothing() -> None:
    """How many of its answers were cut off, were none, or how long they were, is not known: 0 would be wrong."""
    given = score("j2", truncated=0, no_answer=0, completion_tokens=0.0, provenance={"given": True})
    view = compared(unpaired=True, test="fisher", only_a=0, only_b=0, flips=())
    said = lines(view, ComparedScores(score("j1"), given), 150)
    assert not [line for line in said if "0 (0.0 %)" in line or " 0 tok" in line]
