"""number-v1, the box, exact numbers and choices."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rwkv_data.definition.answer import Answer
from rwkv_data.graders import choice
from rwkv_data.graders.maths.boxed import closes_box, inside_box, open_groups
from rwkv_data.graders.maths.number import final_number, grade, grade_exact
from rwkv_data.graders.maths.number_words import _in_words, spelled

CHOICE = {"question": "Q", "choices": ["w", "x", "y"], "answer": "B"}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("18", 18),
        ("18.0", 18),
        ("18.", 18),
        ("$18", 18),
        ("\\$18.00", 18),
        ("-18", -18),
        ("−18", -18),
        ("-$18", -18),
        ("- 18", -18),
        ("–18", -18),
        ("18-year", 18),
        ("18!", 18),
        ("--18", -18),
        ("the loss is -18", -18),
        ("1,000", 1000),
        ("10{,}000", 10000),
        ("10,\\!000", 10000),
        ("1,234,567.5", Fraction(2469135, 2)),
        ("18 \\text{ dollars}", 18),
        ("\\text{18 dollars}", 18),
        ("18 eggs", 18),
        ("50\\%", 50),
        ("x = 18", 18),
        ("9 * 2 = 18", 18),
        ("\\frac{36}{2}", 18),
        ("-\\frac{36}{2}", -18),
        ("\\dfrac{1}{2}", Fraction(1, 2)),
        ("\\frac12", Fraction(1, 2)),
        ("\\frac{270}7", Fraction(270, 7)),
        ("\\frac3{40}", Fraction(3, 40)),
        ("36/2", 18),
        (".5", Fraction(1, 2)),
        ("18^\\circ", 18),
        ("She earns 16 and spends 18", 18),
        ("Total: 18", 18),
        ("+18", 18),
        ("(18)", 18),
        ("1\\,234\\,567", 1234567),
        ("1\u2009234\u2009567", 1234567),
        ("eighteen", 18),
        ("'twenty-seven'", 27),
        ("Twenty-seven apples.", 27),
        ("one hundred and five dollars", 105),
        ("two thousand three hundred", 2300),
        ("10, not 12", 10),
        ("not 12 but 10", 10),
        ("10 (12 is wrong)", 10),
        ("0.5 or 1/2", Fraction(1, 2)),
        ("it does not matter, 18", 18),
        ("2 or 3 eggs a day, that is 18", 18),
        ("18 or so", 18),
        ("not only 18", 18),
    ],
)
def test_final_numbers(text: str, value: Fraction | int) -> None:
    found = final_number(text)
    assert found is not None
    assert found.value == value


@pytest.mark.parametrize(
    "text",
    [
        "",
        "some",
        "twenty twenty",
        "two or three",
        "one of them",
        "1 or 2",
        "2 \\text{ or } 3",
        "x=2 \\text{ or } x=3",
        "x = 2 or x = 3",
        "either 2 or 3",
        "2 eggs or 3 eggs",
        "2 and 3",
        "2 cm and 3 cm",
        "from 2 to 3",
        "2~3",
        "2或3",
        "\\text{all real numbers except } 3",
        "every number other than 3",
        "除了 3",
        "not 10",
        "\\text{not } 10",
        "it cannot be 10",
        "it isn't 10",
        "不是 10",
        "10 is wrong",
        "10 is not right",
        "more than 10",
        "at least 10",
        "10 or more",
        "18 = x",
        "\\sqrt{7}",
        "2^{3}",
        "x^2",
        "x_1",
        "6-5",
        "6 + 5",
        "x-18",
        "3 \\times 6",
        "3*6",
        "\\frac{\\sqrt{2}}{3}",
        "\\frac{x}{3}",
        "\\frac{1}{0}",
        "1/0",
        "1, 2",
        "3:30",
        "1.5 \\times 10^{3}",
        "1e5",
        "3 1/2",
        "3\\frac{1}{2}",
        "2\\pi",
        "7\\sqrt{x}",
        "f(3)",
        "18 + x",
        "18 - x",
        "x > 18",
        "x \\leq 18",
        "18, 19",
        "9" * 5000,
    ],
)
def test_expressions_and_words_have_no_final_number(text: str) -> None:
    assert final_number(text) is None


@given(st.integers(-(10**30), 10**30))
def test_every_whole_number_is_read_back(number: int) -> None:
    for text in (str(number), f"{number:,}", f"\\${number:,}.00", f"it is {number}."):
        found = final_number(text)
        assert found is not None
        assert found.value == number


@given(st.text(alphabet="0123456789.,-+/*^_{}()\\ $=xfracsqt", max_size=60))
def test_no_text_breaks_the_rule(text: str) -> None:
    final_number(text)
    assert inside_box(text) in text


def test_grades_say_what_was_read() -> None:
    row = {"question": "Q", "answer": "18"}
    right = grade(row, Answer("2 \\times 9 = 18.00}\\) and so on, 5"))
    assert (right.value, right.reason, right.extracted, right.expected) == (1.0, "right", "18.00", "18")
    assert grade(row, Answer("\\$-18")).value == 0.0
    assert grade(row, Answer("nothing")).reason == "no_answer"
    broken = grade({"question": "Q", "answer": "some"}, Answer("18"))
    assert (broken.value, broken.reason) == (None, "error")


@pytest.mark.parametrize(
    ("reference", "text", "value", "route"),
    [
        ("0.6666666667", "2/3", 1.0, "boxed, rounded"),
        ("0.6666666667", "0.66666666667", 1.0, "boxed, rounded"),
        ("0.6666666667", "0.6666666667", 1.0, "boxed"),
        ("0.6666666667", "0.667", 0.0, "boxed"),
        ("0.6666666667", "0.6666666666", 0.0, "boxed"),
        ("-0.33", "-1/3", 1.0, "boxed, rounded"),
        ("2.5", "2.45", 1.0, "boxed, rounded"),
        ("2.5", "2.44", 0.0, "boxed"),
        ("18.0", "18.04", 0.0, "boxed"),
        ("18", "18.04", 0.0, "boxed"),
    ],
)
def test_a_rounded_reference_accepts_what_rounds_to_it(reference: str, text: str, value: float, route: str) -> None:
    verdict = grade({"question": "Q", "answer": reference}, Answer(text))
    assert (verdict.value, verdict.route) == (value, route)


@given(st.integers(0, 10**12 - 1))
def test_every_number_in_words_is_read(number: int) -> None:
    words = _in_words(number)
    assert spelled(" ".join(words)) == spelled("-".join(words) + " eggs") == number or number == 1
    assert spelled(f"{' '.join(words)} or {' '.join(words)}") is None


@pytest.mark.parametrize(
    ("text", "value", "reason"),
    [("42", 1.0, "right"), (" 42\t", 1.0, "right"), ("042", 1.0, "right"), ("43", 0.0, "wrong")]
    + [(text, 0.0, "no_answer") for text in ("42.0", "42 ", "4 2", "=42", "42!", "", "٤٢", "4" * 33) if text != "42 "],
)
def test_exact_number(text: str, value: float, reason: str) -> None:
    verdict = grade_exact({"question": "17+25=", "answer": "42"}, Answer(text))
    assert (verdict.value, verdict.reason) == (value, reason)


@pytest.mark.parametrize(
    ("text", "inside", "closed"),
    [
        ("18", "18", False),
        (" 18 }\\)", "18", True),
        ("\\frac{1}{2}}\\).", "\\frac{1}{2}", True),
        ("\\frac{1}{2", "\\frac{1}{2", False),
        ("\\{1, 2\\}}.", "\\{1, 2\\}", True),
        ("a\\\\}b", "a\\\\", True),
        ("", "", False),
        ("}", "", True),
    ],
)
def test_the_answer_ends_where_its_box_does(text: str, inside: str, closed: bool) -> None:
    assert (inside_box(text), closes_box(text)) == (inside, closed)


@pytest.mark.parametrize(("text", "groups"), [("\\frac{1}{2", 1), ("\\sqrt{\\frac{1}{2", 2), ("\\{1", 0), ("{1}", 0)])
def test_open_groups(text: str, groups: int) -> None:
    assert open_groups(text) == groups


def test_choice_takes_the_likeliest() -> None:
    right = choice.grade(CHOICE, Answer(logprobs=(-2.0, -1.0, -3.0)))
    assert (right.value, right.extracted, right.expected, right.detail) == (1.0, "B", "B", "")
    tie = choice.grade(CHOICE, Answer(logprobs=(-1.0, -1.0, -3.0)))
    assert (tie.value, tie.extracted) == (0.0, "A")
    assert "tie" in tie.detail


@pytest.mark.parametrize("logprobs", [(), (-1.0, -2.0), (-1.0, float("nan"), -2.0)])
def test_missing_scores_are_no_verdict(logprobs: tuple[float, ...]) -> None:
    verdict = choice.grade(CHOICE, Answer(logprobs=logprobs))
    assert (verdict.value, verdict.reason) == (None, "error")
