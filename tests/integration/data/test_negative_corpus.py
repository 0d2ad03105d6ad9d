"""What graders must refuse: references changed in one place, hedges around them, and the references of other rows.

At most one in a thousand may be accepted; docs/graders.md has the figures and names what is left.
"""

import json
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from golds import SETS, references
from negatives import hedged, perturbed

from rwkv_data.definition.answer import Answer, Grade
from rwkv_data.definition.stage import Row
from rwkv_data.graders import letters
from rwkv_data.graders.maths import number
from rwkv_data.graders.maths.grader import GRADER
from rwkv_data.prepare.row_shapes import choice_bbh

MOST = 1 / 1000
SMALL = ("aime24", "aime25", "amc23")
FORMS = ("{}", "So the answer is {}.", "We add up and get {}", "so \\boxed{{{}}}")
Grading = Callable[[Row, Answer], Grade]


def refuses(grade: Grading, cases: Iterable[tuple[Row, str]]) -> None:
    """Fail with the accepted answers if they are more than one in a thousand."""
    asked, accepted = 0, []
    for row, answer in cases:
        asked += 1
        if grade(row, Answer(answer)).value == 1.0:
            accepted.append((row["answer"], answer))
    assert asked > 0
    assert len(accepted) <= asked * MOST, f"{len(accepted)} of {asked}: {accepted}"


def negatives(golds: list[str]) -> Iterator[tuple[Row, str]]:
    """Wrong answers to each reference."""
    for gold, other in pairwise([*golds, golds[0]]):
        row = {"question": "Q", "answer": gold}
        yield from ((row, text) for _, text in perturbed(gold))
        if other != gold:
            yield row, other
            yield from ((row, text) for _, text in hedged(gold, other))


@pytest.mark.parametrize(
    "name", [name if name in SMALL else pytest.param(name, marks=pytest.mark.slow("golds")) for name in SETS]
)
@pytest.mark.timeout(900)
def test_maths(real_rows: Path, name: str) -> None:
    with GRADER.open() as grade:
        refuses(grade, negatives([gold for gold in references(real_rows, name) if gold]))


def test_numbers(real_rows: Path) -> None:
    lines = (real_rows / "gsm8k" / "test.jsonl").read_text().splitlines()
    cases = list(negatives([json.loads(line)["answer"].rpartition("####")[2].strip() for line in lines]))
    refuses(number.grade, cases)
    for form in FORMS:
        refuses(number.grade_text, ((row, form.format(text)) for row, text in cases))


def test_letters(real_rows: Path) -> None:
    """Every other letter, each way to name two, to deny one, and to leave one out."""
    lines = (real_rows / "arc_challenge" / "ARC-Challenge-Test.jsonl").read_text().splitlines()
    refuses(letters.grade, (case for line in lines for case in _of_choices(json.loads(line))))


def _of_choices(raw: dict[str, Any]) -> Iterator[tuple[Row, str]]:
    choices = raw["question"]["choices"]
    texts, labels = [choice["text"] for choice in choices], [choice["label"] for choice in choices]
    gold = "ABCDEFGH"[labels.index(raw["answerKey"])]
    row = {"question": raw["question"]["stem"], "choices": texts, "answer": gold}
    for other in "ABCDEFGH"[: len(texts)].replace(gold, ""):
        yield row, f"The answer is ({other})."
        yield row, f"({other}) {texts['ABCDEFGH'.index(other)]}"
        for first, second in ((gold, other), (other, gold)):
            for said in (
                "The answer is {} or {}.", "It is either {} or {}", "The answer is ({}) and ({}).", "\\boxed{{{}, {}}}",
                "Both {} and {} are right", "Among {} through {}, none fits", "the answer is {}/{}",
            ):  # fmt: skip
                yield row, said.format(first, second)
    for said in (
        "It cannot be {}",
        "The answer is not {}.",
        "{} is wrong.",
        "The answer is anything except ({})",
        "It isn't {}",
    ):
        yield row, said.format(gold)


def test_big_bench_hard(real_rows: Path) -> None:
    cases: list[tuple[Row, str]] = []
    for file in sorted((real_rows / "bbh" / "bbh").glob("*.json")):
        examples = json.loads(file.read_text())["examples"]
        for example, following in pairwise([*examples, examples[0]]):
            gold, other = example["target"], following["target"]
            row = {"question": example["input"], "answer": gold, "task": file.stem}
            if gold == other:
                other = "(Z)" if gold.startswith("(") else f"{gold} {gold}"
            said = (other, f"{gold} or {other}", f"{other} or {gold}", f"not {gold}", f"either {gold} or {other}")
            cases += [(row, f"So the answer is {text}.") for text in said]
    refuses(choice_bbh.grade, cases)
