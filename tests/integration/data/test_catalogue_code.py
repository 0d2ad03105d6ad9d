"""The real rows of the code and instruction sets: prepared from files, asked, and graded by their own solutions in the
sandbox: a few of each kind, as all of them against every grader are another test's affair."""

import json
from typing import NamedTuple

import pytest

from rwkv_data.definition import registry
from rwkv_data.definition.answer import Answer
from rwkv_data.definition.benchmark import Benchmark
from rwkv_data.definition.errors import PrepareError
from rwkv_data.definition.stage import Row
from rwkv_data.prepare import prepared_sets
from rwkv_data.prepare.prepare import prepare
from rwkv_data.prepare.row_shapes import code_contest
from rwkv_data.profiles import code
from rwkv_data.scoring import metric_names
from rwkv_data.scoring.metric_names import Sample

STOPPED = ("stop_token",)


class Prepared(NamedTuple):
    """A benchmark with its prepared rows and examples."""

    benchmark: Benchmark
    rows: list[Row]
    pool: list[Row]


@pytest.fixture(scope="module")
def prepared(real_rows, tmp_path_factory):
    """Prepare a set once, from a folder of the real rows."""
    data_dir, done = tmp_path_factory.mktemp("data"), {}

    def prepare_once(name: str, folder: str = "") -> Prepared:
        if name not in done:
            manifest = prepare(name, data_dir, real_rows / (folder or name))
            benchmark = registry.load(name)
            pool = prepared_sets.load_pool(data_dir, benchmark) if manifest.pool_rows else []
            assert manifest.complete == (name != "apps")
            done[name] = Prepared(benchmark, prepared_sets.load_rows(data_dir, benchmark), pool)
        return done[name]

    return prepare_once


SETS = [
    ("human_eval", "", 164, 0),
    ("human_eval_plus", "", 164, 0),
    ("mbpp", "", 500, 3),
    ("mbpp_sanitized", "mbpp", 427, 0),
    ("mbpp_plus", "", 378, 0),
    ("apps", "", 5, 0),
    ("ifeval", "", 541, 0),
]


@pytest.mark.parametrize(("name", "folder", "count", "examples"), SETS, ids=[name for name, *_ in SETS])
def test_all_rows_are_prepared_and_asked(prepared, name: str, folder: str, count: int, examples: int) -> None:
    benchmark, rows, pool = prepared(name, folder)
    assert (len(rows), len(pool)) == (count, examples)
    for kind in benchmark.kinds.values():
        for row in kind.asked(rows, pool):
            assert all(kind.prompt(number, row).strip() for number in range(len(kind.stages)))


def test_the_example_file_of_taco_has_no_tests_and_is_not_taken(real_rows, tmp_path) -> None:
    if not (real_rows / "taco").is_dir():
        pytest.skip("needs real rows: no folder taco")
    with pytest.raises(PrepareError, match=r"holds none of test\.jsonl"):
        prepare("taco", tmp_path, real_rows / "taco")


def solution(row: Row, kind: str) -> str:
    """Return a right completion in the form that the kind asks for."""
    if kind.endswith(".chat"):  # a whole reply, with the code in a fence
        return f"<think>Easy.</think>Here it is:\n```python\n{row['answer']}\n```\n"
    whole = kind.endswith("rwkv-skills-v2")  # these ask for the function with its head
    return f"\n{row['prompt']}{row['answer']}\n```\nDone." if whole else f"\n{row['answer']}\n"


def nothing(kind: str) -> str:
    """Return a completion that does nothing, in the form that the kind asks for."""
    return "```python\npass\n```" if kind.endswith(".chat") else "\n    pass\n"


@pytest.mark.usefixtures("needs_sandbox")
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("name", "folder", "every"),
    [
        ("human_eval", "", 24),
        ("human_eval_plus", "", 41),
        ("mbpp", "", 71),
        ("mbpp_sanitized", "mbpp", 85),
        ("mbpp_plus", "", 75),
        ("apps", "", 1),
    ],
)
def test_a_set_s_own_solutions_are_right_and_nothing_is_not(prepared, name: str, folder: str, every: int) -> None:
    benchmark, rows, _ = prepared(name, folder)
    for kind in benchmark.kinds.values():
        with kind.grading() as grade:
            for row in rows[::every]:
                right = grade(row, Answer(solution(row, kind.name), STOPPED))
                assert (right.value, right.reason) == (1.0, "right"), (kind.name, row["answer"], right)
                wrong = grade(row, Answer(nothing(kind.name), STOPPED))
                assert (wrong.value, wrong.reason) == (0.0, "wrong"), (kind.name, wrong)


@pytest.mark.usefixtures("needs_sandbox")
def test_rwkv_skills_stop_at_the_first_blank_line_loses_right_solutions(prepared) -> None:
    """The reason for the usual kinds: cut there, many of HumanEval's own solutions are no programs any more."""
    benchmark, rows, _ = prepared("human_eval")
    cut = [row for row in rows if "\n\n" in row["answer"].strip()]
    assert len(cut) > 20
    with benchmark.kinds["code_human_eval.rwkv-skills-v1"].grading() as grade:
        answers = [Answer("\n" + row["answer"].partition("\n\n")[0], STOPPED) for row in cut[:6]]
        assert sum(grade(row, answer).value for row, answer in zip(cut, answers, strict=False)) <= 1


@pytest.mark.usefixtures("needs_sandbox")
def test_the_one_shot_example_of_livecodebench_solves_its_problem(real_rows) -> None:
    path = real_rows / "livecodebench" / "func.json"
    if not path.is_file():
        pytest.skip(f"needs real rows: no file {path}")
    example = json.loads(path.read_text())[0]
    tests = {"inputs": ["[4,4,2,4,3]", "[1,1,1,1,1]"], "outputs": ["3", "0"], "fn_name": "unequalTriplets"}
    row = {
        "question": example["question"],
        "starter_code": example["sample_code"],
        "function": "unequalTriplets",
        "tests": code_contest.packed(tests),
        "difficulty": "easy",
        "date": "2022-11-20",
        "answer": "",
    }
    benchmark = registry.load("livecodebench")
    benchmark.check_row(row)
    assert example["sample_code"] in code.problem(row)
    grade = benchmark.default_kind.grade(row, Answer(example["answer"], ("stop_token", "stop_token")))
    assert (grade.value, grade.reason) == (1.0, "right"), grade


@pytest.mark.timeout(120)
def test_echoing_the_prompts_of_ifeval_scores_a_quarter(prepared) -> None:
    """A degenerate baseline that is known: 24.8 % of the prompts, strictly, by lm-evaluation-harness's checks."""
    benchmark, rows, _ = prepared("ifeval")
    kind = benchmark.default_kind
    with kind.grading() as grade:
        found = [[sample(number, grade(row, Answer(row["question"], STOPPED)))] for number, row in enumerate(rows)]
    scores = {name: metric_names.measure(name, found).value for name in kind.metrics if name != "avg@4"}
    assert scores["accuracy"] == pytest.approx(0.248, abs=0.002)
    assert scores["accuracy"] <= scores["prompt_loose"]
    assert scores["inst_strict"] <= scores["inst_loose"]


def sample(row: int, grade) -> Sample:
    return Sample(row, 0, grade.value, "stop_token", grade.extracted, grade.reason, grade.route, grade.parts)
