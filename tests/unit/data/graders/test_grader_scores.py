"""Graders of scored texts: choices with length-normalised views, one continuation, whole documents."""

import math

import pytest

from rwkv_data.definition.answer import Answer
from rwkv_data.graders import bits, choice, greedy

ROW = {"question": "Q", "choices": ["a", "bbbb", "ΩΩ"], "answer": "B"}


def test_normalised_choices() -> None:
    grade = choice.grade_normalised(ROW, Answer(logprobs=(-2.0, -4.0, -5.0)))
    assert (grade.value, grade.extracted, grade.reason) == (0.0, "A", "wrong")
    assert grade.parts == {"acc_norm": 1.0, "acc_bytes": 1.0}
    by_bytes = choice.grade_normalised(ROW, Answer(logprobs=(-9.0, -4.0, -3.0)))
    assert by_bytes.parts == {"acc_norm": 1.0, "acc_bytes": 0.0}


def test_a_tie_goes_to_the_first_and_is_noted() -> None:
    grade = choice.grade_normalised(ROW, Answer(logprobs=(-4.0, -4.0, -8.0)))
    assert (grade.value, "tie" in grade.detail) == (0.0, True)
    tied_by_length = choice.grade_normalised(ROW, Answer(logprobs=(-1.0, -4.0, -2.0)))
    assert tied_by_length.parts["acc_norm"] == 0.0


def test_an_empty_choice_has_no_length() -> None:
    grade = choice.grade_normalised(ROW | {"choices": ["", "b"], "answer": "B"}, Answer(logprobs=(-0.1, -5.0)))
    assert grade.parts == {"acc_norm": 1.0, "acc_bytes": 1.0}


@pytest.mark.parametrize("logprobs", [(), (-1.0, -2.0), (-1.0, float("nan"), -2.0)])
def test_missing_scores_are_no_verdict(logprobs: tuple[float, ...]) -> None:
    grade = choice.grade_normalised(ROW, Answer(logprobs=logprobs))
    assert (grade.value, grade.reason, dict(grade.parts)) == (None, "error", {})


def test_a_greedy_continuation() -> None:
    right = greedy.grade({"answer": "Gabriel"}, Answer(logprobs=(-1.5,), greedy=(True,)))
    wrong = greedy.grade({"answer": "Gabriel"}, Answer(logprobs=(-9.0,), greedy=(False,)))
    assert (right.value, right.extracted, right.parts) == (1.0, "Gabriel", {"logprob": -1.5, "words": 1.0})
    assert (wrong.value, wrong.extracted, wrong.reason) == (0.0, None, "wrong")
    assert greedy.grade({"answer": "x"}, Answer(logprobs=(), greedy=())).value is None
    assert greedy.grade({"answer": "x"}, Answer(logprobs=(float("nan"),), greedy=(True,))).reason == "error"


def test_bits_per_byte() -> None:
    grade = bits.grade({"text": "aΩ b"}, Answer(logprobs=(-5 * math.log(2),)))
    assert grade.value == pytest.approx(1.0)
    assert grade.parts == {"nats": pytest.approx(5 * math.log(2)), "bytes": 5.0, "words": 2.0}
    assert bits.grade({"text": ""}, Answer(logprobs=(-1.0,))).reason == "error"
    assert bits.grade({"text": "x"}, Answer(logprobs=(float("-inf"),))).value is None
