"""choice-v1: the likeliest choice is the answer. choice-norm-v1: likewise, with two length-normalised views beside it.

The parts of choice-norm-v1, as lm_eval names them: `acc_norm` divides each log-likelihood by the number of characters
of the choice's text, `acc_bytes` by its bytes in UTF-8. The scored text has a blank before it, which does not count.
A tie goes to the first choice, as argmax does; the detail says so.
"""

from rwkv_data.definition.answer import Answer, Grade
from rwkv_data.definition.grader import Grader
from rwkv_data.definition.rows import letters
from rwkv_data.definition.stage import Row


def grade(row: Row, answer: Answer) -> Grade:
    """Grade as right if the likeliest choice has the letter of the row. If scores are missing or are not numbers, there
    is no verdict."""
    expected, names = str(row["answer"]), letters(row)
    if len(answer.logprobs) != len(names) or any(value != value for value in answer.logprobs):  # noqa: PLR0124  # NaN
        return Grade(None, None, expected, "error", f"{len(names)} scores were due, got {list(answer.logprobs)}")
    picked = names[answer.chosen or 0]
    detail = "a tie: the first of the likeliest choices was taken" if answer.tied else ""
    if picked == expected:
        return Grade(1.0, picked, expected, "right", detail)
    return Grade(0.0, picked, expected, "wrong", detail)


def grade_normalised(row: Row, answer: Answer) -> Grade:
    """Grade as `grade` does, with the parts acc_norm and acc_bytes."""
    plain = grade(row, answer)
    if plain.value is None:
        return plain
    expected = letters(row).index(plain.expected)
    choices = [str(choice) for choice in row["choices"]]
    parts = {
        "acc_norm": float(_likeliest(answer.logprobs, [len(choice) for choice in choices]) == expected),
        "acc_bytes": float(_likeliest(answer.logprobs, [len(choice.encode()) for choice in choices]) == expected),
    }
    return Grade(plain.value, plain.extracted, plain.expected, plain.reason, plain.detail, parts=parts)


def _likeliest(logprobs: tuple[float, ...], lengths: list[int]) -> int:
    """Return the index of the highest log-likelihood per length. An empty choice is never the highest."""
    rates = [value / length if length else float("-inf") for value, length in zip(logprobs, lengths, strict=True)]
    return rates.index(max(rates))


GRADER = Grader.of("choice-v1", "1", grade)
NORM = Grader.of("choice-norm-v1", "1", grade_normalised)
