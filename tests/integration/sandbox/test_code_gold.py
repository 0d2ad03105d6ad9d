"""The benchmarks' own solutions through their graders, and answers that must not pass."""

import gzip
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from rwkv_data.definition.answer import Answer, Grade
from rwkv_data.definition.grader import Grader, SandboxPlace
from rwkv_data.graders.code import graders

LARGE = {15, 36, 59}  # HumanEval+ tasks whose inputs take seconds of processor time each


some_or_all = pytest.mark.parametrize(
    "few", [True, pytest.param(False, marks=pytest.mark.slow("golds"))], ids=["a few", "all"]
)
FEW = 3


def some(rows: list[dict[str, Any]], few: bool) -> list[dict[str, Any]]:
    """A few rows of a set, or all of them."""
    return rows[:: len(rows) // FEW] if few else rows


def read(path: Path) -> list[dict[str, Any]]:
    text = gzip.decompress(path.read_bytes()).decode() if path.suffix == ".gz" else path.read_text()
    return [json.loads(line) for line in text.splitlines() if line.strip()]


def grades(grader: Grader, answers: list[tuple[dict[str, Any], str]]) -> list[Grade]:
    with grader.opened(SandboxPlace()) as grade:
        return [grade(row, Answer(text)) for row, text in answers]


def fenced(text: str) -> str:
    return f"Here it is:\n```python\n{text}\n```\n"


@some_or_all
def test_human_eval(real_rows: Path, few: bool) -> None:
    rows = some(read(real_rows / "human_eval" / "HumanEval.jsonl.gz"), few)
    found = grades(graders.human_eval(), [(row, row["canonical_solution"]) for row in rows])
    assert Counter(grade.reason for grade in found) == {"right": len(rows)}
    assert {(grade.value, grade.route) for grade in found} == {(1.0, "continuation")}


@some_or_all
def test_an_empty_body_solves_no_problem_of_human_eval(real_rows: Path, few: bool) -> None:
    rows = some(read(real_rows / "human_eval" / "HumanEval.jsonl.gz"), few)
    found = grades(graders.human_eval(), [(row, "    pass\n") for row in rows])
    assert Counter(grade.reason for grade in found) == {"wrong": len(rows)}


def test_the_samples_that_human_eval_checks_its_evaluator_with(real_rows: Path) -> None:
    (row,) = read(real_rows / "human_eval" / "example_problem.jsonl")
    samples = read(real_rows / "human_eval" / "example_samples.jsonl")
    found = grades(graders.human_eval(cpu_s=0.3), [(row, sample["completion"]) for sample in samples])
    assert [grade.reason for grade in found] == ["wrong", "timeout", "wrong", "right", "right", "right"]


NEEDS_SETUP = (367, 927)


@some_or_all
def test_mbpp(real_rows: Path, few: bool) -> None:
    """All 974, with the set-up code that lm_eval leaves out (two need it)."""
    every = read(real_rows / "mbpp" / "mbpp.jsonl")
    assert len(every) == 974
    rows = some(every, few) + [row for row in every if row["task_id"] in NEEDS_SETUP]
    found = grades(graders.mbpp(), [(row, fenced(row["code"])) for row in rows])
    bad = [(row["task_id"], grade) for row, grade in zip(rows, found, strict=True) if grade.reason != "right"]
    assert bad == []


def test_sanitized_mbpp_with_its_imports(real_rows: Path) -> None:
    rows = [row for row in json.loads((real_rows / "mbpp" / "sanitized-mbpp.json").read_text()) if row["test_imports"]]
    found = grades(graders.mbpp(), [(row, fenced(row["code"])) for row in rows])
    assert Counter(grade.reason for grade in found) == {"right": 13}


@some_or_all
def test_human_eval_plus(real_rows: Path, few: bool) -> None:
    rows = read(real_rows / "human_eval_plus" / "HumanEvalPlus.jsonl.gz")
    rows = some([row for row in rows if int(row["task_id"].split("/")[1]) not in LARGE], few)
    found = grades(graders.human_eval_plus(), [(row, row["canonical_solution"]) for row in rows])
    bad = [(row["task_id"], grade) for row, grade in zip(rows, found, strict=True) if grade.reason != "right"]
    assert bad == []
    assert {(grade.parts["base"], grade.parts["plus"]) for grade in found} == {(1.0, 1.0)}


def test_an_answer_that_only_the_plus_inputs_find_wanting(real_rows: Path) -> None:
    """HumanEval/0 with a wrong comparison at equality, which the base tests do not detect."""
    row = read(real_rows / "human_eval_plus" / "HumanEvalPlus.jsonl.gz")[0]
    loose = row["canonical_solution"].replace("return True", "return len(numbers) > 1 and numbers != [1.0, 2.0]")
    (grade,) = grades(graders.human_eval_plus(), [(row, "    return len(numbers) > 5 or len(numbers) == 4\n" + loose)])
    assert (grade.value, grade.parts["plus"]) == (0.0, 0.0)
    assert "gives" in grade.detail


@some_or_all
def test_mbpp_plus(real_rows: Path, few: bool) -> None:
    rows = some(read(real_rows / "mbpp_plus" / "MbppPlus.jsonl.gz")[::4], few)
    found = grades(graders.mbpp_plus(), [(row, fenced(row["canonical_solution"])) for row in rows])
    bad = [(row["task_id"], grade) for row, grade in zip(rows, found, strict=True) if grade.reason != "right"]
    assert bad == []


def test_apps(real_rows: Path) -> None:
    """Programs and functions; of the listed solutions, those that solve the task in Python 3."""
    seen: Counter[str] = Counter()
    for folder in sorted((real_rows / "apps" / "train").iterdir()):
        row = {"input_output": (folder / "input_output.json").read_text()}
        solutions = json.loads((folder / "solutions.json").read_text())[:4]
        found = grades(graders.apps(), [(row, fenced(solution)) for solution in solutions])
        seen.update(grade.reason for grade in found)
        assert grades(graders.apps(), [(row, fenced("print('nothing')"))])[0].reason == "wrong"
    assert seen == {"right": sum(seen.values())}


def test_livecodebench_examples(real_rows: Path) -> None:
    """The two functions of its one-shot examples on tests of our own."""
    rows = json.loads((real_rows / "livecodebench" / "func.json").read_text())
    tests = {"inputs": ["[4,4,2,4,3]", "[1,1,1,1,1]"], "outputs": ["3", "0"], "fn_name": "unequalTriplets"}
    answers = [fenced(rows[0]["answer"]), fenced(rows[0]["answer"].replace("== 3", "== 2")), "no code"]
    found = grades(graders.livecodebench(), [({"input_output": tests}, answer) for answer in answers])
    assert [grade.reason for grade in found] == ["right", "wrong", "no_answer"]
    assert found[1].detail == "test 1: Solution().unequalTriplets([4, 4, 2, 4, 3]) gives 6"
