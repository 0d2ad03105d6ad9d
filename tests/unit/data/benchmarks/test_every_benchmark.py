"""Properties that every benchmark must have."""

import json
import re

import pytest

from rwkv_data.definition import registry
from rwkv_data.definition.benchmark import Benchmark
from rwkv_data.scoring import metric_names

BENCHMARKS = [registry.load(name) for name in registry.names()]


@pytest.mark.parametrize("benchmark", BENCHMARKS, ids=lambda benchmark: benchmark.name)
class TestEveryBenchmark:
    def test_has_examples_of_both_verdicts_for_each_kind(self, benchmark: Benchmark) -> None:
        for kind in benchmark.kinds:
            values = {example.value for example in benchmark.examples if (example.kind or kind) == kind}
            judged_only = (
                benchmark.kinds[kind].grader.name == "compared-v1"
            )  # no answer is right before its judge speaks
            assert {0.0, 1.0} <= values or judged_only or metric_names.unit(benchmark.kinds[kind].metrics[0]) != "share"

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
