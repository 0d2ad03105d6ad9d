"""Conversations of either spelling, and which are none."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from training_rows import PLAIN_ROWS

from rwkv_data.definition.errors import RowError
from rwkv_data.recipes.files.rwkv_text import rwkv_row, turn_text
from rwkv_data.recipes.files.training_row import TrainingRow, Turn
from rwkv_data.recipes.foreign.conversation import Conversation, answer, of_messages, of_prompt, of_text

Q, A = Turn("user", "Q"), Turn("assistant", "A")
USER, ASSISTANT = {"role": "user", "content": "Q"}, {"role": "assistant", "content": "A"}
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["role", "from", "content", "value", "text", "type"]), inner)
    ),
    max_leaves=12,
)


@pytest.mark.parametrize(
    ("messages", "system", "turns"),
    [
        ([USER, ASSISTANT], "", (Q, A)),
        ([{"role": "system", "content": "S"}, USER, ASSISTANT], "S", (Q, A)),
        ([{"from": "system", "value": "S"}, {"from": "human", "value": "Q"}, {"from": "gpt", "value": "A"}], "S",
         (Q, A)),
        ([{"from": "user", "value": "Q"}, {"from": "assistant", "value": "A"}], "", (Q, A)),
        ([{"role": "User", "content": "Q"}, {"from": "GPT", "value": "A"}], "", (Q, A)),
        ([{"role": None, "from": "human", "content": None, "value": "Q"}], "", (Q,)),
        ([{"role": "user", "from": None, "content": "Q", "value": None}], "", (Q,)),
        ([USER | {"weight": 0, "name": None, "tool_calls": None}, ASSISTANT], "", (Q, A)),
        ([{"role": "user", "content": [{"type": "text", "text": "Q"}]}], "", (Q,)),
        ([{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}], "",
         (Turn("user", "a\nb"),)),
        ([{"role": "user", "content": ""}], "", (Turn("user", ""),)),
        ([{"role": "system", "content": "S"}], "S", ()),
        ([ASSISTANT, ASSISTANT], "", (A, A)),
    ],
)  # fmt: skip
def test_messages_are_a_conversation(messages: Any, system: str, turns: tuple[Turn, ...]) -> None:
    assert of_messages(messages) == Conversation(system, turns)


@pytest.mark.parametrize(
    ("messages", "says"),
    [
        (None, "there is no list of messages"),
        ([], "there is no list of messages"),
        ("Q", "there is no list of messages"),
        (USER, "there is no list of messages"),
        (["Q"], "a message is no object with a role and a content"),
        ([None], "a message is no object"),
        ([USER, {"role": "assistant", "content": None}], "a message holds something other than text"),
        ([USER, {"role": "assistant"}], "something other than text"),
        ([{"role": "user", "content": 7}], "something other than text"),
        ([{"role": "user", "content": []}], "something other than text"),
        ([{"role": "user", "content": ["Q"]}], "something other than text"),
        ([{"role": "user", "content": [{"type": "image"}, {"type": "text", "text": "Q"}]}], "other than text"),
        ([{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}, "text": None}]}], "other than"),
        ([USER, ASSISTANT, {"role": "tool", "content": "4"}, ASSISTANT], "neither of system, nor user, nor assistant"),
        ([{"content": "Q"}], "neither of system, nor user, nor assistant"),
        ([{"role": 7, "content": "Q"}], "neither of system, nor user, nor assistant"),
        ([USER, {"role": "system", "content": "S"}], "a system text stands behind the first turn"),
        ([{"role": "system", "content": "S"}] * 2, "a system text stands behind the first turn"),
    ],
)  # fmt: skip
def test_what_is_no_conversation_is_left_out_with_a_reason(messages: Any, says: str) -> None:
    with pytest.raises(RowError, match=says):
        of_messages(messages)


@pytest.mark.parametrize(
    ("text", "system", "turns"),
    [
        ("User: Q\n\nAssistant: A", "", (Q, A)),
        ("System: S\n\nUser: Q\n\nAssistant: A\n\n", "S", (Q, A)),
        ("User:Q\n\n\n\nAssistant:\nA", "", (Q, A)),
        ("User: Q\n\nmore\n\nAssistant: A", "", (Turn("user", "Q\n\nmore"), A)),
        ("User: Q\nAssistant: no\n\nAssistant: A", "", (Turn("user", "Q\nAssistant: no"), A)),
        ("User: User: Q\n\nAssistant: A", "", (Turn("user", "User: Q"), A)),
        ("User: Q\n\nAssistant:", "", (Q, Turn("assistant", ""))),
    ],
)
def test_a_text_of_the_chat_form_is_a_conversation(text: str, system: str, turns: tuple[Turn, ...]) -> None:
    assert of_text(text) == Conversation(system, turns)


@pytest.mark.parametrize("text", [None, 7, "", "Q", " User: Q", "\nUser: Q", "user: Q", "Human: Q", ["User: Q"]])
def test_another_text_is_no_chat(text: Any) -> None:
    with pytest.raises(RowError, match="the text is no chat"):
        of_text(text)


@given(PLAIN_ROWS)
def test_what_is_written_in_the_chat_form_is_read_back(row: TrainingRow) -> None:
    turns = tuple(Turn(turn.role, turn_text(turn.text)) for turn in row.turns)
    assert of_text(rwkv_row(row)["text"]) == Conversation(turn_text(row.system), turns)


def test_a_prompt_is_a_text_or_messages() -> None:
    assert of_prompt("Q") == of_prompt([USER]) == Conversation("", (Q,))
    assert of_prompt([{"role": "system", "content": "S"}, USER, ASSISTANT, USER]) == Conversation("S", (Q, A, Q))
    for prompt in (None, 7, [], {}):
        with pytest.raises(RowError):
            of_prompt(prompt)


@pytest.mark.parametrize("value", ["A", ASSISTANT, [ASSISTANT], {"from": "gpt", "value": "A"}])
def test_an_answer_is_a_text_or_one_message(value: Any) -> None:
    assert answer(value) == "A"


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ([], "an answer is no single message"),
        ([ASSISTANT, ASSISTANT], "an answer is no single message"),
        ([USER, ASSISTANT], "an answer is no single message"),
        (USER, "an answer is not the assistant's"),
        ({"role": "tool", "content": "A"}, "an answer is not the assistant's"),
        (None, "a message is no object"),
        (7, "a message is no object"),
        (["A"], "a message is no object"),
    ],
)
def test_anything_else_is_no_answer(value: Any, says: str) -> None:
    with pytest.raises(RowError, match=says):
        answer(value)


@given(VALUES)
def test_any_value_is_read_or_left_out(value: Any) -> None:
    for read in (of_messages, of_text, of_prompt, answer):
        try:
            found = read(value)
        except RowError:
            continue
        assert isinstance(found, Conversation | str)
