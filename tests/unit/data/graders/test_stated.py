"""Verdicts on parts of a reasoning: which are about an answer that the part states."""

import pytest

from rwkv_data.definition.answer import Answer
from rwkv_data.graders.extract import of_text
from rwkv_data.graders.letters import GRADER as LETTER
from rwkv_data.graders.stated import states_answer


@pytest.mark.parametrize(
    ("answer", "text", "stated"),
    [
        ("12", "We multiply, so it is \\boxed{12}.", True),
        ("12", "We add, so it is \\boxed{7}.", True),
        ("12", "So the answer is 12.", True),
        ("12", "So the answer is 12. Let me verify: 4, 8, 12. Yes, the answer is correct.", False),
        ("x+1", "We get x+1. Let me check whether the answer is right.", False),
        ("12", "We need 3 boxes with 4 apples each, and that is all there is to know about them.", False),
        ("12", "so $12$.", False),
        ("12", "Hmm.", False),
    ],
)
def test_a_verdict_on_a_text_answer_counts_only_where_an_answer_is_stated(answer: str, text: str, stated: bool) -> None:
    found = of_text(text)
    assert states_answer(text, found.route, right=found.text == answer) is stated


@pytest.mark.parametrize(
    ("text", "stated"),
    [("The answer is (B).", True), ("\\boxed{A}", True), ("Is the answer A? No.", False), ("A is too long.", False)],
)
def test_a_verdict_on_a_letter_counts_where_it_is_right_or_in_a_box(text: str, stated: bool) -> None:
    row = {"answer": "B", "choices": ["one", "two", "three", "four"]}
    with LETTER.open() as grade:
        found = grade(row, Answer(text))
    counts = found.reason != "no_answer" and states_answer(text, found.route, right=bool(found.value))
    assert counts is stated


@pytest.mark.parametrize(
    ("text", "route", "right", "stated"),
    [
        ("```python\nprint(7)\n```", "last-fence", False, True),
        ("```python\nprint(7)\n```\nFor the input\n```\n3\n```", "last-fence", False, False),
        ("```python\nprint(7)\n```\nFor the input\n```\n3\n```", "between-fences", True, True),
        ("I will give it in boxed form at the end.", "boxed", False, False),
        ("It is \\fbox {7}.", "boxed, rounded", False, True),
        ("The last number is 7.", "number", True, False),
        ("7", "all", True, False),
    ],
)
def test_a_wrong_verdict_counts_only_where_nothing_else_can_be_meant(
    text: str, route: str, right: bool, stated: bool
) -> None:
    assert states_answer(text, route, right=right) is stated
