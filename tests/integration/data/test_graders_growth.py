"""No text makes a grader fail, or take time that grows faster than the text: a runner's threads share one interpreter.

Processor time of the thread is measured, and only its growth from one size to four times that is judged: a quadratic
step shows as sixteen, a linear one as four.
"""

import gc
import inspect
import re
import time
from collections.abc import Callable
from typing import Any

import pytest

from rwkv_data.definition.answer import Answer
from rwkv_data.graders import extract, ifeval, letters, lm_eval_bbh, text, translation, vote
from rwkv_data.graders.code import extract as code_extract
from rwkv_data.graders.code.compare_outputs import same_lines
from rwkv_data.graders.maths import (
    answer_text,
    lm_eval_gsm8k,
    lm_eval_math,
    minerva_ocw,
    minerva_rules,
    number,
    olympiad,
    qwen_strip,
)
from rwkv_data.instructions.instruction_rows import RULES

Grading = Callable[[str], object]
ROW = {"answer": "12.5", "solution": "\\boxed{12.5}", "choices": ["one", "two", "three", "four"], "target": "de"}
# In characters, and the processor seconds from which on the next size is looked at
SIZES = ((5_000, 0.002), (20_000, 0.02), (80_000, 0.0))
QUADRATIC = 9.0
MEASURABLE_S = 0.4

GRADERS: dict[str, Grading] = {
    "number": lambda said: number.grade(ROW, Answer(said)),
    "number-text": lambda said: number.grade_text(ROW, Answer(said)),
    "exact-number": lambda said: number.grade_exact({"answer": "12"}, Answer(said)),
    "letter": lambda said: letters.grade({**ROW, "answer": "A"}, Answer(said)),
    "text": lambda said: text.grade(ROW, Answer(said)),
    "bbh": lambda said: lm_eval_bbh.grade(ROW, Answer(said)),
    "gsm8k": lambda said: lm_eval_gsm8k.grade(ROW, Answer(said)),
    "gsm8k-cot": lambda said: lm_eval_gsm8k.grade_cot(ROW, Answer(said)),
    "hendrycks": lambda said: lm_eval_math.grade_hendrycks(ROW, Answer(said)),
    "aime": lambda said: lm_eval_math.grade_aime(ROW, Answer(said)),
    "minerva": lambda said: minerva_rules.normal(minerva_rules.extracted_answer(said)),
    "qwen": qwen_strip.answer_of,
    "maths of a box": lambda said: answer_text.verdict("5\\text{ cm}", extract.of_box(said).text),
    "maths of a text": lambda said: answer_text.objection("x^2+5", extract.of_text(said).text),
    "olympiad": lambda said: olympiad.listed(said, "cm"),
    "quantity": minerva_ocw.quantity,
    "vote": lambda said: vote.vote(0.0, said),
    "translation": lambda said: translation.grade(ROW, Answer(said)),
    "code": lambda said: (code_extract.last_fenced(said), code_extract.between_last_fences(said)),
    "output": lambda said: same_lines(said, said[:-1] + "x", rtol=1e-5),
}
ARGUMENTS: dict[str, Any] = {
    "N": 3, "n": 2, "m": 3, "small_n": 2, "percentage": 50, "min_words": 10, "max_words": 20, "n_start": 0, "n_end": 3,
    "keyword": "word", "word": "word", "keywords": ["word"], "forbidden_words": ["word"], "reference_text": "abc def",
    "keyword1": "a", "keyword2": "b", "keyword3": "c", "keyword4": "d", "keyword5": "e", "prompt_to_repeat": "Say hi",
    "sep": "...", "options": "yes/no", "num_placeholders": 3, "frequency": 2, "relation": "at least", "letter": "a",
    "let_frequency": 3, "let_relation": "at least", "language": "en", "num_sentences": 3, "num_words": 100,
    "num_paragraphs": 3, "nth_paragraph": 2, "first_word": "a", "postscript_marker": "P.P.S", "num_bullets": 3,
    "num_highlights": 3, "section_spliter": "Section", "num_sections": 2, "end_phrase": "end", "capital_frequency": 3,
    "capital_relation": "at least",
}  # fmt: skip
REPEATED = (
    *(" ", "\n", "a", "a ", "9", "9,", "1.", "1 ", "[", "(", "{", "}", "*", "-", '"', ".", "$", "```\n", "A. "),
    *("\\boxed{", "\\frac", "\\text{ ", "the answer is ", "not 1 or ", "Final Answer: The final answer is ", "\u4e00"),
)
FEW = (" ", "\n", "9", "1.", "a. ", "[", "*", '"')
FEWEST = ("\n", "a. ")
AROUND = (("", " or 3"), ("the answer is ", ""))


def rules() -> dict[str, Grading]:
    """Every rule of IFEval and IFBench, strictly and loosely."""

    def grading(rule: Callable[..., bool]) -> Grading:
        chosen = {name: ARGUMENTS[name] for name in list(inspect.signature(rule).parameters)[1:]}
        return lambda said: ifeval.followed(lambda variant: rule(variant, **chosen), said)

    return {name: grading(rule) for name, rule in RULES.items()}


def seconds(grading: Grading, said: str) -> float:
    """Return the seconds of this thread's own work, without the garbage collector, whose time depends on the
    process."""
    gc.disable()
    try:
        begun = time.thread_time()
        grading(said)
        return time.thread_time() - begun
    finally:
        gc.enable()


def too_slow(grading: Grading, repeated: tuple[str, ...], around: tuple[tuple[str, str], ...] = AROUND) -> list[str]:
    """Return the texts for which the time grows faster than the text. Fast ones are not tried in a larger size."""
    found = []
    for opening, ending in around:
        for piece in repeated:
            before = 0.0
            for size, least in SIZES:
                text = opening + piece * (size // len(piece)) + ending
                now = seconds(grading, text)
                if before and now > MEASURABLE_S and now > QUADRATIC * before:
                    now = min(now, *(seconds(grading, text) for _ in range(2)))
                if before and now > MEASURABLE_S and now > QUADRATIC * before:
                    found.append(f"{opening!r} + {piece!r} ...: {before:.2f} s, of four times the text {now:.2f} s")
                before = now
                if now < least:
                    break
    return found


some_or_all = pytest.mark.parametrize(
    "few", [True, pytest.param(False, marks=pytest.mark.slow("golds"))], ids=["a few", "all"]
)


@some_or_all
@pytest.mark.parametrize("name", GRADERS)
def test_time_grows_with_the_text(name: str, few: bool) -> None:
    GRADERS[name]("warm up: 1")
    assert too_slow(GRADERS[name], FEW if few else REPEATED) == []


@some_or_all
def test_time_of_a_rule_grows_with_the_text(few: bool) -> None:
    for name, grading in rules().items():
        grading("Warm up. One.")
        assert too_slow(grading, FEWEST if few else FEW) == [], name


def test_a_quadratic_step_would_be_found() -> None:
    """The former search for marked choices was quadratic: it started over after every line break."""
    former = re.compile(r"(?:(?<=\n)|^)\s*\**([A-Z])[.):]")
    [found] = too_slow(lambda said: former.findall(said[:20_000:2]), ("\n",), (("", ""),))
    assert found.startswith("'' + '\\n'")


def test_a_number_of_thousands_of_digits_is_no_error() -> None:
    """Python refuses to read such a number; the sample then had no grade, and the job no score."""
    for said in ("9" * 5000 + " or 3", "4 or " + "9" * 5000, "9" * 5000, "1/" + "9" * 5000 + " or 2"):
        assert number.grade({"answer": "3"}, Answer(said)).reason == "no_answer"
