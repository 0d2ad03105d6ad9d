"""The page of a feedback: every part of it is there, and nothing foreign in it becomes markup."""

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token

from rwkv_daemon.training.feedback.page import (
    HOW,
    LONGEST_TEXT,
    MOST_CHECKPOINTS,
    PARTS,
    code,
    counts,
    in_words,
    page,
    probability,
    text,
)
from rwkvctl.protocol.training.feedback import (
    BenchmarkFeedback,
    CheckpointScores,
    ErrorSample,
    FeedbackReply,
    MissingScore,
)
from rwkvctl.protocol.training.watches import FINAL_STEP, WatchedView
from rwkvctl.protocol.views import ComparisonView, MetricView
from rwkvctl.text.sanitize import cell_width, fit, safe_line

READER = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
LINKING = MarkdownIt("gfm-like", {"html": True})
VALUE = MetricView(value=0.5, ci_low=0.4, ci_high=0.6)
PIECES = (
    "|", "\\", "`", "``", "\n", "\r\n", "\t", "<b>", "<script>x</script>", "<!--", "![x](http://evil.example/a.png)",
    "[a](http://evil.example)", "<http://evil.example>", "\x1b[31m", "\x1b]0;t\x07", "\x9b2J", "\u202e", "\u2066",
    "\u200b", "\u2028", "\x00", "\x7f", "**b**", "__i__", "_i_", "~~s~~", "# ", "1. ", "2) ", "- ", "+ ", "* ", "---",
    "===", "> ", "    ", "&lt;", "&#124;", "$x$", "~~~", "[^1]", ":---:", "\ud800", "e\u0301\u0301\u0301\u0301", "a",
    "_", " ", "漢字", "|---|",
)  # fmt: skip
hostile = st.lists(st.sampled_from(PIECES) | st.text(max_size=3), max_size=8).map("".join) | st.text(max_size=20)
QUIET = {"text", "softbreak", "code_inline", "text_special"}
BLOCKS = {
    "heading_open", "heading_close", "inline", "bullet_list_open", "bullet_list_close", "list_item_open",
    "list_item_close", "paragraph_open", "paragraph_close", "table_open", "table_close", "thead_open", "thead_close",
    "tbody_open", "tbody_close", "tr_open", "tr_close", "th_open", "th_close", "td_open", "td_close",
}  # fmt: skip


def item(**known: Any) -> BenchmarkFeedback:
    plain: dict[str, Any] = {"benchmark": "gsm8k", "kind": "free_response", "job": "j1", "metric": "accuracy",
                             "value": VALUE, "rows": 1200, "samples": 1200}  # fmt: skip
    return BenchmarkFeedback(**plain | known)


def reply(**known: Any) -> FeedbackReply:
    checkpoint = WatchedView(id=1, name="step-20.pth", state="done", step=20, model="run-20")
    plain: dict[str, Any] = {"watch": "w1", "name": "run", "checkpoint": checkpoint, "asked": 1, "done": 1}
    return FeedbackReply(**plain | known)


def against(verdict: Any = "better", **known: Any) -> ComparisonView:
    difference = MetricView(value=0.1, ci_low=0.05, ci_high=0.15)
    plain = {"benchmark": "gsm8k", "kind": "free_response", "verdict": verdict, "difference": difference, "p": 0.01,
             "p_holm": 0.02}  # fmt: skip
    return ComparisonView(**plain | known)


def tokens(markdown: str, reader: MarkdownIt = READER) -> Iterator[Token]:
    for one in reader.parse(markdown):
        yield one
        yield from one.children or ()


def inline(token: Token) -> str:
    return "".join(child.content for child in token.children or ())


def tables(markdown: str) -> list[list[list[str]]]:
    found: list[list[list[str]]] = []
    before = None
    for one in tokens(markdown):
        if one.type == "table_open":
            found.append([])
        elif one.type == "tr_open":
            found[-1].append([])
        elif one.type == "inline" and before in {"td_open", "th_open"}:
            found[-1][-1].append(inline(one))
        before = one.type
    return found


def all_hostile(words: list[str]) -> FeedbackReply:
    """A feedback in which every foreign text is one of these twelve."""
    name, row, expected, answer, subject, why, warning, model, asked, suite, node, as_of = words
    label = f"a{model}"
    error = ErrorSample(row=3, reason=why, command="rwkvctl samples j1", row_id=row, subject=subject, was_right=True,
                         cut=True, expected=expected, answered=answer, question=asked, output=asked)  # fmt: skip
    none = against("not comparable", difference=None, p=None, p_holm=None, why=why)
    one = item(benchmark=name, collapsed=why, why_null=why, warnings=(warning, warning), baseline=none,
               best=against(why=warning), errors=(error, error), wrong=2, lost=1, lost_against=label)  # fmt: skip
    checkpoints = (
        CheckpointScores(name=name, model=model, state="done", step=1, values=(VALUE, None), best=True),
        CheckpointScores(name=row, model=model, state="done", step=FINAL_STEP, values=(None, VALUE)),
    )
    return reply(
        name=name, checkpoint=WatchedView(id=1, name=name, state="done", step=1, model=model), baseline=label,
        best=label, best_model=row, best_why=why, objective=(subject, name), left_out=why, items=(one, one),
        missing=(MissingScore(job="j2", benchmark=name, kind=row, state="failed", why=why),), checkpoints=checkpoints,
        suite=suite, node=node, as_of=f"2026{as_of}", part="search",
    )  # fmt: skip


def count_of_remarks(words: list[str]) -> int:
    """What is not measured (two, if anything is left out), two errors and remarks of each of two benchmarks."""
    _, _, _, _, _, why, warning, *_ = words
    return 1 + bool(why) + 2 * (2 + 2 * bool(why) + bool(warning) + 2)


def clean(foreign: str) -> str:
    return safe_line(foreign).strip()


@given(st.lists(hostile, min_size=12, max_size=12))
@example(["![x](http://evil.example)|`\n"] * 12)
@example(["__a__ b|c\\"] * 12)
@example(["x" * 5000] * 12)
@example(["`" * 5000] * 12)
@example(["1. a"] * 12)
@example(["- - -"] * 12)
@example(["**b** `c` <b> [a](http://evil.example)"] * 12)
@example(["|\n# "] * 12)
def test_nothing_foreign_becomes_markup(words: list[str]) -> None:
    found = page(all_hostile(words))
    assert {one.type for one in tokens(found)} <= QUIET | BLOCKS | {"strong_open", "strong_close"}
    heads = "".join(one.tag for one in tokens(found) if one.type == "heading_open")
    assert heads == "h1h2h2h2h2h3h3"
    assert sum(one.type == "strong_open" for one in tokens(found)) == 2 * bool(words[5]), "what has collapsed"
    assert sum(one.type == "list_item_open" for one in tokens(found)) == 6 + 2 * bool(words[5]) + count_of_remarks(
        words
    )
    assert max(one.level for one in tokens(found)) <= 4, "no list stands within a list"
    assert {one.markup for one in tokens(found, LINKING) if one.type == "link_open"} <= {"linkify"}
    assert not any(one.type in {"image", "html_inline", "html_block"} for one in tokens(found, LINKING))
    for char in set(found) - {"\n"}:
        assert safe_line(f"a{char}") == f"a{char}"


@given(st.lists(hostile, min_size=12, max_size=12))
def test_tables_keep_their_columns_and_show_names_as_they_are(words: list[str]) -> None:
    name, row, _, _, subject, *_ = words
    scores, checkpoints = tables(page(all_hostile(words)))
    assert [len(line) for line in scores] == [10, 10, 10]
    assert [len(line) for line in checkpoints] == [6, 6, 6]
    assert scores[1][0].strip() == clean(f"{name} free_response")
    assert checkpoints[0][3:5] == [clean(subject), clean(name)]
    assert [line[1] for line in checkpoints[1:]] == [clean(name), clean(row)]
    assert [line[5] for line in checkpoints[1:]] == ["best so far", ""]


@given(st.lists(hostile, min_size=12, max_size=12))
def test_where_and_when_it_was_measured_is_read_as_it_is(words: list[str]) -> None:
    *_, suite, node, as_of = words
    shown = [inline(one) for one in tokens(page(all_hostile(words))) if one.type == "inline"]
    of_suite = f", suite {clean(suite)}" if suite else ""
    wanted = f"As of {clean(f'2026{as_of}')} on {clean(node)}{of_suite}; measured: 2 checkpoints."
    assert [one for one in shown if one.startswith("As of 2026")] == [wanted]


@given(st.lists(hostile, min_size=12, max_size=12))
def test_what_was_asked_expected_and_answered_stands_in_code_spans(words: list[str]) -> None:
    _, row, expected, answer, subject, *_ = words
    asked = words[8]
    found = [
        one for one in tokens(page(all_hostile(words))) if one.type == "inline" and inline(one).startswith("row 3")
    ]
    assert len(found) == 4, "two of each benchmark"
    for one in found:
        spans = [child.content for child in one.children or () if child.type == "code_inline"]
        texts = [spanned(row) if row else None, spanned(subject) if subject else None]
        texts += [spanned(asked, end=True) if asked.strip() else None, spanned(expected) if expected else None]
        assert spans == [each for each in (*texts, spanned(answer), "rwkvctl samples j1") if each]


def spanned(foreign: str, *, end: bool = False) -> str:
    """Return what stands in the code span of a text; nothing where it is empty when its signs are taken away."""
    words = " ".join(foreign.split())
    if end and len(words) > LONGEST_TEXT:
        words = f"…{words[1 - LONGEST_TEXT :]}"
    return fit(safe_line(words), LONGEST_TEXT).replace("|", "¦").strip()


@given(st.lists(hostile, min_size=12, max_size=12))
def test_a_page_ends_with_one_line_end_and_tables_are_aligned(words: list[str]) -> None:
    found = page(all_hostile(words))
    assert found.endswith("\n")
    assert not found.endswith("\n\n")
    assert "\n\n\n" not in found
    blocks = [[line for line in block.split("\n") if line.startswith("|")] for block in found.split("\n\n")]
    assert all(len({cell_width(line) for line in block}) <= 1 for block in blocks)


@given(hostile)
@example("a __b__ c")
@example("__a b__")
@example("+ a")
@example("12) a")
@example("---")
def test_a_text_is_read_as_it_was_wherever_it_stands(foreign: str) -> None:
    for before in ("", "- ", "# ", "- a: "):
        parsed = list(tokens(f"{before}{text(foreign)}\n"))
        assert {one.type for one in parsed} <= {"text", *BLOCKS}
        shown = "".join(one.content for one in parsed if one.type == "text")
        assert shown.strip() == (before.lstrip("-# ") + clean(foreign)).strip()


@given(hostile)
def test_a_row_is_shown_in_one_code_span_as_it_is(foreign: str) -> None:
    spans = [one for one in tokens(f"- {code(foreign)}\n") if one.type in {"code_inline", "text"} and one.content]
    shown = fit(safe_line(" ".join(foreign.split())), LONGEST_TEXT).replace("|", "¦").strip()
    assert [(one.type, one.content) for one in spans] == [
        ("code_inline", shown) if shown else ("text", "an empty text"),
    ]  # fmt: skip
    assert cell_width(shown) <= LONGEST_TEXT


@given(hostile)
@example("x" * 5000 + "the end")
@example("漢" * 5000 + "the end")
def test_of_a_long_question_the_end_is_shown(foreign: str) -> None:
    shown = code(foreign, end=True)
    words = " ".join(foreign.split())
    if len(words) <= LONGEST_TEXT:
        assert shown == code(foreign)
    else:
        assert "…" in shown
    assert cell_width(shown) <= LONGEST_TEXT + 2 * (2 + shown.count("`"))


def test_of_a_long_question_its_last_words_are_there() -> None:
    shown = code("x " * 500 + "What is 1+1?\nAnswer:", end=True)
    assert shown.startswith("`…")
    assert shown.endswith("What is 1+1? Answer:`")
    assert code("x " * 500 + "What is 1+1?").startswith("`x x")


def test_words_with_an_underscore_stay_as_they_are_typed() -> None:
    assert text("free_response multi_choice_plain") == "free_response multi_choice_plain"


def test_a_checkpoint_with_nothing_to_say_of_it_has_a_short_page() -> None:
    assert page(reply(best_why="the suite s declares no objective")) == (
        "# step-20.pth, step 20, of w1 (run)\n"
        "\n"
        "- Scores of 1 of 1 job. Model: run-20\n"
        "- Best so far: not known: the suite s declares no objective.\n"
        "- No baseline is pinned for it: `rwkvctl baseline pin MODEL --for PATTERN`.\n"
    )


def test_scores_stand_in_a_table_with_only_the_sides_that_there_are() -> None:
    (alone,) = tables(page(reply(items=(item(truncated=1, no_answer=2),))))
    assert alone == [
        ["benchmark", "value", "95 %", "rows", "cut off", "no answer"],
        ["gsm8k free_response", "50.0 %", "(40.0 to 60.0)", "1,200", "1", "2"],
    ]
    (both,) = tables(page(reply(baseline="base", items=(item(baseline=against(), best=against("worse")),))))
    assert both[0][6:] == ["against baseline", "p", "against best", "p"]
    assert both[1][6:] == ["+10.0 better", "0.0200", "+10.0 worse", "0.0200"]
    (alone,) = tables(page(reply(items=(item(best=against("no difference shown", p_holm=1.0)),))))
    assert alone[0][6:] == ["against best", "p"]
    assert alone[1][6:] == ["+10.0 inconclusive", "1.0000"]
    (mixed,) = tables(page(reply(baseline="base", items=(item(), item(baseline=against())))))
    assert [line[6:] for line in mixed[1:]] == [["–", "–"], ["+10.0 better", "0.0200"]]


@pytest.mark.parametrize(
    ("p", "shown"),
    [(None, "–"), (0.0, "below .0001"), (9e-5, "below .0001"), (1e-4, "0.0001"), (0.0499, "0.0499"), (1.0, "1.0000")],
)
def test_a_p_is_never_shown_as_zero(p: float | None, shown: str) -> None:
    assert probability(p) == shown


@given(st.floats(0, 1))
def test_a_p_is_read_as_what_it_is(p: float) -> None:
    shown = probability(p)
    assert "0.0000" not in shown
    assert p < 0.0001 if shown == "below .0001" else abs(float(shown) - p) <= 0.5e-4 + 1e-12


def test_a_value_that_is_not_there_is_a_dash_and_its_reason_a_line() -> None:
    found = page(reply(items=(item(value=MetricView(value=None), why_null="3 samples are unjudged"),)))
    assert tables(found)[0][1][1:3] == ["–", "–"]
    assert "- gsm8k free_response: 3 samples are unjudged\n" in found


def test_bits_are_no_percent() -> None:
    bits = MetricView(value=1.23456, ci_low=1.2, ci_high=1.3, unit="bits")
    difference = against(difference=MetricView(value=-0.1, ci_low=-0.2, ci_high=-0.05), unit="bits")
    (found,) = tables(page(reply(baseline="base", items=(item(value=bits, baseline=difference),))))
    assert found[1][1:3] == ["1.235", "(1.200 to 1.300)"]
    assert found[1][6] == "-0.100 better"


def test_a_comparison_that_is_not_made_is_undecided_and_says_why() -> None:
    none = against("not comparable", difference=None, p=None, p_holm=None, why="other rows")
    found = page(reply(baseline="base", items=(item(baseline=none),)))
    assert "- Against the baseline base: 1 undecided.\n" in found
    assert "- gsm8k free_response: not compared with base: other rows\n" in found
    assert tables(found)[0][1][6:] == ["undecided", "–"]
    assert all(f"{line}\n" in found for line in HOW)


def test_an_unpaired_verdict_says_so() -> None:
    (found,) = tables(page(reply(baseline="base", items=(item(baseline=against(unpaired=True)),))))
    assert found[1][6] == "+10.0 better (not paired)"


def test_verdicts_are_counted_in_one_order() -> None:
    verdicts = ("not comparable", "worse", "better", "no difference shown", "better")
    found = counts([None, *map(against, verdicts)])
    assert list(found.items()) == [("better", 2), ("worse", 1), ("inconclusive", 1), ("undecided", 1)]
    assert in_words(found) == "2 better, 1 worse, 1 inconclusive, 1 undecided"
    assert counts([None]) == counts([]) == {}
    assert in_words({}) == "nothing to compare"


@given(st.lists(st.none() | st.sampled_from(["not comparable", "worse", "better", "no difference shown"])))
def test_each_comparison_is_counted_once(verdicts: list[str | None]) -> None:
    found = counts([against(one) if one else None for one in verdicts])
    assert sum(found.values()) == sum(one is not None for one in verdicts)
    assert 0 not in found.values()


def test_what_json_calls_otherwise_is_called_inconclusive_and_undecided_everywhere() -> None:
    verdicts = ("no difference shown", "not comparable")
    items = tuple(item(baseline=against(one), best=against(one)) for one in verdicts)
    found = page(reply(baseline="base", best="a", best_model="a", best_why="it is the first one", items=items))
    assert "- Against the baseline base: 1 inconclusive, 1 undecided.\n" in found
    assert "- Against the best so far: 1 inconclusive, 1 undecided.\n" in found
    assert not any(one in found for one in verdicts)


def test_when_and_where_it_was_measured_is_said_where_it_is_known() -> None:
    known: dict[str, Any] = {"as_of": "2026-11-28T20:24:56Z", "node": "box_1"}
    one = CheckpointScores(name="a", model="a", state="done")
    found = page(reply(checkpoints=(one,), suite="nightly", **known))
    assert "- As of 2026-11-28T20:24:56Z on box_1, suite nightly; measured: 1 checkpoint.\n" in found
    found = page(reply(checkpoints=(one, one), **known))
    assert "- As of 2026-11-28T20:24:56Z on box_1; measured: 2 checkpoints.\n" in found
    assert "As of" not in page(reply(node="box"))


def test_what_was_not_measured_is_named_with_its_reason() -> None:
    missing = (MissingScore(job="j2", benchmark="mmlu", kind="cot", state="failed", why="the engine died"),
               MissingScore(job="j3", benchmark="", kind="", state="deleted"))  # fmt: skip
    found = page(reply(asked=3, missing=missing, left_out="left out: ifeval: no rows"))
    assert "- Scores of 1 of 3 jobs." in found
    assert "## Not measured\n\n- mmlu cot (j2, failed): the engine died\n- a job (j3, deleted)\n" in found
    assert "- left out: ifeval: no rows\n" in found


def test_a_collapse_stands_above() -> None:
    found = page(reply(items=(item(collapsed="no row has an answer"),)))
    assert found.index("- **Collapsed**: gsm8k free_response: no row has an answer.") < found.index("## Scores")


@pytest.mark.parametrize("part", ["all", "search", "report"])
def test_a_page_of_a_part_of_the_rows_says_which(part: str) -> None:
    found = page(reply(part=part))
    assert [one for one, said in PARTS.items() if f"- {said}\n" in found] == [part] * (part != "all")
    assert ("held back" in found) == (part != "all")


@pytest.mark.parametrize(("model", "said"), [("run-20", "this checkpoint"), ("other", "step-20.pth")])
def test_the_best_is_this_checkpoint_only_with_its_model(model: str, said: str) -> None:
    found = page(reply(best="step-20.pth", best_model=model, best_why="it is the only one"))
    assert f"- Best so far: {said}: it is the only one.\n" in found


def test_an_error_says_what_was_expected_and_how_it_is_read() -> None:
    lost = ErrorSample(row=7, row_id="q-7", reason="wrong", command="rwkvctl samples j1", subject="law", cut=True,
                       was_right=True, expected="`A`", answered="B", question="1+1?\nA: 2")  # fmt: skip
    silent = ErrorSample(row=8, reason="no_answer", command="rwkvctl samples j1")
    one = item(errors=(lost, silent), wrong=300, lost=2, lost_against="base_1")
    found = page(reply(items=(one, item())))
    assert "### gsm8k free_response: 300 of 1,200 rows not right, 2 of them better in base_1\n" in found
    assert ("- row 7 `q-7`: wrong, subject `law`, cut off at the token limit, better in base_1: "
            "asked `1+1? A: 2`, expected `` `A` ``, answered `B`\n  `rwkvctl samples j1`\n") in found  # fmt: skip
    assert "- row 8: no answer\n  `rwkvctl samples j1`\n" in found
    assert found.count("### ") == 1


def test_an_empty_answer_is_told_from_none() -> None:
    said = ErrorSample(row=7, reason="wrong", command="c", answered="", question=" \n")
    assert "- row 7: wrong: answered an empty text\n" in page(reply(items=(item(errors=(said,)),)))


def test_a_long_why_is_cut() -> None:
    found = page(reply(items=(item(collapsed="x" * 5000, warnings=("y" * 5000,)),)))
    assert max(map(len, found.splitlines())) < 500


def test_an_overview_lists_checkpoints_by_step_where_there_are_several() -> None:
    one = CheckpointScores(name="a", model="a", state="done", step=1000, values=(VALUE,), best=True)
    unknown = CheckpointScores(name="b", model="b", state="dispatched", values=(None,))
    last = CheckpointScores(name="c", model="c", state="done", step=FINAL_STEP, values=(MetricView(value=None),))
    (found,) = tables(page(reply(objective=("gsm8k free_response",), checkpoints=(one, unknown, last))))
    assert found == [
        ["step", "checkpoint", "state", "gsm8k free_response", ""],
        ["1,000", "a", "done", "50.0 % (40.0 to 60.0)", "best so far"],
        ["–", "b", "dispatched", "–", ""],
        ["last", "c", "done", "– –", ""],
    ]
    assert tables(page(reply(objective=("gsm8k free_response",), checkpoints=(one,)))) == []


def overview(found: str) -> list[str]:
    return [line[1] for line in tables(found)[-1][1:]]


def many(count: int, best: int | None = None) -> tuple[CheckpointScores, ...]:
    return tuple(
        CheckpointScores(name=f"c{step}", model=f"c{step}", state="done", step=step, values=(VALUE,), best=step == best)
        for step in range(count)
    )


def test_checkpoints_stand_before_errors() -> None:
    wrong = ErrorSample(row=8, reason="no_answer", command="rwkvctl samples j1")
    found = page(reply(objective=("gsm8k free_response",), checkpoints=many(2), items=(item(errors=(wrong,)),)))
    assert found.index("## Scores") < found.index("## Checkpoints") < found.index("## What it gets wrong")


@given(st.integers(2, 3 * MOST_CHECKPOINTS), st.data())
def test_the_overview_lists_the_last_ones_and_the_best(count: int, data: st.DataObject) -> None:
    best = data.draw(st.none() | st.integers(0, count - 1))
    found = page(reply(objective=("gsm8k free_response",), checkpoints=many(count, best)))
    wanted = sorted({*range(max(0, count - MOST_CHECKPOINTS), count), *([] if best is None else [best])})
    assert overview(found) == [f"c{step}" for step in wanted]
    left_out = count - len(wanted)
    noun = "earlier checkpoint" + "s" * (left_out != 1)
    assert (f"Not listed: {left_out} {noun}; the JSON has all.\n" in found) == bool(left_out)
    assert ("Not listed" in found) == bool(left_out)
