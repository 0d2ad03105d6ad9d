"""The score of a harness: metrics with intervals, and what its reader must know."""

import pytest

from rwkv_daemon.harness.outputs.result import HarnessMetric, HarnessResult, Traffic
from rwkv_daemon.jobs.harness_jobs import metric_view, warnings_of
from rwkvctl.protocol.views import MetricView


def test_a_metric_that_is_no_number_has_no_number_at_all() -> None:
    assert metric_view(HarnessMetric(name="acc", value=None, stderr=0.1, reason="x"), 10) == MetricView(value=None)


@pytest.mark.parametrize("name", ["acc", "exact_match,strict-match", "pass@1,create_test"])
def test_a_share_of_known_rows_has_the_interval_of_a_share(name: str) -> None:
    view = metric_view(HarnessMetric(name=name, value=1.0), 40)
    assert (view.value, view.stderr, view.unit) == (1.0, 0.0, "share")
    assert view.ci_low is not None
    assert 0.9 < view.ci_low < 1.0
    assert view.ci_high == pytest.approx(1.0)


def test_the_harnesss_own_error_is_kept() -> None:
    assert metric_view(HarnessMetric(name="acc", value=0.5, stderr=0.25), 40).stderr == 0.25


def test_the_interval_of_a_group_is_from_the_harnesss_error_and_without_one_there_is_none() -> None:
    view = metric_view(HarnessMetric(name="acc", value=0.5, stderr=0.1), 0)
    assert (view.ci_low, view.ci_high) == pytest.approx((0.304, 0.696), abs=1e-3)
    assert view.unit == "share"
    assert metric_view(HarnessMetric(name="acc", value=0.5), 0) == MetricView(value=0.5)


@pytest.mark.parametrize(
    ("name", "value", "unit"),
    [("bleu", 31.5, "points"), ("acc", 93.0, "points"), ("acc", -0.1, "points"), ("bits_per_byte", 0.9, "bits"),
     ("word_perplexity", 12.0, "perplexity"), ("acc,none", 0.5, "share")],
)  # fmt: skip
def test_a_metric_has_the_unit_of_its_name_and_value(name: str, value: float, unit: str) -> None:
    view = metric_view(HarnessMetric(name=name, value=value), 0)
    assert view == MetricView(value=value, unit=unit)


def test_another_metric_has_no_interval_of_a_share_even_with_rows() -> None:
    assert metric_view(HarnessMetric(name="bleu", value=0.5), 10) == MetricView(value=0.5, unit="points")


def test_a_reader_is_told_what_was_refused_cut_off_and_is_missing() -> None:
    assert warnings_of(HarnessResult(state="ok")) == []
    traffic = Traffic(requests=9, refused=1, truncated=2)
    assert warnings_of(HarnessResult(state="partial", why="3 rows", traffic=traffic)) == [
        "3 rows",
        "the engine answered 1 request of the harness with an error",
        "the token limit cut off 2 completions: raise max_tokens",
    ]
