"""The harness-compatible graders keep the harness's quirks; those of Qwen2.5-Math keep its own."""

import pytest
from effort import bounded

from rwkv_data.definition.answer import Answer
from rwkv_data.graders import lm_eval_bbh
from rwkv_data.graders.maths import hendrycks, lm_eval_gsm8k, lm_eval_math, minerva_rules, qwen_strip
from rwkv_data.graders.maths.number_words import as_digits

GSM = {"answer": "18"}


@pytest.mark.parametrize(
    ("text", "strict", "flexible"),
    [
        (" so it is\n#### 18", 1.0, 1.0),
        ("#### 18 dollars and #### 19", 1.0, 0.0),
        ("#### 18.", 1.0, 1.0),
        ("#### 18.0", 0.0, 0.0),
        ("#### $18", 0.0, 1.0),
        ("####18", 0.0, 1.0),
        ("it is 18", 0.0, 1.0),
        ("it is 18...", 0.0, 0.0),
        ("nothing", 0.0, 0.0),
    ],
)
def test_gsm8k(text: str, strict: float, flexible: float) -> None:
    grade = lm_eval_gsm8k.grade(GSM, Answer(text))
    assert (grade.value, grade.parts["flexible"]) == (strict, flexible)


@pytest.mark.parametrize(
    ("text", "value", "extracted"),
    [
        ("The answer is 18.", 1.0, "18"),
        ("The answer is 18", 0.0, "1"),
        ("The answer is 8", 0.0, None),
        ("The answer is $18.", 0.0, None),
        ("The answer is 18 now", 1.0, "18"),
    ],
)
def test_gsm8k_cot_wants_a_character_behind_the_number(text: str, value: float, extracted: str | None) -> None:
    grade = lm_eval_gsm8k.grade_cot(GSM, Answer(text))
    assert (grade.value, grade.extracted) == (value, extracted)


def test_the_reference_may_be_a_whole_solution() -> None:
    row = {"answer": "1,000 + 80 = 1,080\n#### 1,080"}
    assert lm_eval_gsm8k.grade(row, Answer("#### 1080")).value == 1.0


@pytest.mark.parametrize(
    ("text", "value"), [("So the answer is ) ].", 1.0), ("So the answer is ) ]", 0.0), ("the answer is\n) ].", 0.0)]
)
def test_bbh_cuts_the_last_character(text: str, value: float) -> None:
    assert lm_eval_bbh.grade({"answer": ") ]"}, Answer(text)).value == value


@pytest.mark.parametrize(
    ("text", "hendrycks_value", "aime_value"),
    [
        ("$204$", 1.0, 1.0),
        ("204", 1.0, 1.0),
        ("\\boxed{204}", 0.0, 1.0),
        ("$x$ is $204$", 0.0, 0.0),
        ("$x$ is $\\boxed{204}$", 0.0, 1.0),
        ("it is $x = 204$", 1.0, 1.0),
        ("it is $ x = 204$", 0.0, 0.0),
        ("", 0.0, 0.0),
        ("$", 0.0, 0.0),
    ],
)
def test_hendrycks_and_aime(text: str, hendrycks_value: float, aime_value: float) -> None:
    row = {"answer": "204"}
    assert lm_eval_math.grade_hendrycks(row, Answer(text)).value == hendrycks_value
    assert lm_eval_math.grade_aime(row, Answer(text)).value == aime_value


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        ("\\frac12", "\\frac{1}{2}", True),
        ("\\dfrac{1}{2}", "0.5", True),
        ("1/2", "\\frac{1}{2}", True),
        ("k = 15", "15", True),
        (" k = 15", "15", False),
        ("k=15", "15", True),
        ("\\sqrt3", "\\sqrt{3}", True),
        ("a/b", "a/b", True),
        ("a/b", "a / b", False),
        ("\\frac", "\\frac", True),
        ("5\\text{ cm}", "5", True),
        ("5\\text{ cm}\\text{ x}", "5", False),
        ("\\left(1,2\\right)", "(1,2)", True),
    ],
)
def test_string_equality_of_math(first: str, second: str, same: bool) -> None:
    assert hendrycks.same(first, second) is same


@pytest.mark.parametrize(
    ("answer", "normal"),
    [
        ("$\\frac12$", "\\frac{1}{2}"),
        ("x = 5", "5"),
        ("90\\text{ square units}", "90"),
        ("1,000", "1000"),
        ("0,1", "0,1"),
        ("\\sqrt[3]8", "\\sqrt[3]{8}"),
        ("\\left(3, 4\\right)", "\\left(3,4\\right)"),
        ("2\\pi cm", "2\\pi"),
        ("x" * 5000, ""),
    ],
)
def test_minerva_normal_form(answer: str, normal: str) -> None:
    assert minerva_rules.normal(answer) == normal


def test_minerva_needs_its_sentence() -> None:
    assert minerva_rules.extracted_answer("Final Answer: The final answer is $5$. I hope it is correct.") == "$5$"
    assert minerva_rules.extracted_answer("Final Answer: The final answer is $5$. ") == "$5$"
    assert minerva_rules.extracted_answer("The answer is \\boxed{5}.") == minerva_rules.INVALID


@pytest.mark.parametrize(
    ("text", "answer", "route"),
    [
        ("The final answer is $5$. I hope it is correct. \\boxed{6}", "5", "minerva"),
        ("so \\boxed{\\frac12}. The answer is 7", "\\frac{1}{2}", "boxed"),
        ("The answer is 12 apples.", "12", "sentence"),
        ("答案是 7\n\n对", "7", "sentence"),
        ("we get 3 and 1,234", "1234", "number"),
        ("nothing", "", ""),
    ],
)
def test_qwen_extraction(text: str, answer: str, route: str) -> None:
    assert qwen_strip.answer_of(text) == (answer, route)


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("two hundred", "200"),
        ("five apples", "5"),
        ("forty-two", "42"),
        ("two million twenty three thousand and forty nine", "2023049"),
        ("one point five", "1.5"),
        ("007", "7"),
        ("-42", "-42"),
        ("x", "x"),
        ("two thousand million", "two thousand million"),
    ],
)
def test_number_words(text: str, number: str) -> None:
    assert as_digits(text) == number


@pytest.mark.parametrize(
    "hostile",
    [
        "{" * 100000,
        "9" * 100000,
        "\\frac" * 20000,
        "$" * 100000,
        "the answer is " * 8000,
        "\\text{" * 20000,
        "Final Answer: The final answer is" * 3000,
        "\\boxed{" * 10000,
        "1 / " * 20000,
        "boxed" * 20000,
        "= " * 50000,
    ],
    ids=lambda text: ascii(text[:12]),
)
def test_hostile_texts_take_no_time(hostile: str) -> None:
    with bounded():
        for grade in (lm_eval_gsm8k.grade, lm_eval_gsm8k.grade_cot, lm_eval_bbh.grade):
            grade(GSM, Answer(hostile))
        lm_eval_math.grade_hendrycks(GSM, Answer(hostile))
        lm_eval_math.grade_aime(GSM, Answer(hostile))
        minerva_rules.normal(minerva_rules.extracted_answer(hostile))
        qwen_strip.answer_of(hostile)
