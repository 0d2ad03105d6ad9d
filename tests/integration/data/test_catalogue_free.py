"""The free-response sets among the real rows: prepared, counted, asked, and their references right by their graders."""

import json
from itertools import pairwise

import pytest

from rwkv_data.definition import registry
from rwkv_data.definition.answer import Answer
from rwkv_data.prepare import prepared_sets
from rwkv_data.prepare.prepare import prepare

SETS = [
    ("gsm8k", "gsm8k", 1319, True),
    ("math_500", "math_500", 500, True),
    ("hendrycks_math", "math", 5000, True),
    ("math_minerva", "math", 5000, True),
    ("minerva_ocw", "minerva_math", 272, True),
    ("aime24", "aime24", 30, True),
    ("aime24", "aime24/rwkv_skills_aime24_test.jsonl", 30, True),
    ("aime25", "aime25", 30, True),
    ("amc23", "amc23", 40, True),
    ("comp_math_24_25", "comp_math_24_25", 256, True),
    ("gaokao2023en", "gaokao2023en", 385, True),
    ("olympiadbench", "olympiadbench", 675, True),
    ("cmath", "cmath", 600, True),
    ("asdiv", "asdiv", 2215, False),
]
POOLS = {"gsm8k": 7473, "hendrycks_math": 7470}
ENDED = ("stop_token", "stop_token")


@pytest.fixture(scope="module")
def prepared(real_rows, tmp_path_factory):
    """The benchmark, its manifest, its rows and its examples, prepared once."""
    found = {}

    def of(name: str, place: str):
        if (name, place) not in found:
            data, benchmark = tmp_path_factory.mktemp("data"), registry.load(name)
            manifest = prepare(name, data, real_rows / place)
            pool = prepared_sets.load_pool(data, benchmark) if manifest.pool_rows else []
            found[name, place] = (benchmark, manifest, prepared_sets.load_rows(data, benchmark), pool)
        return found[name, place]

    return of


@pytest.mark.parametrize(("name", "place", "count", "complete"), SETS)
def test_every_row_is_there(prepared, name, place, count, complete) -> None:
    benchmark, manifest, rows, pool = prepared(name, place)
    assert (len(rows), manifest.rows, manifest.complete, manifest.left_out) == (count, count, complete, 0)
    assert len(pool) == POOLS.get(name, 0)
    assert len({row["question"] for row in rows}) > 0.98 * count
    for row in rows:
        benchmark.check_row(row)


@pytest.mark.parametrize(("name", "place"), [(name, place) for name, place, *_ in SETS])
def test_every_kind_asks_the_question_as_it_stands(prepared, name, place) -> None:
    benchmark, _, rows, pool = prepared(name, place)
    for kind in benchmark.kinds.values():
        asked = kind.asked(rows[:3], pool)
        for row in asked:
            assert row["question"].strip() in kind.prompt(0, row)
            assert kind.prompt(0, row).count("{") >= row["question"].count("{")
        if kind.name == "free_response":
            assert kind.prompt(0, asked[0]) == f"User: {rows[0]['question']}\n\nAssistant: <think"


@pytest.mark.parametrize(("name", "place"), [(name, place) for name, place, *_ in SETS if name != "math_minerva"])
def test_every_reference_is_right(prepared, name, place) -> None:
    benchmark, _, rows, _ = prepared(name, place)
    with benchmark.kinds["free_response"].grading() as grade:
        answers = [grade(row, Answer(row["answer"] + "}\\), since", ENDED)) for row in rows]
    refused = [(row["answer"], grade) for row, grade in zip(rows, answers, strict=True) if grade.value != 1]
    assert refused == []


@pytest.mark.parametrize("name", ["gsm8k", "aime24", "amc23"])
def test_another_rows_reference_is_right_only_where_it_is_the_same_number(prepared, name) -> None:
    benchmark, _, rows, _ = prepared(name, name)
    with benchmark.kinds["free_response"].grading() as grade:
        for row, other in pairwise(rows):
            same = float(row["answer"]) == float(other["answer"])
            assert grade(row, Answer(other["answer"] + "}", ENDED)).value == float(same)


def test_two_copies_of_aime24_agree(prepared) -> None:
    first, second = (prepared("aime24", place)[2] for place in ("aime24", "aime24/rwkv_skills_aime24_test.jsonl"))
    assert sorted(row["answer"] for row in first) == sorted(row["answer"] for row in second)


def test_math_500_is_part_of_math_with_the_same_answers(prepared) -> None:
    answers = {row["question"]: row["answer"] for row in prepared("hendrycks_math", "math")[2]}
    rows = prepared("math_500", "math_500")[2]
    other = [row for row in rows if answers.get(row["question"], "").replace(" ", "") != row["answer"].replace(" ", "")]
    assert len(other) <= 12


def test_gsm8k_examples_keep_the_whole_solution(prepared, real_rows) -> None:
    _, _, _, pool = prepared("gsm8k", "gsm8k")
    raw = [json.loads(line) for line in (real_rows / "gsm8k" / "train.jsonl").read_text().splitlines()]
    assert [example["target"] for example in pool] == [row["answer"] for row in raw]


def test_groups_are_those_of_the_sets(prepared) -> None:
    def groups(name: str, place: str) -> dict[str, int]:
        benchmark, _, rows, _ = prepared(name, place)
        values = [row[benchmark.default_kind.group_by] for row in rows]
        return {value: values.count(value) for value in sorted(set(values))}

    assert groups("hendrycks_math", "math") == {
        "Algebra": 1187,
        "Counting & Probability": 474,
        "Geometry": 479,
        "Intermediate Algebra": 903,
        "Number Theory": 540,
        "Prealgebra": 871,
        "Precalculus": 546,
    }
    assert groups("olympiadbench", "olympiadbench") == {
        "Algebra": 264,
        "Combinatorics": 154,
        "Geometry": 129,
        "Number Theory": 128,
    }
    assert groups("comp_math_24_25", "comp_math_24_25") == {"aime24": 30, "aime25": 30, "hmmt-24-25": 196}
    assert sum(groups("minerva_ocw", "minerva_math").values()) == 272
    assert set(groups("cmath", "cmath")) == set("123456")


def test_olympiads_keep_what_grading_needs(prepared) -> None:
    rows = prepared("olympiadbench", "olympiadbench")[2]
    assert sum(row["multiple"] for row in rows) == 94
    assert [row["tolerance"] for row in rows if "tolerance" in row] == ["1e-1"]
    assert sum("unit" in row for row in rows) == 8


def test_no_unit_stays_behind_an_answer_of_asdiv(prepared) -> None:
    rows = prepared("asdiv", "asdiv")[2]
    assert not any("(" in row["answer"] for row in rows)
    assert sum(row["answer"].isdigit() for row in rows) > 2000
