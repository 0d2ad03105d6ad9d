"""choice-v1: the likeliest choice is the answer. A tie goes to the first one, as argmax does; the detail says so."""

from rwkv_data.benchmark import Answer, Grade, Grader, Row
from rwkv_data.rows import letters


def grade(row: Row, answer: Answer) -> Grade:
    """Right if the likeliest choice has the row's letter. Scores that are missing or not numbers are no verdict."""
    expected, names = str(row["answer"]), letters(row)
    if len(answer.logprobs) != len(names) or any(value != value for value in answer.logprobs):  # noqa: PLR0124  # NaN
        return Grade(None, None, expected, "error", f"{len(names)} scores were due, got {list(answer.logprobs)}")
    picked = names[answer.chosen or 0]
    detail = "a tie: the first of the likeliest choices was taken" if answer.tied else ""
    if picked == expected:
        return Grade(1.0, picked, expected, "right", detail)
    return Grade(0.0, picked, expected, "wrong", detail)


GRADER = Grader.of("choice-v1", "1", grade)
