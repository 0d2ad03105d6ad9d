"""Every benchmark's own graded examples, and what must hold for all benchmarks."""

import json
import re

import pytest

from rwkv_data import measures, registry
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
    if kind.grader.judge and grade.reason == "unjudged":
        assert example.value < 1, "what the rule accepts needs no judge"
        return
    assert grade.value == pytest.approx(example.value, abs=5e-3), grade
    measured = any(measures.unit(metric) != "share" for metric in kind.metrics)
    assert measured or grade.reason in ({"right"} if example.value == 1 else {"wrong", "no_answer"})


@pytest.mark.parametrize("benchmark", BENCHMARKS, ids=lambda benchmark: benchmark.name)
class TestEveryBenchmark:
    def test_has_examples_of_both_verdicts_for_each_kind(self, benchmark: Benchmark) -> None:
        for kind in benchmark.kinds:
            values = {example.value for example in benchmark.examples if (example.kind or kind) == kind}
            judged_only = (
                benchmark.kinds[kind].grader.name == "compared-v1"
            )  # no answer is right before its judge speaks
            assert {0.0, 1.0} <= values or judged_only or measures.unit(benchmark.kinds[kind].metrics[0]) != "share"

    def test_has_a_source_or_makes_its_rows(self, benchmark: Benchmark) -> None:
        assert benchmark.source is None or not benchmark.built_in
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
                found = re.fullmatch(r"(avg|pass|maj)[@^](\d+)", metric)
                assert found is None or int(found[2]) <= kind.repeats

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
