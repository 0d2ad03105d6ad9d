"""Every benchmark's own graded examples, and what must hold for all benchmarks."""

import json

import pytest

from rwkv_data import registry
from rwkv_data.benchmark import Benchmark, Example

BENCHMARKS = [registry.load(name) for name in registry.names()]
EXAMPLES = [
    pytest.param(benchmark, example, id=f"{benchmark.name}-{number}")
    for benchmark in BENCHMARKS
    for number, example in enumerate(benchmark.examples)
]


@pytest.fixture(scope="module")
def graders():
    """One open grader a kind: math-verify's process starts once."""
    opened = {}

    def grade(kind, row, answer):
        if id(kind) not in opened:
            context = kind.grading()
            opened[id(kind)] = (context, context.__enter__())
        return opened[id(kind)][1](row, answer)

    yield grade
    for context, _ in opened.values():
        context.__exit__(None, None, None)


@pytest.mark.parametrize(("benchmark", "example"), EXAMPLES)
def test_example_gets_its_value(benchmark: Benchmark, example: Example, graders) -> None:
    benchmark.check_row(example.row)
    kind = benchmark.kinds[example.kind] if example.kind else benchmark.default_kind
    grade = graders(kind, example.row, example.answer)
    assert (grade.value, grade.expected) == (example.value, str(example.row["answer"])), grade
    assert grade.reason in ({"right"} if example.value else {"wrong", "no_answer"})


@pytest.mark.parametrize("benchmark", BENCHMARKS, ids=lambda benchmark: benchmark.name)
class TestEveryBenchmark:
    def test_has_examples_of_both_verdicts_for_each_kind(self, benchmark: Benchmark) -> None:
        for kind in benchmark.kinds:
            values = {example.value for example in benchmark.examples if (example.kind or kind) == kind}
            assert {0.0, 1.0} <= values

    def test_has_a_source_or_makes_its_rows(self, benchmark: Benchmark) -> None:
        assert (benchmark.source is None) == benchmark.built_in
        assert benchmark.rows > 0
        assert benchmark.built_in or benchmark.local_files

    def test_configuration_is_plain_json_and_says_all_limits(self, benchmark: Benchmark) -> None:
        for kind in benchmark.kinds.values():
            configuration = kind.configuration()
            assert json.loads(json.dumps(configuration)) == configuration
            for stage in configuration["stages"]:
                assert stage["mode"] == "choose" or stage["sampling"]["max_tokens"] > 0

    def test_metrics_fit_the_repeats(self, benchmark: Benchmark) -> None:
        for kind in benchmark.kinds.values():
            for metric in kind.metrics:
                name, _, k = metric.partition("@")
                assert name in {"accuracy", "avg", "pass"}
                assert int(k or 1) <= kind.repeats

    def test_stages_are_named_apart_and_choices_belong_to_choosing(self, benchmark: Benchmark) -> None:
        for kind in benchmark.kinds.values():
            assert len({stage.name for stage in kind.stages}) == len(kind.stages)
            assert all((stage.choices is not None) == (stage.mode == "choose") for stage in kind.stages)


@pytest.mark.parametrize("benchmark", [b for b in BENCHMARKS if b.built_in], ids=lambda benchmark: benchmark.name)
def test_built_in_rows_are_valid_and_their_prompts_short(benchmark: Benchmark) -> None:
    rows = list(benchmark.generate_rows())
    assert len(rows) == benchmark.rows
    for row in rows:
        benchmark.check_row(row)
        for stage in benchmark.default_kind.stages:
            assert len(stage.prompt(row).encode()) <= 64
