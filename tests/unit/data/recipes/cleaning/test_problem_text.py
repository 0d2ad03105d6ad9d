"""Which text of a training row is its problem."""

import pytest

from rwkv_data.definition.errors import RowError, SettingError
from rwkv_data.recipes.cleaning import problem_text
from rwkv_data.recipes.cleaning.problem_text import problem_of

TURNS = [{"from": "system", "value": "S"}, {"from": "human", "value": "Q1"}, {"from": "gpt", "value": "A"},
         {"from": "human", "value": "Q2"}]  # fmt: skip
MESSAGES = [{"role": "user", "content": [{"type": "text", "text": "Q"}, {"type": "image"}]}, {"role": "assistant"}]


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ({"question": "Q", "answer": "A"}, "Q"),
        ({"problem": "P", "solution": "S"}, "P"),
        ({"Problem": "P"}, "P"),
        ({"system": "S", "conversations": TURNS}, "Q1\nQ2"),
        ({"conversations": TURNS, "chosen": {"from": "gpt", "value": "A"}}, "Q1\nQ2"),
        ({"messages": MESSAGES}, "Q"),
        ({"messages": MESSAGES, "prompt": "Q", "question": None}, "Q"),  # the chat is the row
        ({"prompt": [{"role": "user", "content": "Q"}], "chosen": [], "rejected": []}, "Q"),
        ({"instruction": "I", "input": "X", "output": "O"}, "I\nX"),
        ({"input": "X", "instruction": "I", "output": "O"}, "I\nX"),
        ({"instruction": "I", "output": "O"}, "I"),
        ({"text": "System: S\n\nUser: Q1\n\nAssistant: A"}, "Q1"),
        ({"text": "System: S"}, "System: S"),
        ({"text": "User: Q1\n\nAssistant: A\n\nUser: Q2\nmore\n\nAssistant: B"}, "Q1\nQ2\nmore"),
        ({"text": "A text.\n\nUser: no"}, "A text.\n\nUser: no"),
        ({"question": "Q", "_file": "x", "text": None}, "Q"),
    ],
)
def test_the_problem_is_found(row: dict[str, object], problem: str) -> None:
    assert problem_of(row)(row) == (problem, "")


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"frage": "Q", "antwort": "A"}, "its fields are 'frage', 'antwort', and no name among them is known"),
        ({"question": "Q", "text": "T"}, "each of 'question' and 'text' could be it; name it with --field"),
        ({}, "its fields are none"),
        ({"conversations": TURNS, "messages": MESSAGES}, "each of 'conversations' and 'messages'"),
        ({"question": 3}, "no name among them"),
    ],
)
def test_a_row_that_does_not_say_is_refused_with_its_fields(row: dict[str, object], said: str) -> None:
    with pytest.raises(SettingError, match=said):
        problem_of(row)


@pytest.mark.parametrize("empty", [{}, {"input": None}, {"input": ""}])
def test_rows_of_alpaca_with_and_without_input_are_read_whichever_comes_first(empty: dict[str, object]) -> None:
    without, whole = {"instruction": "I"} | empty, {"instruction": "Solve", "input": "Q"}
    for first in (without, whole):
        of_row = problem_of(first)
        assert (of_row(without).text.strip(), of_row(whole).text) == ("I", "Solve\nQ")


def test_fields_that_are_named_are_taken() -> None:
    assert problem_of({"a": "1"}, ["b", "a"])({"a": "1", "b": "2", "choices": ["x", "y"]}) == ("2\n1", "")


@pytest.mark.parametrize(
    ("field", "choices"),
    [
        ({"choices": ["x", "y"]}, "x y"),
        ({"options": {"A": "x", "B": "y"}}, "x y"),
        ({"choices": {"text": ["x", "y"], "label": ["A", "B"]}}, "x y"),
        ({"options": "A) x B) y"}, "x y"),
        ({"options": "whatever"}, ""),
        ({"choices": []}, ""),
        ({"choices": 3}, ""),
    ],
)
def test_choices_stand_beside_the_problem(field: dict[str, object], choices: str) -> None:
    row = {"question": "Q"} | field
    assert problem_of(row)(row) == ("Q", choices)


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({}, "'q' is missing, not text"),
        ({"q": 3}, "'q' is 3, not text or a list of messages"),
        ({"q": []}, "not text"),
        ({"q": [3]}, "holds 3, not a message"),
        ({"q": [{"role": "assistant", "content": "A"}]}, "has no turn of human or user"),
        ({"q": [{"role": "user", "content": None}]}, "a message without text"),
        ({"q": [{"role": "user", "content": [{"type": "image"}]}]}, "a message without text"),
    ],
)
def test_a_later_row_without_a_problem_is_refused(row: dict[str, object], said: str) -> None:
    with pytest.raises(RowError, match=said):
        problem_of({"q": "Q"}, ["q"])(row)


def test_a_problem_of_a_megabyte_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(problem_text, "LONGEST", 4)
    with pytest.raises(RowError, match="the problem has 5 characters"):
        problem_of({"q": "Q"}, ["q"])({"q": "12345"})
