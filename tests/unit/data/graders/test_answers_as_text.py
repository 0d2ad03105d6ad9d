"""Comparisons by text alone: typesetting, words, whole numbers, votes, short answers, lists, quantities."""

import math

import pytest
from effort import bounded
from hypothesis import given
from hypothesis import strategies as st

from rwkv_data.definition.answer import Answer
from rwkv_data.graders import text
from rwkv_data.graders.maths import answer_text
from rwkv_data.graders.maths.minerva_ocw import quantity
from rwkv_data.graders.maths.number import grade_text
from rwkv_data.graders.maths.olympiad import listed
from rwkv_data.graders.vote import vote


@pytest.mark.parametrize(
    ("gold", "answer", "known"),
    [
        ("\\frac{1}{2}", "\\dfrac{1}{2}", True),
        ("\\left( 3, \\frac{\\pi}{2} \\right)", "(3,\\tfrac{\\pi}{2})", True),
        ("5", "$5$.", True),
        ("2,900", "2, 900", True),
        ("10{,}000", "10,000", True),
        ("10,\\!080", "10080", True),
        ("10,\\!080", "10, \\!080", True),
        ("90^\\circ", "90^{\\circ}", True),
        ("2 1/2", "21/2", None),
        ("2 1/2", "2  1/2", None),
        ("18", "18.0", True),
        ("18", "19", False),
        ("18", "+18", True),
        ("1,000", "1000", True),
        ("18", "18 eggs", True),
        ("18", "she has 18 left", True),
        ("5", "6 \\foo 5", None),
        ("7", "\\sqrt{7}", None),
        ("18", "1.8 \\times 10", None),
        ("\\text{Evelyn}", "Evelyn.", True),
        ("\\text{Evelyn}", "\\mbox{evelyn}", True),
        ("east", "seat", False),
        ("\\text{east}", "\\text{west}", False),
        ("\\text{(C)}", "C", True),
        ("C", "\\textbf{(C)}", True),
        ("(A)", "B", False),
        ("yes", "Yes", True),
        ("a necessary but not a sufficient condition", "A necessary but not a sufficient condition", True),
        ("x+1", "1+x", None),
        ("\\{x|-2\\leq x < 1\\}", "-2\\leq x<1", True),
        ("−3", "-3", True),
        ("", "", None),
        ("5", "", None),
    ],
)
def test_what_text_alone_decides(gold: str, answer: str, known: bool | None) -> None:
    assert answer_text.same(gold, answer) is known


@given(st.text(alphabet="0123456789abx+-^_{}()\\, $/.", max_size=60))
def test_tidying_twice_changes_nothing_that_matters(answer: str) -> None:
    once = answer_text.tidy(answer)
    assert answer_text.setting_aside(once) == answer_text.setting_aside(answer)
    assert answer_text.same(answer, answer) in {True, None}


@pytest.mark.parametrize("hostile", ["{" * 100_000, "9" * 100_000, "\\text{" * 20_000, "\\{x|" * 20_000, " " * 100_000])
def test_hostile_answers_take_no_time(hostile: str) -> None:
    with bounded():
        answer_text.same("\\text{east}", hostile)
        answer_text.same("18", hostile)
        answer_text.same(hostile, hostile)
        listed(hostile)
        quantity(hostile)
        text.grade({"answer": "x"}, Answer(hostile))


@pytest.mark.parametrize(
    ("answer", "parts"),
    [
        ("$69$,$84$", ["69", "84"]),
        ("1, 3 and 5", ["1", "3", "5"]),
        ("x=1\\text{ or }x=3", ["x=1", "x=3"]),
        ("\\{1,3,5\\}", ["1", "3", "5"]),
        ("(6,3),(9,3)", ["(6,3)", "(9,3)"]),
        ("$(2,2,2), (3,4,3)$", ["(2,2,2)", "(3,4,3)"]),
        ("(-\\infty, 0) \\cup\\{1\\}", ["(-\\infty, 0) \\cup\\{1\\}"]),
        ("0, \\pm i \\sqrt{6}", ["0", "i \\sqrt{6}", "- i \\sqrt{6}"]),
        ("\\frac{1}{2}", ["\\frac{1}{2}"]),
        ("", []),
        (",,,", []),
    ],
)
def test_lists_of_answers(answer: str, parts: list[str]) -> None:
    assert listed(answer) == parts


def test_a_unit_is_taken_out() -> None:
    assert listed("90^{\\circ}, 60^{\\circ}", "^{\\circ}") == ["90", "60"]


@pytest.mark.parametrize(
    ("answer", "value"),
    [
        ("4.5e33", 4.5e33),
        ("4.5 \\times 10^{33}", 4.5e33),
        ("4.5 \\cdot 10^{33} \\text{ erg/s}", 4.5e33),
        ("1.6 \\mathrm{~cm}", 1.6),
        ("v = 3 \\times 10^8 m/s", 3e8),
        ("10^{-5}", 1e-5),
        ("-10^{3}", -1e3),
        ("-1./3", -1 / 3),
        ("11,000 K", 11000.0),
        (".5", 0.5),
        ("+2", 2.0),
        ("28 \\AA", 28.0),
        ("12 kg m s^{-2}", 12.0),
        ("\\sqrt{2}", None),
        ("2\\pi", None),
        ("\\frac{8}{5}", None),
        ("1+2", None),
        ("cm", None),
        ("", None),
    ],
)
def test_quantities(answer: str, value: float | None) -> None:
    found = quantity(answer)
    assert found == (None if value is None else pytest.approx(value))


def test_a_reference_with_something_behind_it_is_no_plain_number() -> None:
    assert quantity("7.6 Z", unit=False) is None
    assert quantity("7.6", unit=False) == pytest.approx(7.6)
    divided = quantity("1/0")
    assert divided is not None
    assert math.isnan(divided)


def test_votes() -> None:
    def graded(value: float | None, extracted: str | None) -> str | None:
        return vote(value, extracted)

    assert graded(1.0, "5") == graded(1.0, "\\frac{10}{2}")
    assert graded(0.0, "1,000") == graded(0.0, "1000.0") != graded(0.0, "1001")
    assert graded(0.0, "\\frac{1}{2}") == graded(0.0, "\\dfrac{1}{2}.")
    assert graded(0.0, "x") == graded(0.0, "X")
    assert graded(0.0, "=") not in {graded(1.0, "5"), None}
    assert graded(0.0, None) is None
    assert graded(None, "5") is None
    assert graded(0.5, "5") == graded(0.0, "5"), "half right is not the right answer"


@pytest.mark.parametrize(
    ("said", "normal", "exact"),
    [
        ("Barack Obama", 1.0, 1.0),
        (" Barack Obama\n", 1.0, 1.0),
        ("barack  obama.", 1.0, 0.0),
        ("**Ｂarack Obama**", 1.0, 0.0),
        ("Barack Obama}\\)", 1.0, 1.0),
        ("<think>who?</think> Barack Obama", 1.0, 1.0),
        ("Mr Obama", 1.0, 0.0),
        ("Obama", 0.0, 0.0),
    ],
)
def test_short_answers(said: str, normal: float, exact: float) -> None:
    row = {"answer": "Barack Obama", "aliases": ["Mr Obama"]}
    assert (text.grade(row, Answer(said)).value, text.grade_exact(row, Answer(said)).value) == (normal, exact)


def test_an_empty_answer_is_none_even_where_an_alias_is_empty() -> None:
    for said in ("", "}", "<think>x</think>"):
        assert text.grade({"answer": "x", "aliases": [""]}, Answer(said)).reason == "no_answer"
    assert text.grade({"answer": "x", "aliases": ["."]}, Answer("...")).value == 0.0


@pytest.mark.parametrize(
    ("said", "value", "reason", "route"),
    [
        ("so \\boxed{18}", 1.0, "right", "boxed"),
        ("The answer is 18 dollars.", 1.0, "right", "sentence"),
        ("16 + 2 = 18", 1.0, "right", "short"),
        ("so she has 18 eggs", 1.0, "right", "number"),
        ("The answer is 17.", 0.0, "wrong", "sentence"),
        ("The answer is \\sqrt{18}.", 0.0, "no_answer", ""),
        ("no idea", 0.0, "no_answer", ""),
    ],
)
def test_numbers_of_whole_completions(said: str, value: float, reason: str, route: str) -> None:
    grade = grade_text({"question": "Q", "answer": "18"}, Answer(said))
    assert (grade.value, grade.reason, grade.route) == (value, reason, route)
