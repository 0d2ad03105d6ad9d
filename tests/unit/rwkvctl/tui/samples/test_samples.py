"""The pure parts of the console's samples: outlines, filters, rows, pages of long text, and words that differ."""

import io
from array import array
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rwkvctl.cli.commands.samples import draw, flags
from rwkvctl.cli.render import Cell, Terminal
from rwkvctl.protocol.replies import ExchangeReply, OutlineReply
from rwkvctl.protocol.views import FindingView, SameView, SampleView, StageView
from rwkvctl.text.sanitize import cell_width, safe_text
from rwkvctl.tui.samples import columns, summary
from rwkvctl.tui.samples import page as sampletext
from rwkvctl.tui.samples.cache import BOOKS, SampleBook, SampleBooks
from rwkvctl.tui.samples.columns import SampleRows
from rwkvctl.tui.samples.filter import SampleFilter, mask_of, read
from rwkvctl.tui.samples.outline import Outline, both, nearest, places
from rwkvctl.tui.samples.page import ShownSample, cut_out, place_of
from rwkvctl.tui.widgets.word_diff import MOST_WORDS, differing
from rwkvctl.tui.widgets.wrapped_text import Page, Part, breaks, lines_of

PAGES = (
    OutlineReply(
        numbers=(11, 12, 13), rows=(0, 1, 1), repeats=(0, 0, 1), verdicts="aba", reasons=("right", "wrong"),
        doubted=(12,), subjects=("algebra", "logic"), subject_of=(0, 1, 1), next=5,
    ),
    OutlineReply(
        numbers=(21, 22, 23, 24), rows=(2, 3, 4, 5), repeats=(0, 0, 0, 0), verdicts="abcd",
        reasons=("no_answer", "right", "unjudged", "odd"), cut=(21,), subjects=("algebra", "logic"),
        subject_of=(0, 0, 1, 1),
    ),
)  # fmt: skip


@pytest.fixture
def book() -> SampleBook:
    """Seven samples of every sort."""
    found = SampleBook("j1")
    for page in PAGES:
        found.outline.take(page)
    found.arrange()
    return found


def sample(number: int, **more: Any) -> SampleView:
    stage = StageView(stage="answer", prompt="User: 3+4?\n\nAssistant:", completion="It is 8.", stop="stop_token",
                        generated_tokens=9)  # fmt: skip
    given = {"row": number, "repeat": 0, "value": 0.0, "reason": "wrong", "expected": "7", "extracted": "8"}
    return SampleView(number=number, **(given | {"stages": (stage,)} | more))


# -- outlines and filters


def test_an_outline_grows_by_pages(book: SampleBook) -> None:
    outline = book.outline
    assert (len(outline), outline.whole, list(outline.numbers)) == (7, True, [11, 12, 13, 21, 22, 23, 24])
    assert [outline.place(number) for number in (11, 24, 99)] == [0, 6, -1]
    half = Outline()
    half.take(PAGES[0])
    assert not half.whole


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("right", [0, 2, 4]),
        ("wrong", [1, 3]),
        ("no answer", [3]),
        ("no verdict", [5]),
        ("cut off", [3]),
        ("needs review", [1]),
    ],
)
def test_classes(book: SampleBook, name: str, found: list[int]) -> None:
    assert places(book.outline.mask(name)) == found
    assert book.outline.count(name) == len(found)


def test_groups(book: SampleBook) -> None:
    assert [(one.name, one.samples, one.right, one.wrong, one.no_verdict) for one in book.outline.by_subject()] == [
        ("logic", 4, 1, 1, 1), ("algebra", 3, 2, 1, 0),
    ]  # fmt: skip
    assert {one.name: one.samples for one in book.outline.by_reason()} == {
        "right": 3, "wrong": 1, "no answer": 1, "unjudged": 1, "other": 1,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("narrowed", "found"),
    [
        (SampleFilter(), None),
        (SampleFilter(kind="wrong"), [1, 3]),
        (SampleFilter(kind="wrong", subject="logic"), [1]),
        (SampleFilter(subject="none"), []),
        (SampleFilter().typing("row:>2"), [4, 5, 6]),
        (SampleFilter().typing("reason:no row:<5"), [3]),
        (SampleFilter().typing('reason:="no answer"'), [3]),
        (SampleFilter().typing("!reason:right subj:alg"), [3]),
        (SampleFilter().typing("number:22"), [4]),
        (SampleFilter().typing("some text"), [0, 6]),
        (SampleFilter(kind="right").typing("some text"), [0]),
    ],
)
def test_narrowed_lists(book: SampleBook, narrowed: SampleFilter, found: list[int] | None) -> None:
    mask = mask_of(book.outline, narrowed, {11, 24})
    assert (None if mask is None else places(mask)) == found


def test_a_line_is_terms_and_one_text() -> None:
    assert read('the "answer is" row:>5 reason:right') == (
        (("row", ">5", True), ("reason", "right", True)),
        "the answer is",
    )
    for typed in ("!word", "~fuzzy", "re:x"):
        with pytest.raises(ValueError, match="not a field"):
            read(typed)


@given(st.lists(st.integers(0, 1), max_size=20), st.lists(st.integers(0, 1), max_size=20))
def test_both_masks(one: list[int], other: list[int]) -> None:
    assert list(both(bytes(one), bytes(other))) == [a & b for a, b in zip(one, other, strict=False)]


def test_the_nearest_of_an_order() -> None:
    order, mask = [4, 2, 0, 1], bytes([1, 0, 1, 0, 0])
    assert [nearest(order, at, 1, mask) for at in (-1, 0, 1, 2)] == [1, 1, 2, -1]
    assert [nearest(order, at, -1, mask) for at in (0, 1, 2, 9)] == [-1, -1, 1, 2]


def test_the_sample_beside_one_is_of_the_list_it_is_in(book: SampleBook) -> None:
    assert [book.beside(number, 1) for number in (11, 24)] == [12, 0]
    assert (book.beside(11, 1, wrong=True), book.beside(24, -1, wrong=True)) == (12, 21)
    book.narrowed = SampleFilter(kind="right")
    book.arrange()
    assert (book.beside(11, 1), book.beside(22, -1), book.beside(12, 1)) == (13, 13, 13)
    assert book.beside(99, 1) == 0


def test_the_shelf_holds_few_books() -> None:
    shelf = SampleBooks()
    first = shelf.of("j0")
    for number in range(1, BOOKS):
        shelf.of(f"j{number}")
    assert shelf.of("j0") is first
    shelf.of("j99")
    assert list(shelf.books) == [f"j{number}" for number in range(2, BOOKS)] + ["j0", "j99"]


# -- rows


def test_rows_say_what_is_known(book: SampleBook) -> None:
    rows = SampleRows(book)
    assert [columns.name(rows[place]) for place in range(3)] == ["0", "1", "1.1"]
    assert [columns.verdict(rows[place]).text for place in range(7)] == ["✓", "✗!", "✓", "✗", "✓", "◌", "?"]
    assert columns.extracted(rows[1]) == columns.question(rows[1]) == columns.spelt(rows[1]) == ""
    assert columns.stop(rows[3]).text == "cut off"
    book.keep([sample(12, extracted=None), sample(13, value=0.25)])
    assert columns.extracted(rows[1]) == Cell("nothing", "dim")
    assert (columns.question(rows[1]), columns.spelt(rows[1])) == ("3+4?", "9")
    assert columns.verdict(rows[2]).text == ".25"
    assert columns.stop(rows[1]).text == "token"


@pytest.mark.parametrize(
    ("prompt", "asked"),
    [
        ("User: 3+4?\n\nAssistant:", "3+4?"),
        ("Question: one?\nAnswer: 1\n\nQuestion: two  of\nthem?\nAnswer:", "two of them?"),
        ("no marks at all", "no marks at all"),
        ("", ""),
    ],
)
def test_the_question_of_a_prompt(prompt: str, asked: str) -> None:
    assert columns.asked(prompt) == asked


def test_a_preview_is_a_few_lines(book: SampleBook) -> None:
    book.keep([sample(11, route="boxed", detail="because")])
    lines = columns.preview(SampleRows(book)[0], 40, 5)
    shown = ["".join(text for text, _ in line) for line in lines]
    assert shown == [" Q 3+4?", " A It is 8.", " = right · by boxed · because"]
    assert columns.preview(SampleRows(book)[1], 40, 5) == []


def test_counts_fit_the_line(book: SampleBook) -> None:
    whole = "".join(text for text, _ in summary.counts_line(book, None, 120))
    assert whole == " 7 samples  ✓ 3 right  ✗ 2 wrong  1 no answer  1 cut off  ◌ 1 no verdict  ! 1 needs review"
    short = "".join(text for text, _ in summary.counts_line(book, None, 50))
    assert short == " 7 samples  ✓ 3 right  ✗ 2 wrong  1 no answer"


@pytest.mark.parametrize(
    ("narrowed", "words"),
    [
        (SampleFilter(), ["samples", "j1"]),
        (SampleFilter(kind="wrong"), ["samples", "j1", "--wrong"]),
        (SampleFilter(kind="cut off").typing("two words"), ["samples", "j1", "--cut", "--text", "two words"]),
        (SampleFilter().typing('reason:="no answer"'), ["samples", "j1", "--reason", "no_answer"]),
        (SampleFilter(kind="needs review"), ["review", "--job", "j1"]),
    ],
)
def test_the_same_as_a_command(book: SampleBook, narrowed: SampleFilter, words: list[str]) -> None:
    book.narrowed = narrowed
    assert summary.command_of(book) == ["rwkvctl", *words]


def test_a_place_is_a_job_and_what_narrows_it() -> None:
    assert summary.narrowed_by("j12") == ("j12", SampleFilter())
    assert summary.narrowed_by("j12 filter=wrong") == ("j12", SampleFilter(kind="wrong"))
    assert summary.narrowed_by("j1 subject=high school maths") == ("j1", SampleFilter(subject="high school maths"))


# -- long texts

TEXTS = st.text(st.sampled_from("ab \n\t\x1b\x07宽é\u0301\u202e👩x"), max_size=300)


@given(TEXTS, st.integers(2, 40))
def test_folded_lines_fit_and_lose_only_blanks(text: str, width: int) -> None:
    for line in lines_of([(text, "")]):
        rows = [line.text[start:end] for start, end in breaks(line.text, width)]
        assert all(cell_width(row) <= width for row in rows)
        assert "".join(rows).replace(" ", "") == line.text.replace(" ", "")


@given(TEXTS, TEXTS, TEXTS)
def test_spans_are_where_their_text_is(before: str, inside: str, after: str) -> None:
    lines = lines_of([(before, ""), (inside, "badge"), (after, "")])
    lit = [line.text[span.start : span.end] for line in lines for span in line.spans]
    assert "".join(lit) == "".join(safe_text(inside).expandtabs(4).split("\n"))
    for line in lines:
        assert "".join(text for text, _ in line.pieces(0, len(line.text))) == line.text


def test_prose_is_folded_between_words() -> None:
    text = "Kylar went to the store to buy glasses for his new apartment."
    assert [text[start:end] for start, end in breaks(text, 30)] == [
        "Kylar went to the store to buy", "glasses for his new apartment.",
    ]  # fmt: skip
    assert [end - start for start, end in breaks("x" * 70, 30)] == [30, 30, 10]


def test_a_page_knows_its_parts() -> None:
    parts = [Part([("one", "")], lines_of([("a b\nc", "")])), Part([("two", "")], lines_of([("d" * 25, "")]))]
    page = Page(parts, 10)
    assert [("".join(text for text, _ in page.pieces(row))) for row in range(len(page.rows))] == [
        "one", "a b", "c", "two", "d" * 10, "d" * 10, "d" * 5,
    ]  # fmt: skip
    assert [page.part_at(row) for row in (0, 2, 3, 6)] == [0, 0, 1, 1]
    assert (page.end_of(0), page.end_of(1)) == (3, 7)
    assert [page.row_of(1, 0, offset) for offset in (0, 9, 10, 24)] == [4, 4, 5, 6]
    assert len(Page(parts, 0).rows) == 5


# -- one sample


@pytest.mark.parametrize(
    ("text", "extracted", "route", "place"),
    [
        (r"5 and 5, so \boxed{5}.", "5", "boxed", (19, 20)),
        ("5} is what the prompt has opened", "5", "boxed", (0, 1)),
        ("15 or 5 or 25", "5", "number", (6, 7)),
        ("The answer is (B). Bye", "B", "letter", (15, 16)),
        ("so 64 it is", "64.0", "number", None),
        ("anything", None, "", None),
        ("anything", "  ", "", None),
    ],
)
def test_where_an_answer_stands(text: str, extracted: str | None, route: str, place: tuple[int, int] | None) -> None:
    assert place_of(text, extracted, route) == place


def test_the_answer_stands_out_before_what_differs() -> None:
    assert cut_out("abcdef", (2, 4), [(0, 1, "accent"), (3, 5, "accent")]) == [
        ("", ""), ("a", "accent"), ("b", ""), ("cd", "badge"), ("ef", ""),
    ]  # fmt: skip


def page_text(told: ShownSample) -> list[str]:
    return [
        line for part in sampletext.parts_of(told)
        for line in ("".join(text for text, _ in part.title), *(line.text for line in part.lines))
    ]  # fmt: skip


def test_a_page_says_how_a_sample_was_graded() -> None:
    judge = {"status": "judged", "model": "judge-x", "latency_s": 0.4, "replies": ["equal"],
             "usage": {"prompt_tokens": 90, "completion_tokens": 8, "cost": 0.0001}}  # fmt: skip
    finding = FindingView(
        sample=1, job="j1", model="m", benchmark="b", kind="k", row=1, repeat=0, needs_review=True,
        finding={"answer_correct": True, "math_error": False, "reason": "the same value"},
    )  # fmt: skip
    told = ShownSample(
        "j1", sample(1, detail="not equal", route="number", judge=judge, parts={"strict": 1.0}), finding=finding,
        same=[SameView(job="j9", model="x", kind="cot", version=2, number=5, value=1, reason="right", extracted="7")],
        configuration=[("seed", "42")],
    )  # fmt: skip
    lines = page_text(told)
    assert "extracted  8   rule number (characters 6–7)" in lines
    assert "judge      judged  judge-x  0.40 s  90 + 8 tokens  $0.0001   1 replies, r reads them" in lines
    assert "checker    the answer is right, the grader is wrong   needs review" in lines
    assert "j9    x cot v2  ✓ right  7" in lines
    assert [line.split()[0] for line in lines if line.startswith(("why", "parts", "verdict", "seed"))] == [
        "verdict", "why", "parts", "seed",
    ]  # fmt: skip


def test_an_exchange_is_shown_message_by_message() -> None:
    told = ShownSample("j1", sample(1))
    told.exchange = ExchangeReply(
        rule="equal 2", asked=(({"role": "system", "content": "Judge."}, {"role": "user", "content": "7 or 8?"}),),
        said={"replies": ["no"]}, problem="",
    )  # fmt: skip
    lines = page_text(told)
    assert lines[lines.index("judge system  equal 2") :] == [
        "judge system  equal 2", "Judge.", "judge user  equal 2", "7 or 8?", "judge reply 1", "no",
    ]  # fmt: skip


def test_a_long_prompt_shows_its_end() -> None:
    stage = StageView(stage="answer", prompt="\n".join(f"line {n}" for n in range(90)), completion="", stop="length")
    told = ShownSample("j1", sample(1, stages=(stage,)))
    assert page_text(told)[0].startswith("prompt answer  0 tokens  the last")
    assert "line 80" not in page_text(told)
    assert "line 89" in page_text(told)
    told.whole_prompts = True
    assert "line 0" in page_text(told)


def test_the_log_likelihoods_of_choices() -> None:
    stage = StageView(stage="answer", prompt="?", completion=" B", stop="choice", logprobs=(-3.0, -1.5))
    lines = page_text(ShownSample("j1", sample(1, stages=(stage,))))
    found = [line for line in lines if "choice " in line and "-" in line]
    assert found == ["  choice 1  -3.0000", "▸ choice 2  -1.5000"]


# -- two side by side


def words_at(text: str, spans: tuple[tuple[int, int], ...]) -> list[str]:
    return [text[start:end] for start, end in spans]


def test_words_that_differ() -> None:
    one, other = "the answer is 64.00 now", "the answer is 80 now then"
    found = differing(one, other)
    assert (words_at(one, found.one), words_at(other, found.other)) == (["64.00"], ["80", "then"])
    assert differing(one, one) == ((), ())


@given(st.text("ab c.", max_size=60), st.text("ab c.", max_size=60))
def test_what_does_not_differ_is_the_same(one: str, other: str) -> None:
    def rest(text: str, spans: tuple[tuple[int, int], ...]) -> str:
        kept = array("u", text)
        for start, end in spans:
            kept[start:end] = array("u", " " * (end - start))
        return "".join(kept.tounicode().split())

    found = differing(one, other)
    assert rest(one, found.one) == rest(other, found.other)


def test_long_unlike_texts_are_not_compared_to_the_end() -> None:
    one, other = " ".join(["x"] * 3 * MOST_WORDS), " ".join(["y"] * 3 * MOST_WORDS)
    assert differing(one, other).one == ((0, len(one)),) or differing(one, other).one[-1][1] == len(one)


def test_the_next_page_of_samples_is_asked_for_as_the_first_was() -> None:
    given = {"wrong": True, "reason": "", "cut": None, "text": "it's", "full": False, "limit": "3", "after": "7"}
    assert flags(given) == """--wrong --text 'it'"'"'s' --limit 3 --after 7"""


# -- names of rows


def test_a_sample_says_what_its_row_is_called(book: SampleBook) -> None:
    named = sample(12, row=1, row_id="test/algebra/7.json\x1b[2J")
    assert "".join(text for text, _ in summary.place_line(book, named)).startswith(
        " row 1 (test/algebra/7.json␛[2J)  sample 12"
    )
    assert "".join(text for text, _ in summary.place_line(book, sample(12, row=1))).startswith(" row 1  sample 12")
    terminal = Terminal({}, io.StringIO(), io.StringIO())
    for view in (named, sample(12, row=1)):
        draw(terminal, msgspec.to_builtins(view), 12)
    titles = [line for line in terminal.out.getvalue().split("\n") if "sample 12" in line]
    assert titles[0].startswith("✗ row 1 (test/algebra/7.json␛[2J) · wrong · sample 12 ─")
    assert titles[1].startswith("✗ row 1 · wrong · sample 12 ─")
