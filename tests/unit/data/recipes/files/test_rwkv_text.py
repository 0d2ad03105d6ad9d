"""RWKV's chat form."""

import json

import pytest
import vocabularies
from hypothesis import given
from training_rows import ANY_TEXT, PLAIN_ROWS, chat_text, chat_turns, plain_row, said_in

from rwkv_data.recipes.files.rwkv_text import rwkv_row, turn_text
from rwkv_data.recipes.files.training_row import TrainingRow
from rwkv_engine.tokenizer import WORLD_SIZE

TURN_END = 261
"""The token of a blank line."""
JOINED = ("。", "，", "…")
"""What the vocabulary may join with a line end behind it, unless it joins it with what stands before."""


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("a\n\nb", "a\nb"),
        ("a\n\n\n\n\nb", "a\nb"),
        ("a\r\n\r\nb", "a\nb"),
        ("a\r\rb", "a\nb"),
        ("a\n\r\nb", "a\nb"),
        ("a\n \t\n\x0b\n\x0c\n\u3000\n\u2028\n\x85\nb", "a\nb"),
        ("def f():\n\n    return 1", "def f():\n    return 1"),
        ("a  \n  \n  b", "a  \n  b"),
        ("\n\n  a \n\n", "a"),
        ("a\x0b\x0bb\u2028\u2028c", "a\x0b\x0bb\u2028\u2028c"),  # no line end of the vocabulary
        ("a\n\u200b\nb", "a\n\u200b\nb"),  # not a blank
    ],
)
def test_a_turn_has_no_blank_line_and_nothing_around_it(text: str, kept: str) -> None:
    assert turn_text(text) == kept


def test_a_row() -> None:
    row = plain_row("Q1\n\nmore", "A1\n", "User: Q2", " A2", system="S\n\n")
    assert rwkv_row(row) == {"text": "System: S\n\nUser: Q1\nmore\n\nAssistant: A1\n\nUser: User: Q2\n\nAssistant: A2"}
    assert rwkv_row(plain_row("Q", "A", system=" \n")) == {"text": "User: Q\n\nAssistant: A"}


@given(ANY_TEXT)
def test_the_rule_written_line_by_line_says_the_same(text: str) -> None:
    assert turn_text(text) == chat_text(text)
    assert turn_text(turn_text(text)) == turn_text(text)


@given(PLAIN_ROWS)
def test_whatever_is_said_the_turns_are_read_back(row: TrainingRow) -> None:
    text = json.loads(json.dumps(rwkv_row(row)))["text"]
    assert chat_turns(text) == [(role, chat_text(said)) for role, said in said_in(row)[0] if said.strip()]


@given(PLAIN_ROWS)
def test_the_token_of_a_blank_line_stands_between_turns_and_nowhere_else(row: TrainingRow) -> None:
    text = rwkv_row(row)["text"]
    turns = chat_turns(text)
    joined = sum(said.endswith(JOINED) for _, said in turns[:-1])
    tokens = vocabularies.vocabulary(WORLD_SIZE).encode(text)
    assert len(turns) - 1 - joined <= tokens.count(TURN_END) <= len(turns) - 1
