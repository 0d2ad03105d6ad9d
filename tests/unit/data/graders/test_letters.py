"""letter-v1: the letter that a completion chooses."""

import pytest
from effort import bounded
from hypothesis import given
from hypothesis import strategies as st

from rwkv_data.definition.answer import Answer
from rwkv_data.graders.letters import GRADER, chosen, grade

CITIES = ["Paris", "London", "a metal", "Rome"]
TEN = [f"value {index}" for index in range(10)]
FEW = [
    ("The answer is C", "C", "sentence"),
    ("The answer is C.", "C", "sentence"),
    ("The answer is (B).", "B", "sentence"),
    ("the answer is **D**", "D", "sentence"),
    ("**Answer:** **D**", "D", "sentence"),
    ("**Answer**: B", "B", "sentence"),
    ("Answer: $A$", "A", "sentence"),
    ("Answer: B) London", "B", "sentence"),
    ("Answer:\nC", "C", "sentence"),
    ("ANSWER: A", "A", "sentence"),
    ("answer: (c)", "C", "sentence"),
    ("answer: b", "B", "sentence"),
    ("The answer is a", "A", "sentence"),
    ("The answer is C, a metal", "C", "sentence"),
    ("The answer is A because it is so", "A", "sentence"),
    ("The answer is option C", "C", "sentence"),
    ("The correct option is D.", "D", "sentence"),
    ("The correct choice is: B", "B", "sentence"),
    ("The correct answer would be D: Rome", "D", "sentence"),
    ("The best answer is B: London", "B", "sentence"),
    ("Thus the choice is **(D) Rome**", "D", "sentence"),
    ("So the answer is \\boxed{\\text{(C)}}", "C", "sentence"),
    ("The final answer is $\\boxed{\\textbf{(A)}\\ 5}$", "A", "sentence"),
    ("Final answer is A because of that", "A", "sentence"),
    ("The answer is A. No, the answer is B.", "B", "sentence"),
    ("The answer is 'C'", "C", "sentence"),
    ("The answer is “C”", "C", "sentence"),
    ("The answer is [C]", "C", "sentence"),
    ("The answer is Ｃ", "C", "sentence"),
    ("#### C", "C", "sentence"),
    ("答案是B", "B", "sentence"),
    ("答案：C。", "C", "sentence"),
    ("正确答案是 A", "A", "sentence"),
    ("正确答案应该是（D）", "D", "sentence"),
    ("故选D", "D", "sentence"),
    ("因此选择B。", "B", "sentence"),
    ("\\boxed{B}. This is a good choice", "B", "boxed"),
    ("\\boxed{\\text{B}}", "B", "boxed"),
    ("\\boxed{(C)}", "C", "boxed"),
    ("\\boxed{D. Rome}", "D", "boxed"),
    ("We see \\boxed{C} is right and A is not", "C", "boxed"),
    ("\\boxed{Rome}", "D", "text"),
    ("The answer is: London.", "B", "text"),
    ("The answer is a metal.", "C", "text"),
    ("The answer is the city of Paris", "A", "text"),
    ("Option B is correct", "B", "alone"),
    ("Therefore A", "A", "alone"),
    ("I think it is B because A is wrong.", "B", "alone"),
    ("Vitamin C is good, A is best", "A", "alone"),
    ("It must be (D)", "D", "alone"),
    ("B", "B", "alone"),
    ("B.", "B", "alone"),
    ("(B)", "B", "opening"),
    ("<think>The answer is A</think>The answer is B.", "B", "sentence"),
    ("<think>The answer is A</think>So it is (B)", "B", "alone"),
    ("A dog is nice. I say so.", "", ""),
    ("A man is here", "", ""),
    ("The answer is a dog", "", ""),
    ("The answer is A-type", "", ""),
    ("The answer is U.S.", "", ""),
    ("The answer is not B", "", ""),
    ("The answer is E", "", ""),
    ("the answer is Paris or London", "", ""),
    ("The answer is D'accord", "", ""),
    ("no idea", "", ""),
    ("", "", ""),
    ("The answer cannot be B", "", ""),
    ("It cannot be B.", "", ""),
    ("It is not (B).", "", ""),
    ("It isn't B", "", ""),
    ("B is wrong.", "", ""),
    ("B is not correct", "", ""),
    ("B is wrong, so it must be C", "C", "alone"),
    ("It is C, not B", "C", "alone"),
    ("It is either A or B", "", ""),
    ("The answer is either A or B", "", ""),
    ("The answer is A or B.", "", ""),
    ("The answer is (A) or (B).", "", ""),
    ("The answer is both A and C", "", ""),
    ("The answer is A, B", "", ""),
    ("The answer is A/B", "", ""),
    ("The answer is B. The answer is A or B.", "", ""),
    ("\\boxed{A, B}", "", ""),
    ("\\boxed{A \\text{ or } B}", "", ""),
    ("A or B", "", ""),
    ("答案是A或B", "", ""),
    ("Among A through D, the answer is 200 meters", "", ""),
    ("The answer is A, B is wrong.", "A", "sentence"),
    ("The answer is not Paris", "", ""),
    ("The answer is anything except London.", "", ""),
    ("(A) The median of the triangle through $B$", "A", "opening"),
    ("A. The median of the triangle through $B$", "A", "opening"),
    ("**C** is the one, and $B$ is a point", "C", "alone"),
    ("(A) is too small. (B) fits.", "B", "alone"),
    ("It is $B$.", "B", "alone"),
    ("I chose D and not A", "D", "alone"),
    ("The answer is B. Plan C is worse. My answer is complete.", "B", "sentence"),
    ("The answer is A? " * 30 + "The answer is B.", "B", "sentence"),
]
MANY = [
    ("The answer is J", "J", "sentence"),
    ("The answer is I.", "I", "sentence"),
    ("The answer is (I)", "I", "sentence"),
    ("Answer: I", "I", "sentence"),
    ("The answer is I think B", "B", "alone"),
    ("I would go with J", "J", "alone"),
    ("I believe that I am right, it is G", "G", "alone"),
    ("I am not sure", "", ""),
    ("I'm not sure", "", ""),
    ("J. S. Bach wrote it", "", ""),
    ("The answer is value 7", "H", "text"),
    ("The answer is K", "", ""),
]


@pytest.mark.parametrize(("text", "letter", "route"), FEW)
def test_four_choices(text: str, letter: str, route: str) -> None:
    found = chosen(text, "ABCD", CITIES)
    assert (found.text, found.route) == (letter, route)


@pytest.mark.parametrize(("text", "letter", "route"), MANY)
def test_ten_choices(text: str, letter: str, route: str) -> None:
    found = chosen(text, "ABCDEFGHIJ", TEN)
    assert (found.text, found.route) == (letter, route)


def test_one_choice_within_another_counts_as_the_longer() -> None:
    choices = ["Guilty", "Guilty of Romance", "Innocent"]
    assert chosen("The answer is Guilty of Romance.", "ABC", choices).text == "B"
    assert chosen("The answer is Guilty.", "ABC", choices).text == "A"


def test_grades() -> None:
    row = {"question": "Q", "choices": CITIES, "answer": "B"}
    right, wrong, none = (grade(row, Answer(text)) for text in ("Answer: B", "Answer: C", "no idea"))
    assert (right.value, right.extracted, right.reason, right.route) == (1.0, "B", "right", "sentence")
    assert (wrong.value, wrong.extracted, wrong.reason) == (0.0, "C", "wrong")
    assert (none.value, none.extracted, none.reason, none.route) == (0.0, None, "no_answer", "")
    assert GRADER.name == "letter-v1"


@given(
    st.sampled_from("ABCDEFGHIJKLMNOPQRSTUVWXYZ"),
    st.sampled_from(["Answer: {}", "The answer is ({}).", "\\boxed{{{}}}"]),
)
def test_all_letters_are_read(letter: str, form: str) -> None:
    names = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
    assert chosen(form.format(letter), names, [f"number {index}" for index in range(26)]).text == letter


@given(st.text(max_size=200))
def test_no_text_breaks_it(text: str) -> None:
    assert chosen(text, "ABCD", CITIES).text in {"", "A", "B", "C", "D"}


@pytest.mark.parametrize(
    "text",
    [
        "answer is " * 20000,
        "A " * 50000,
        "(" * 100000,
        "answer (" * 10000,
        "\\text{" * 20000,
        "**" * 50000,
        "\\boxed{" * 10000,
        "the " * 30000,
        "答案" * 50000,
        "İ" * 100000,
    ],
    ids=lambda text: ascii(text[:12]),
)
def test_hostile_texts_take_no_time(text: str) -> None:
    with bounded():
        chosen(text, "ABCD", CITIES)
