"""Every benchmark's own graded examples, with its own graders and what they run: a maths worker, the sandbox."""

import contextlib
from collections.abc import Iterator

import pytest
from leftovers import shared

from rwkv_data.definition import registry
from rwkv_data.definition.answer import Grade
from rwkv_data.definition.benchmark import Benchmark, Example
from rwkv_data.definition.grader import GradeFunction
from rwkv_data.definition.kind import Kind
from rwkv_data.graders.maths.lanes import AnswerClient, lanes
from rwkv_data.graders.maths.maths_worker import CPU_S
from rwkv_data.scoring import metric_names

BENCHMARKS = [registry.load(name) for name in registry.names()]


@pytest.fixture(scope="module", autouse=True)
def one_maths_worker() -> Iterator[None]:
    """Starting the maths worker costs a second: all graders share one, for as long as somebody has it open."""
    with shared("rwkv_data.graders.maths.worker"), lanes(CPU_S) as opened:
        AnswerClient(opened).ask_twice("equal", golds=["1"], answers=["1"])
        yield


@pytest.mark.parametrize("benchmark", BENCHMARKS, ids=lambda benchmark: benchmark.name)
def test_every_example_gets_its_value(benchmark: Benchmark) -> None:
    opened: dict[str, GradeFunction] = {}
    faults = {}
    with contextlib.ExitStack() as stack:
        for number, example in enumerate(benchmark.examples):
            benchmark.check_row(example.row)
            kind = benchmark.kinds[example.kind] if example.kind else benchmark.default_kind
            if kind.name not in opened:
                opened[kind.name] = stack.enter_context(kind.grading())
            grade = opened[kind.name](example.row, example.answer)
            if not is_expected(grade, example, kind):
                faults[number] = grade
    assert not faults


def is_expected(grade: Grade, example: Example, kind: Kind) -> bool:
    if kind.grader.judge and grade.reason == "unjudged":
        return example.value < 1  # what the rule accepts needs no judge
    measured = any(metric_names.unit(metric) != "share" for metric in kind.metrics)
    reason = measured or grade.reason in ({"right"} if example.value == 1 else {"wrong", "no_answer"})
    return reason and grade.value == pytest.approx(example.value, abs=5e-3)
