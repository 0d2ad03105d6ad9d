"""Training sets: which there are, what they share with their test sets, and which rows of NuminaMath each takes."""

import json
from pathlib import Path
from typing import Any

import pytest

from rwkv_data.__main__ import _unnamed
from rwkv_data.definition import registry
from rwkv_data.definition.benchmark import HubSource
from rwkv_data.definition.errors import PrepareError
from rwkv_data.definition.row_window import Extent
from rwkv_data.prepare import prepared_sets
from rwkv_data.prepare.prepare import prepare

EVERY = {name: registry.load(name) for name in registry.names()}
NUMINA = ("numina_amc_aime", "numina_math", "numina_olympiads")
SPLITS = {"apps_train": "apps", "gsm8k_train": "gsm8k", "math_train": "hendrycks_math", "taco_train": "taco"}


def test_what_is_prepared_unasked_has_no_training_set_and_no_rows_of_ones_own(tmp_path: Path) -> None:
    folder = tmp_path / "own_mine"
    folder.mkdir()
    (folder / "manifest.json").write_text("{}")
    unnamed = _unnamed(registry.Catalogue(data_dir=tmp_path))
    assert {"gsm8k", "apps", "taco", "hendrycks_math"} <= {*unnamed}
    assert not {*unnamed} & {*NUMINA, *SPLITS, "own_mine", "demo_arith"}


def test_a_training_set_says_so() -> None:
    training = {name for name, benchmark in EVERY.items() if benchmark.training}
    assert training == {*NUMINA, *SPLITS}
    assert all(EVERY[name].split == "train" and EVERY[name].licence for name in training)


@pytest.mark.parametrize(("name", "test"), SPLITS.items())
def test_a_split_is_asked_and_graded_like_its_test_set(name: str, test: str) -> None:
    training, tested = registry.load(name), registry.load(test)
    assert isinstance(training.source, HubSource)
    assert training.source.split == "train"
    assert (training.domain, training.licence) == (tested.domain, tested.licence)
    for kind in training.kinds.values():
        assert kind.configuration() == tested.kinds[kind.name].configuration()
        assert kind.grading_key() == tested.kinds[kind.name].grading_key()
    left_out = tested.kinds.keys() - training.kinds.keys()
    assert left_out == {one for one, kind in tested.kinds.items() if kind.profile == "lm-eval"}
    assert training.default_kind.name == tested.default_kind.name


@pytest.mark.parametrize("name", [*NUMINA, *SPLITS])
def test_no_question_can_be_its_own_example(name: str) -> None:
    benchmark = registry.load(name)
    assert benchmark.pool is None
    assert all(kind.shots is None or kind.shots.fixed for kind in benchmark.kinds.values())


def numina(source: str, solution: str | None, problem: str | None = "Why?") -> dict[str, Any]:
    return {"source": source, "problem": problem, "solution": solution, "messages": [{"role": "user", "content": "?"}]}


RAW = [
    numina("olympiads", "It is $\\boxed{3}$, so $\\boxed{4}$."),
    numina("math", "So $\\boxed{\\frac12}$."),
    numina("olympiads", "A proof."),
    numina("amc_aime", "$\\boxed{\\textbf{(B)}\\ 5}$"),
    numina("olympiads", "Nothing: $\\boxed{}$."),
    numina("olympiads", None),
    numina("olympiads", "$\\boxed{7}$", problem="  "),
    numina("synthetic_math", "$\\boxed{8}$"),
    numina("olympiads", "\\fbox{9}"),
    numina("olympiads", "It is $\\boxed{1}$, and so $\\boxed{12"),
]


@pytest.mark.parametrize(
    ("name", "answers", "left_out"),
    [
        ("numina_olympiads", ["4", "9"], 5),
        ("numina_math", ["\\frac12"], 0),
        ("numina_amc_aime", ["\\textbf{(B)}\\ 5"], 0),
    ],
)
def test_a_source_gives_the_problems_that_have_a_box(
    tmp_path: Path, name: str, answers: list[str], left_out: int
) -> None:
    path = tmp_path / "train.jsonl"
    path.write_text("".join(json.dumps(raw) + "\n" for raw in RAW))
    manifest = prepare(name, tmp_path / "data", path)
    rows = prepared_sets.load_rows(tmp_path / "data", registry.load(name))
    assert [row["answer"] for row in rows] == answers
    assert (manifest.left_out, manifest.rows_complete, manifest.training) == (left_out, 0, True)
    assert {row["source"] for row in rows} == {name.removeprefix("numina_")}
    assert all(row.keys() == {"question", "answer", "solution", "source"} for row in rows)
    assert manifest.fields["source"] == "text"


def test_a_file_without_the_source_is_no_set_of_it(tmp_path: Path) -> None:
    path = tmp_path / "train.jsonl"
    path.write_text(json.dumps(numina("math", "$\\boxed{1}$")))
    with pytest.raises(PrepareError, match="there are no rows for numina_olympiads"):
        prepare("numina_olympiads", tmp_path / "data", path)


def test_problems_are_picked_by_their_difficulty(tmp_path: Path) -> None:
    tests = json.dumps({"inputs": ["1\n"], "outputs": ["1\n"]})
    path, grades = tmp_path / "train.jsonl", ["EASY", "MEDIUM", "HARD", "MEDIUM"]
    raws = [
        {"question": f"Q{number}", "solutions": "[]", "input_output": tests, "difficulty": grade, "starter_code": ""}
        for number, grade in enumerate(grades)
    ]
    path.write_text("".join(json.dumps(raw) + "\n" for raw in [*raws, {**raws[0], "input_output": ""}]))
    manifest = prepare("taco_train", tmp_path / "data", path)
    taco = registry.load("taco_train")
    assert (manifest.rows, manifest.left_out) == (4, 1)
    kind = taco.default_kind.with_settings({"where": "difficulty=MEDIUM"})
    extent = prepared_sets.extent_of(tmp_path / "data", taco, manifest)
    assert isinstance(extent, Extent)
    assert list(kind.inside(extent)) == [1, 3]
    assert prepared_sets.ids_of_rows(tmp_path / "data", taco, manifest, [3]) == ["taco_train/3"]
