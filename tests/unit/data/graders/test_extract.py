"""Extraction of the answer from a completion."""

import pytest
from effort import bounded
from hypothesis import given
from hypothesis import strategies as st

from rwkv_data.graders.extract import ExtractedAnswer, after_thinking, bare, of_box, of_text
from rwkv_data.graders.maths.boxed import last_box

HOSTILE = [
    "{" * 100_000,
    "}" * 100_000,
    "\\boxed{" * 10_000,
    "\\boxed{}" * 10_000,
    "\\boxed " * 10_000,
    "9" * 100_000,
    "٣" * 100_000,
    "1,111" * 20_000,
    "$" * 100_000,
    "$x" * 50_000,
    "\\(" * 50_000,
    "\\[\\[" * 20_000,
    "the answer is " * 8_000,
    "the answer to " * 8_000,
    "answer ( " * 10_000,
    "answer" + " " * 100_000,
    "答案" * 50_000,
    "\u202e" * 100_000,
    "</think>" * 10_000,
    "-" * 100_000,
    "." * 100_000,
    "\\frac{" * 20_000,
    "\x00" * 100_000,
]


@pytest.mark.parametrize(
    ("text", "answer", "route"),
    [
        ("\\boxed{18}", "18", "boxed"),
        ("so \\boxed{\\frac{1}{2}}.", "\\frac{1}{2}", "boxed"),
        ("\\boxed{1} is wrong, it is \\boxed{2}", "2", "boxed"),
        ("\\boxed{2} and \\boxed{3}", "2, 3", "boxed"),
        ("$\\boxed{2}$, $\\boxed{3}$ or $\\boxed{4}$.", "2, 3, 4", "boxed"),
        ("\\boxed{5}. \\boxed{5}", "5", "boxed"),
        ("\\fbox{7}", "7", "boxed"),
        ("\\framebox{204} minutes", "204", "boxed"),
        ("\\boxed 5$ here", "5", "boxed"),
        ("\\boxed{x=\\fbox{5}}", "5", "boxed"),
        ("\\boxed{\\frac{1}{2", "\\frac{1}{2}", "boxed"),
        ("\\boxed{18\nmore words", "18", "boxed"),
        ("the answer is 4, \\boxed{5}", "5", "boxed"),
        ("\\boxed{}, the answer is 4", "4", "sentence"),
        ("The answer is 18.", "18", "sentence"),
        ("The answer is 3.14.", "3.14", "sentence"),
        ("The answer is: 18", "18", "sentence"),
        ("**Answer:** 42", "42", "sentence"),
        ("**Final Answer**: $x^2$", "x^2", "sentence"),
        ("The final answer is $\\frac{1}{2}$.", "\\frac{1}{2}", "sentence"),
        ("Final Answer: The final answer is $[2,5)$. I hope it is correct.", "[2,5)", "sentence"),
        ("The answer is \\(x^2\\), as shown.", "x^2", "sentence"),
        ("The answer is $18$ dollars.", "18", "sentence"),
        ("The answer is\n\n$$5$$", "5", "sentence"),
        ("Answer: $x = 3$ or $x = 4$", "$x = 3$ or $x = 4$", "sentence"),
        ("The answer is 4. No, the answer is 5.", "5", "sentence"),
        ("The answer is 4. I do not think that the answer is 5.", "4", "sentence"),
        ("The answer to the question is 7.2 km", "7.2 km", "sentence"),
        ("work\n#### 18", "18", "sentence"),
        ("答案是：12。", "12", "sentence"),
        ("答案：$\\frac{1}{3}$", "\\frac{1}{3}", "sentence"),
        ("所以最终答案为 8", "8", "sentence"),
        ("-3.5", "-3.5", "short"),
        ("$\\frac{3}{4}$", "\\frac{3}{4}", "short"),
        ("x = 5", "x = 5", "short"),
        ("Adding up we get $x = 5$", "x = 5", "formula"),
        ("We have $x = 5$, so 6 apples are left over.", "6", "number"),
        ("So there are 3 and 4, that is 7 apples in the basket.", "7", "number"),
        ("That makes 1,234,567 people.", "1,234,567", "number"),
        ("It costs -$5.50 in the end", "-$5.50", "number"),
        ("<think>the answer is 4</think>I guess it is 6.", "6", "number"),
        ("<think>the answer is 4</think>", "", ""),
        ("no idea", "", ""),
        ("", "", ""),
    ],
)
def test_the_chain(text: str, answer: str, route: str) -> None:
    assert of_text(text) == ExtractedAnswer(answer, route)


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("18}\\)", "18"),
        ("\\frac{1}{2}}.\n\nSo 5", "\\frac{1}{2}"),
        ("\\frac{1}{4", "\\frac{1}{4}"),
        ("\\{1, 2\\}}", "\\{1, 2\\}"),
        ("}", ""),
        ("", ""),
    ],
)
def test_an_opened_box(text: str, answer: str) -> None:
    assert of_box(text) == ExtractedAnswer(answer, "boxed" if answer else "")


@pytest.mark.parametrize("text", HOSTILE, ids=lambda text: ascii(text[:12]))
def test_hostile_texts_take_no_time(text: str) -> None:
    with bounded():
        of_text(text)
        of_box(text)
        last_box(text)


ANYTHING = st.text(alphabet="0123456789.,-+/*^_{}()[]\\ $=xab\n:answerisboxed答案是", max_size=120)


@given(ANYTHING)
def test_no_text_breaks_the_chain(text: str) -> None:
    found = of_text(text)
    assert bool(found.text) == bool(found.route)
    assert of_text(text) == found
    of_box(text)


@given(
    st.integers(-(10**9), 10**9),
    st.sampled_from(["The answer is {}.", "\\boxed{{{}}}", "it is {} now", "答案是 {}。", "{}"]),
)
def test_a_number_is_found_in_each_form(number: int, form: str) -> None:
    assert of_text(form.format(number)).text == str(number)


@given(ANYTHING)
def test_taking_marks_off_twice_changes_nothing(text: str) -> None:
    once = bare(text)
    assert len(bare(once)) <= len(once)
    assert after_thinking(after_thinking(text)) == after_thinking(text)
