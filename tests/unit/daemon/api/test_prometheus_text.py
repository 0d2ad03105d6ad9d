"""The text format, read back by the reference parser of Prometheus' own client library."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rwkv_daemon.api.prometheus_text import text
from rwkvctl.protocol.service import FamilyView, Figure

parser = pytest.importorskip("prometheus_client.parser", reason="needs prometheus_client: not installed")

NAMES = st.from_regex(r"[a-z][a-z_]{0,12}[a-z]", fullmatch=True)
TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\r"), max_size=20)
VALUES = st.one_of(st.floats(), st.integers(-(2**60), 2**60), st.booleans())


@given(NAMES, TEXT, st.lists(st.tuples(st.dictionaries(NAMES, TEXT, max_size=3), VALUES), min_size=1, max_size=5))
def test_what_is_written_is_read_back(name: str, about: str, figures: list[tuple[dict[str, str], float]]) -> None:
    values = tuple(Figure(labels=labels, value=value) for labels, value in figures)
    family = FamilyView(name=name, type="gauge", help=about, figures=values)
    (found,) = parser.text_string_to_metric_families(text([family]))
    assert (found.name, found.type) == (name, "gauge")
    assert len(found.samples) == len(figures)
    for sample, (labels, value) in zip(found.samples, figures, strict=True):
        assert sample.labels == labels
        assert math.isnan(sample.value) if math.isnan(value) else sample.value == float(value)


def test_a_counter_keeps_its_suffix() -> None:
    figure = Figure(value=3, labels={"a": 'q"\n\\'})
    family = FamilyView(name="x_total", type="counter", help="a\\b\nc", figures=(figure,))
    page = text([family])
    assert page.splitlines() == ["# HELP x_total a\\\\b\\nc", "# TYPE x_total counter", 'x_total{a="q\\"\\n\\\\"} 3']
    (found,) = parser.text_string_to_metric_families(page)
    assert found.samples[0].labels == {"a": 'q"\n\\'}


def test_a_family_without_values_is_left_out() -> None:
    assert text([FamilyView(name="x", type="gauge", help="", figures=())]) == ""
