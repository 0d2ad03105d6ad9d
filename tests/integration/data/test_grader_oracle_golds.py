"""Every reference of the real sets, graded against itself, set differently, and against the next one."""

import json
import re
from collections.abc import Iterable
from itertools import pairwise
from typing import Any

import pytest
from golds import SETS, references

from rwkv_data.definition.answer import Answer
from rwkv_data.graders.maths import answer_text, minerva_ocw, olympiad
from rwkv_data.graders.maths.grader import GRADER, TEXT

EMPTY = {"gaokao2023en": 2}
"""References that are empty in the public file: no answer can be right."""


_GLITCH = "$145$solution:"
MISSED = {"gaokao2023en": [(_GLITCH, "Final Answer: The final answer is $145solution:$. I hope it is correct.")]}
"""What the chain does not find, because the reference in the public file is spoilt."""


SMALL = ("aime24", "amc23")


def few_or_all(names: Iterable[str]) -> list[Any]:
    """Return the small sets; the others are a slow part."""
    return [name if name in SMALL else pytest.param(name, marks=pytest.mark.slow("golds")) for name in names]


@pytest.fixture(scope="module")
def golds(real_rows):
    def of(name: str) -> list[str]:
        return references(real_rows, name)

    return of


def _set_differently(gold: str) -> list[str]:
    return [
        gold,
        f"${gold}$",
        f"{gold}.",
        gold.replace("\\frac", "\\dfrac"),
        gold.replace("\\text", "\\mbox"),
        gold.replace(",", ", ").replace("=", " = ").replace("+", " + "),
        f"\\displaystyle {gold}",
        gold + "}\\), since we are done",
    ]


@pytest.mark.parametrize("name", few_or_all(SETS))
def test_every_reference_is_right_however_it_is_set(golds, name: str) -> None:
    refused, empty = [], 0
    with GRADER.open() as grade:
        for gold in golds(name):
            empty += not gold
            forms = dict.fromkeys(_set_differently(gold)) if gold else []
            refused += [(gold, form) for form in forms if grade({"answer": gold}, Answer(form)).value != 1.0]
    assert refused == []
    assert empty == EMPTY.get(name, 0)


@pytest.mark.parametrize("name", few_or_all(["math_500", "gaokao2023en", "comp_math_24_25", "aime24", "cmath"]))
def test_every_reference_is_found_in_a_completion(golds, name: str) -> None:
    missed = []
    forms = ("So it is \\boxed{{{}}}.", "Final Answer: The final answer is ${}$. I hope it is correct.")
    with TEXT.open() as grade:
        for gold in filter(None, golds(name)):
            bare = re.sub(r"(?<!\\)\$", "", gold).rstrip(".")
            said = [form.format(bare) for form in forms]
            missed += [(gold, text) for text in said if grade({"answer": gold}, Answer(text)).value != 1.0]
    assert missed == MISSED.get(name, [])


@pytest.mark.slow("golds")
def test_what_only_mathematics_equates(golds) -> None:
    """Fractions as quotients, expanded roots and brackets: the text does not decide, so the worker must."""
    refused, tried = [], 0
    with GRADER.open() as grade:
        for gold in dict.fromkeys(golds("math_500")):
            form = re.sub(r"\\[dt]?frac\{(-?\d+)\}\{(\d+)\}", r"(\1/\2)", gold)
            form = re.sub(r"\\sqrt\{(\d+)\}", r"(\1)^{1/2}", form)
            if form == gold:
                continue
            tried += 1
            if grade({"answer": gold}, Answer(form)).value != 1.0:
                refused.append((gold, form))
    assert tried > 60
    assert refused == []


@pytest.mark.slow("golds")
def test_lists_of_olympiadbench_in_any_order(real_rows) -> None:
    lines = (real_rows / "olympiadbench" / "test.jsonl").read_text().splitlines()
    refused = []
    with olympiad.GRADER.open() as grade:
        for raw in map(json.loads, lines):
            row = {
                "answer": raw["final_answer"][0],
                "multiple": raw["is_multiple_answer"],
                "tolerance": raw["error"],
                "unit": raw["unit"],
            }
            forms = [row["answer"], ", ".join(reversed(olympiad.listed(row["answer"]))) if row["multiple"] else ""]
            forms.append(f"{row['answer']} {row['unit']}" if row["unit"] else "")
            refused += [form for form in filter(None, forms) if grade(row, Answer(form)).value != 1.0]
    assert refused == []


@pytest.mark.slow("golds")
def test_quantities_of_minerva_in_powers_of_ten_with_a_unit(golds) -> None:
    plain = [gold for gold in golds("minerva_math") if minerva_ocw.quantity(gold, unit=False) is not None]
    assert len(plain) == 192
    with minerva_ocw.GRADER.open() as grade:
        for gold in plain:
            value = minerva_ocw.quantity(gold, unit=False)
            power = f"{value:.6e}".replace("e", " \\times 10^{") + "}~\\mathrm{m/s}"
            assert grade({"answer": gold}, Answer(power)).value == 1.0, (gold, power)
            assert grade({"answer": gold}, Answer(f"{value * 1.1 if value else 1.0:.6e}")).value == 0.0, gold


@pytest.mark.slow("golds")
def test_neighbours_are_told_apart(golds) -> None:
    """Each reference of comp_math_24_25 against the next: equal only where both say the same."""
    same = []
    with GRADER.open() as grade:
        for gold, other in pairwise(golds("comp_math_24_25")):
            if grade({"answer": gold}, Answer(other)).value == 1.0:
                same.append((gold, other))
    assert all(answer_text.setting_aside(gold) == answer_text.setting_aside(other) for gold, other in same), same
