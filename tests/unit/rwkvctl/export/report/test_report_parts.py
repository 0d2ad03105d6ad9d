"""Parts of the report: what fits, what is asked, what a page can hold, and how a score is drawn."""

import json
import re
from html.parser import HTMLParser
from itertools import pairwise
from typing import Any

import pytest

from rwkvctl.export.report import drill, facts, gather, page, plots
from rwkvctl.export.report.embedding import embedded
from rwkvctl.protocol.errors import RefusedError
from rwkvctl.protocol.views import ComparisonView, MetricView
from rwkvctl.scoreboard.book import Score, Value
from rwkvctl.scoreboard.matrix import MatrixRow

GSM = ("gsm8k", "cot")


def row(name: str, value: float | None = 0.5, size: float | None = 1.5, base: str = "") -> MatrixRow:
    score = Score("j1", "2026-11-20T01:02:03Z", "accuracy", {"accuracy": Value(value, 0.4, 0.6)}, n=10)
    return MatrixRow(name, size, base=base, cells={GSM: score})


@pytest.mark.parametrize(
    ("sizes", "wanted", "expected"),
    [
        ([100, 5], 20, (20, drill.LONGEST + drill.FRAME)),
        ([1319] * 1000, 50, (50, drill.ROOM // 50_000)),
        ([100], 0, (0, 0)),
        ([], 20, (20, 0)),
    ],
)
def test_texts_get_shorter_where_samples_are_many(sizes: list[int], wanted: int, expected: tuple[int, int]) -> None:
    assert drill.plan(sizes, wanted) == expected


def test_too_many_samples_become_fewer() -> None:
    found = drill.plan([10_000] * 4000, 500)
    assert 0 < found.samples < 20
    assert found.room >= drill.LEAST
    assert found.samples * 4000 * found.room <= drill.ROOM


@pytest.mark.parametrize("text", ["word " * 5000, "<&>" * 9000, "中" * 9000, "\x1b\u202e" * 9000, ""])
def test_a_sample_fits_and_keeps_its_end(text: str) -> None:
    sample = {"row": 7, "repeat": 0, "value": None, "reason": "unjudged", "expected": text, "extracted": None,
              "detail": text, "stages": [{"stage": "a", "prompt": text, "completion": text + "END"}] * 2}  # fmt: skip
    shown = drill.fitted(sample, 1200)
    assert len(embedded(shown).encode()) <= 1200
    assert shown[:4] == [7, 0, None, "unjudged"]
    assert [stage[2][-3:] for stage in shown[7]] == ["END", "END"]
    assert not {"\x1b", "\u202e"} & set(json.dumps(shown, ensure_ascii=False))


def test_each_pair_is_asked_for_once() -> None:
    rows = [row("c", base="b"), row("b", base="a"), row("a"), row("other", size=None)]
    assert gather.pairs_of(rows, []) == [("b", "c"), ("a", "b")]
    every = gather.pairs_of(rows, ["c", "a"])
    assert every == [("b", "c"), ("a", "b"), ("a", "c"), ("other", "c"), ("other", "a")]
    assert len({frozenset(pair) for pair in every}) == len(every)


def test_baselines_are_named_or_the_newest() -> None:
    rows = [row(f"m{number}") for number in range(20)]
    assert gather.baselines_of(rows, []) == [f"m{number}" for number in range(gather.BASELINES)]
    assert gather.baselines_of(rows, ["m9", "m3", "m9"]) == ["m9", "m3"]
    shown = row("rwkv7-g1-0.1b-20260910-ctx4096")
    assert gather.baselines_of([*rows, shown], ["g1-0.1b-20260910"]) == [shown.name]
    with pytest.raises(RefusedError, match=r"no score of m99.*Did you mean m9"):
        gather.baselines_of(rows, ["m99"])


def test_names_and_patterns() -> None:
    assert gather.matches("anything", [])
    assert gather.matches("rwkv7-g1-1.5b", ["x", "*-g1-*"])
    assert gather.matches("a[1]", ["a[1]"]), "a name is itself, whatever it looks like"
    assert not gather.matches("rwkv7-g0", ["*-g1-*"])


def test_a_comparison_says_what_may_be_turned_round() -> None:
    worse = ComparisonView(benchmark="gsm8k", kind="cot", verdict="worse", job_a="j1", job_b="j2", p_holm=0.00002,
                             difference=MetricView(value=-0.032, ci_low=-0.046, ci_high=-0.0171))  # fmt: skip
    assert facts.compared(worse, 3) == [3, "j1", "j2", "worse", -0.032, [-3.2, -4.6, -1.71], 1, "<.0001", ""]
    lower = ComparisonView(benchmark="b", kind="k", verdict="better", unit="bits", lower_is_better=True, p_holm=0.01,
                             difference=MetricView(value=-0.5, ci_low=-0.6, ci_high=-0.4))  # fmt: skip
    assert facts.compared(lower, 0)[4:7] == [0.5, [-0.5, -0.6, -0.4], 3]
    never = ComparisonView(benchmark="b", kind="k", verdict="not comparable", why="not the same in both: limit\u202e",
                             job_a="j1", job_b="j2")  # fmt: skip
    assert facts.compared(never, 0)[5:] == [None, 1, "–", "not the same in both: limit<202e> (A is j1, B is j2)"]


def test_what_is_left_out_is_said() -> None:
    score = {"n": 1319, "job": "j7"}
    assert facts.left_out(score, 1319).startswith("All samples are shown")
    assert facts.left_out(score, 20) == (
        "20 are shown, wrong ones first; 1,299 of 1,319 samples are left out: `rwkvctl samples j7` has them all."
    )
    assert facts.left_out(score, 0).startswith("1,319 of 1,319 samples are left out")


class Scripts(HTMLParser):
    """Counts script elements and keeps what the first one holds."""

    def __init__(self) -> None:
        super().__init__()
        self.count, self.text = 0, ""

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.count += tag == "script"

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.mark.parametrize(
    "text", ["</script>", "<!--<script>", "]]>", "&lt;", "\\u003c", "</SCRIPT\n>", "<img onerror=x>"]
)
def test_data_cannot_end_its_element(text: str) -> None:
    known = {text: [text, 1.5, None]}
    parser = Scripts()
    parser.feed(f'<script type="application/json">{embedded(known)}</script>')
    parser.close()
    assert parser.count == 1
    assert json.loads(parser.text) == known
    assert not set("<>&") & set(embedded(known))


def test_no_number_that_json_lacks() -> None:
    with pytest.raises(ValueError, match="JSON"):
        embedded({"a": float("nan")})


def test_a_title_breaks_at_its_parts_and_is_escaped() -> None:
    head = page.heading("a_b<i>", "dom")
    assert head == '<th data-title="a_b&lt;i&gt; dom"><button>a_<wbr>b&lt;i&gt;</button><small>dom</small></th>'


def test_the_title_of_a_benchmark_is_written_upwards_and_breaks_inside_no_word() -> None:
    head = page.heading("hendrycks_math·cot", "free_response", right=True, tall=True)
    assert '<div class="tall"><button>hendrycks_<wbr>math·<wbr>cot</button>' in head
    assert "<small>free_<wbr>response</small></div></th>" in head
    style = page.part("page.css")
    assert re.search(r"\.tall \{[^}]*writing-mode: vertical-rl", style)
    titles = [rule for rule in style.split("}") if "#matrix th" in rule.partition("{")[0] and "td" not in rule]
    assert not any("overflow-wrap" in rule for rule in [*titles, style[style.index(".tall") :].partition("}")[0]])


def test_ten_benchmarks_fit_1280_pixels() -> None:
    """What the style asks for, in pixels: 16 a rem, 13 a line's em, 7.5 a figure."""
    style = page.part("page.css")

    def rem(pattern: str) -> float:
        found = re.search(pattern, style)
        assert found is not None, pattern
        return 16 * float(found[1])

    body = 1280 - 2 * 0.03 * 1280
    side = rem(r"#matrix th, #matrix td \{ padding: [\d.]+rem ([\d.]+)rem")
    score = max(rem(r"#matrix th \{ min-width: ([\d.]+)rem"), len("100.0") * 7.5 + 1.2 * 13 + 2 * side)
    model = rem(r"min-width: min\(([\d.]+)rem") + 2 * side
    worst = rem(r"#matrix td:nth-child\(3\) \{[^}]*max-width: ([\d.]+)rem") + 2 * side
    assert model + score + worst + 10 * score <= body
    assert re.search(r"#matrix \.half \{ display: block", style), "an interval takes no room beside its score"


def test_every_size_of_a_plot_is_named_with_its_checkpoints() -> None:
    rows = [row("new<b>", 0.55), row("old", 0.5), row("small", 0.45, 0.1), row("none", None)]
    told = plots.legend(rows, GSM)
    assert '<li class="s1"><b>1.5b</b> old to new&lt;b&gt;</li>' in told
    assert '<li class="s0"><b>0.1b</b> small</li>' in told
    assert "none" not in told
    assert plots.legend(rows, ("other", "k")) == ""


@pytest.mark.parametrize("heights", [[50.0, 50.0, 50.0], [8.0, 9.0], [150.0, 149.0, 20.0], [100.0]])
def test_no_name_of_a_line_covers_another(heights: list[float]) -> None:
    placed = sorted(plots.apart(heights))
    assert all(b - a >= plots.NAME_HEIGHT for a, b in pairwise(placed))
    assert placed[0] >= plots.TOP


def test_a_plot_has_a_line_for_each_size_and_round_numbers() -> None:
    rows = [row("new<b>", 0.55), row("old", 0.5), row("small", 0.45, 0.1), row("none", None)]
    svg = plots.plot(rows, GSM, "gsm8k")
    assert svg.count("<polyline") == 2
    assert svg.count("<circle") == 3, "a score without a value is no dot"
    assert "new&lt;b&gt;: 55 (40 to 60)" in svg
    assert ">40</text>" in svg
    assert ">60</text>" in svg
    assert ">1.5b</text>" in svg
    assert "style" not in svg, "the policy allows no style of an element"
    assert plots.plot(rows[:1], GSM, "gsm8k") == ""
    assert plots.plot(rows, ("other", "k"), "x") == ""


@pytest.mark.parametrize(("low", "high"), [(50.0, 50.0), (0.0, 100.0), (0.0, 0.0), (1e-9, 2e-9), (-3.0, 1200.0)])
def test_a_scale_holds_everything(low: float, high: float) -> None:
    bottom, top, step = plots.scale_of([plots.Dot(0, low, low, high, "a")])
    assert bottom <= low <= high <= top
    assert bottom < top
    assert 1 <= round((top - bottom) / step) <= 6


def test_a_training_set_is_in_no_report_and_says_so_when_it_is_named() -> None:
    gather.refuse_training(gather.ReportFilters(benchmarks=("numina*", "gsm8k")), ["numina_math"])
    with pytest.raises(RefusedError, match="numina_math is a training set: its scores are in no report") as caught:
        gather.refuse_training(gather.ReportFilters(benchmarks=("numina_math",)), ["numina_math"])
    assert "rwkvctl scores --benchmark numina_math" in str(caught.value.hint)
