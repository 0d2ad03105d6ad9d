"""Question rows of sets that differ in nothing but their columns' names."""

from typing import Any, Final

from rwkv_data.definition import rows
from rwkv_data.definition.errors import RowError
from rwkv_data.definition.stage import Row
from rwkv_data.prepare.row_shapes.question_text import bare, first_text, first_value, kept, number

QUESTION: Final = ("problem", "Problem", "question", "Question")
ANSWER: Final = ("answer", "Answer", "expected_answer", "final_answer")


def formula_row(raw: Row) -> dict[str, Any]:
    """A question whose answer is a formula, a number or a word, without dollars around it."""
    answer = bare(str(first_value(raw, ANSWER)))
    return {"question": first_text(raw, QUESTION), "answer": answer}


def number_row(raw: Row) -> dict[str, Any]:
    """A question whose answer is a number: 27.0 becomes "27"."""
    return {"question": first_text(raw, QUESTION), "answer": number(first_value(raw, ANSWER))}


def competition_row(raw: Row) -> dict[str, Any]:
    """A competition problem whose answer is a whole number, "025" being 25; degrees are dropped."""
    gold = str(first_value(raw, ANSWER)).replace("^\\circ", "").strip().strip("$")
    solution = (
        kept(raw, solution="solution") or kept(raw, solution="Solution") or kept(raw, solution="reference_solution")
    )
    return {"question": first_text(raw, QUESTION), "answer": number(gold)} | solution


def check_number(row: Row) -> None:
    """Refuse a question row whose answer is no plain number."""
    rows.check_question(row)
    if number(row["answer"]) != row["answer"]:
        raise RowError(f"'answer' is {row['answer']!r}, not a plain number")


def check_whole(row: Row) -> None:
    """Refuse a question row whose answer is no whole number."""
    check_number(row)
    if "." in row["answer"]:
        raise RowError(f"'answer' is {row['answer']!r}, not a whole number")
