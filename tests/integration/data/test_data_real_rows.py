"""The real rows of the public benchmarks, in every shape in which they are published."""

from dataclasses import replace
from itertools import pairwise

import pytest

from rwkv_data.definition import registry
from rwkv_data.definition.answer import Answer
from rwkv_data.graders.maths.grader import MathVerifyGrader
from rwkv_data.graders.maths.number import final_number
from rwkv_data.prepare import prepared_sets
from rwkv_data.prepare.prepare import prepare


@pytest.mark.parametrize(
    ("name", "file", "count"),
    [
        ("gsm8k", "", 1319),
        ("math_500", "", 500),
        ("mmlu", "", 14042),
        ("arc_challenge", "", 1172),
        ("arc_challenge", "ARC-Challenge-Test.jsonl", 1150),
        ("arc_challenge", "llm_adapters_test.json", 1172),
    ],
)
def test_every_row_is_there(real_rows, tmp_path, name: str, file: str, count: int) -> None:
    manifest = prepare(name, tmp_path, real_rows / name / file)
    rows = prepared_sets.load_rows(tmp_path, registry.load(name))
    assert len(rows) == manifest.rows == count
    assert manifest.complete == (count == registry.load(name).rows)


@pytest.mark.parametrize(
    ("name", "place", "count", "left_out"),
    [("gsm8k_train", "gsm8k", 7473, 0), ("math_train", "math", 7470, 4), ("apps_train", "apps", 5, 0)],
)
def test_training_sets_are_read_of_the_folders_of_their_test_sets(
    real_rows, tmp_path, name: str, place: str, count: int, left_out: int
) -> None:
    """The copy of MATH has answers only, four of them empty."""
    manifest = prepare(name, tmp_path, real_rows / place)
    assert (manifest.rows, manifest.left_out, manifest.training) == (count, left_out, True)
    assert len(prepared_sets.load_rows(tmp_path, registry.load(name))) == count


def test_real_rows_are_picked_by_their_fields(real_rows, tmp_path) -> None:
    manifest, math = prepare("math_500", tmp_path, real_rows / "math_500"), registry.load("math_500")
    assert manifest.fields == {"answer": "text", "id": "text", "level": "number", "subject": "text"}
    rows = prepared_sets.load_rows(tmp_path, math)
    kind = replace(math.default_kind, shots=None).with_settings({"where": "level>=4 subject='Number Theory'"})
    wanted = [row for row in rows if row["level"] >= 4 and row["subject"] == "Number Theory"]
    assert prepared_sets.load_asked(tmp_path, math, kind) == wanted
    assert kind.rows_asked(prepared_sets.extent_of(tmp_path, math, manifest)) == len(wanted) == 31
    assert prepared_sets.ids_of_rows(tmp_path, math, manifest, [0]) == ["test/precalculus/807.json"]


@pytest.fixture
def rows_of(real_rows, tmp_path):
    def rows(name: str, file: str = ""):
        prepare(name, tmp_path, real_rows / name / file)
        return prepared_sets.load_rows(tmp_path, registry.load(name))

    return rows


def test_mmlu_keeps_words_that_look_like_nothing(rows_of) -> None:
    rows = rows_of("mmlu")
    assert len({row["subject"] for row in rows}) == 57
    assert sum(choice in {"None", "N/A", "nan"} for row in rows for choice in row["choices"]) >= 10
    assert not any(choice == "" for row in rows for choice in row["choices"])


def test_two_shapes_of_arc_agree(rows_of) -> None:
    adapters = {row["question"]: row for row in rows_of("arc_challenge")}
    ai2 = rows_of("arc_challenge", "ARC-Challenge-Test.jsonl")
    same = [row for row in ai2 if adapters.get(row["question"], {}).get("choices") == row["choices"]]
    assert len(same) > 1130
    assert all(adapters[row["question"]]["answer"] == row["answer"] for row in same)
    assert {len(row["choices"]) for row in adapters.values()} == {3, 4, 5}


def test_every_gsm8k_reference_is_a_whole_number_and_right(rows_of) -> None:
    kind = registry.load("gsm8k").default_kind
    rows = rows_of("gsm8k")
    assert all(final_number(row["answer"]).value.denominator == 1 for row in rows)
    assert sum(row["answer"].startswith("-") for row in rows) == 2
    assert all(kind.grade(row, Answer(row["answer"] + "}\\)", ("stop_token",))).value == 1 for row in rows)


@pytest.mark.parametrize("ending", ["", "}\\), since we are done"])
def test_every_math_500_reference_is_right(rows_of, ending: str) -> None:
    rows = rows_of("math_500")
    with MathVerifyGrader() as worker:
        refused = [row["answer"] for row in rows if worker.grade(row, Answer(row["answer"] + ending)).value != 1]
    assert refused == []


@pytest.mark.slow("golds")
def test_references_are_told_apart(rows_of) -> None:
    """Compare each reference with the next row's: they are equal only where both are the same."""
    rows = rows_of("math_500")
    with MathVerifyGrader() as worker:
        right = [
            (row["answer"], other["answer"])
            for row, other in pairwise(rows)
            if worker.grade(row, Answer(other["answer"])).value != 0
        ]
    assert right == [("5", "x=5"), ("7", "7"), ("3", "3")]
