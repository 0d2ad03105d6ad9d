"""Which form the rows of others have: our own formats read back, the shapes that are common, and what is not clear."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from training_rows import PAIR_ROWS, PAIRS, PLAIN, PLAIN_ROWS

from rwkv_data.definition.errors import RowError, SettingError
from rwkv_data.recipes.files.row_format import row_format
from rwkv_data.recipes.files.rwkv_text import turn_text
from rwkv_data.recipes.files.training_row import TrainingRow, Turn
from rwkv_data.recipes.foreign.conversation import Conversation
from rwkv_data.recipes.foreign.foreign_form import Spoken, form_of

Q, A = Turn("user", "Q"), Turn("assistant", "A")
USER, ASSISTANT = {"role": "user", "content": "Q"}, {"role": "assistant", "content": "A"}
SYSTEM = {"role": "system", "content": "S"}
HUMAN, GPT = {"from": "human", "value": "Q"}, {"from": "gpt", "value": "A"}
GOOD, BAD = {"role": "assistant", "content": "good"}, {"role": "assistant", "content": "bad"}
FORMS = [(form, "human/gpt") for form in (*PLAIN, *PAIRS)] + [
    ("sharegpt", "user/assistant"),
    ("sharegpt-preference", "user/assistant"),
]
FIELDS = ("messages", "conversations", "prompt", "completion", "instruction", "input", "output", "text", "chosen",
          "rejected", "system", "question", "_file")  # fmt: skip
CELLS = st.one_of(
    st.none(), st.just("Q"), st.just([USER, ASSISTANT]), st.just([HUMAN]), st.just([SYSTEM, USER, GOOD]), st.just([]),
    st.just("User: Q\n\nAssistant: A"), st.integers(), st.just({"role": "assistant", "content": "A"}),
)  # fmt: skip
ANY_ROW = st.dictionaries(st.sampled_from(FIELDS), CELLS)


def read(row: dict[str, Any]) -> Spoken:
    """A row that is the first of its file."""
    return form_of(row)(row)


def one_answer(*turns: Turn, system: str = "") -> Spoken:
    return Spoken(Conversation(system, turns))


def two_answers(*turns: Turn, system: str = "") -> Spoken:
    return Spoken(Conversation(system, turns), "good", "bad")


@pytest.mark.parametrize(("form", "roles"), FORMS)
@pytest.mark.parametrize("pairs", [False, True])
def test_what_we_write_is_read_back(form: str, roles: str, pairs: bool) -> None:
    if form not in (PAIRS if pairs else PLAIN):
        return

    @given(PAIR_ROWS if pairs else PLAIN_ROWS)
    def check(row: TrainingRow) -> None:
        kept = turn_text if form == "rwkv" else str
        turns = tuple(Turn(turn.role, kept(turn.text)) for turn in row.turns)
        spelled = json.loads(row_format(form, roles).line(row))
        assert read(spelled) == Spoken(Conversation(kept(row.system), turns), row.chosen, row.rejected)

    check()


@pytest.mark.parametrize(
    ("row", "spoken"),
    [
        ({"messages": [SYSTEM, USER, ASSISTANT], "id": 7, "prompt_id": "p"}, one_answer(Q, A, system="S")),
        ({"messages": [USER, ASSISTANT], "prompt": "Q"}, one_answer(Q, A)),
        ({"messages": [USER, ASSISTANT], "conversations": None, "text": None}, one_answer(Q, A)),
        ({"conversations": [HUMAN, GPT], "id": "x_0"}, one_answer(Q, A)),
        ({"conversations": [HUMAN, GPT], "system": "S"}, one_answer(Q, A, system="S")),
        ({"conversations": [HUMAN, GPT], "system": ""}, one_answer(Q, A)),
        ({"conversations": [HUMAN, GPT], "system": None}, one_answer(Q, A)),
        ({"conversations": [HUMAN, GPT], "system": " \n"}, one_answer(Q, A)),
        ({"conversations": [{"from": "system", "value": "S"}, HUMAN, GPT]}, one_answer(Q, A, system="S")),
        ({"conversations": [{"from": "system", "value": "S"}, HUMAN, GPT], "system": ""}, one_answer(Q, A, system="S")),
        ({"instruction": "Q", "input": "", "output": "A"}, one_answer(Q, A)),
        ({"instruction": "Q", "input": None, "output": "A"}, one_answer(Q, A)),
        ({"instruction": "Q", "output": "A"}, one_answer(Q, A)),
        ({"instruction": "Q", "input": "more", "output": "A", "system": "S", "history": []},
         one_answer(Turn("user", "Q\nmore"), A, system="S")),
        ({"instruction": "", "input": "Q", "output": "A"}, one_answer(Q, A)),
        ({"instruction": "Q", "input": "", "output": "A", "text": "Below is an instruction.\n\n### Response:\nA"},
         one_answer(Q, A)),  # tatsu-lab/alpaca
        ({"messages": [USER, ASSISTANT], "text": "User: no\n\nAssistant: no"}, one_answer(Q, A)),
        ({"prompt": "Q", "completion": "A"}, one_answer(Q, A)),
        ({"prompt": [SYSTEM, USER], "completion": [ASSISTANT]}, one_answer(Q, A, system="S")),
        ({"prompt": [USER, ASSISTANT, USER], "completion": ASSISTANT}, one_answer(Q, A, Q, A)),
        ({"text": "System: S\n\nUser: Q\n\nAssistant: A", "_file": "t"}, one_answer(Q, A, system="S")),
    ],
)  # fmt: skip
def test_rows_with_one_answer(row: dict[str, Any], spoken: Spoken) -> None:
    assert read(row) == spoken


@pytest.mark.parametrize(
    ("row", "spoken"),
    [
        ({"prompt": "Q", "prompt_id": "p", "chosen": [USER, GOOD], "rejected": [USER, BAD], "messages": [USER, GOOD],
          "score_chosen": 8.0, "score_rejected": 5.5}, two_answers(Q)),  # ultrafeedback_binarized
        ({"chosen": [USER, GOOD], "rejected": [USER, BAD], "score_chosen": 8.0}, two_answers(Q)),
        ({"chosen": [SYSTEM, USER, GOOD], "rejected": [SYSTEM, USER, BAD]}, two_answers(Q, system="S")),
        ({"chosen": [USER, GOOD], "rejected": [USER, BAD], "system": "S"}, two_answers(Q, system="S")),
        ({"chosen": [USER, ASSISTANT, USER, GOOD], "rejected": [USER, ASSISTANT, USER, BAD]}, two_answers(Q, A, Q)),
        ({"prompt": [USER], "chosen": [GOOD], "rejected": [BAD]}, two_answers(Q)),  # trl-lib/hh-rlhf-helpful-base
        ({"prompt": "Q", "chosen": "good", "rejected": "bad"}, two_answers(Q)),
        ({"conversations": [HUMAN], "chosen": {"from": "gpt", "value": "good"},
          "rejected": {"from": "gpt", "value": "bad"}}, two_answers(Q)),
        ({"instruction": "Q", "input": "", "chosen": "good", "rejected": "bad", "output": None}, two_answers(Q)),
        ({"messages": [SYSTEM, USER], "chosen": GOOD, "rejected": BAD}, two_answers(Q, system="S")),
        ({"prompt": "Q", "chosen": "good", "rejected": "bad", "messages": [USER, GOOD]}, two_answers(Q)),
        ({"prompt": "Q", "instruction": "no", "chosen": "good", "rejected": "bad"}, two_answers(Q)),
        ({"prompt": "Q", "system": "S", "chosen": "good", "rejected": "bad"}, two_answers(Q, system="S")),
    ],
)  # fmt: skip
def test_rows_with_two_answers(row: dict[str, Any], spoken: Spoken) -> None:
    assert read(row) == spoken


@pytest.mark.parametrize(
    ("first", "row", "says"),
    [
        ("messages", {"conversations": [HUMAN, GPT]}, "there is no list of messages"),
        ("messages", {"messages": [USER, {"role": "tool", "content": "4"}, ASSISTANT]}, "neither of system, nor user"),
        ("messages", {"messages": [{"role": "user", "content": [{"type": "image"}]}, ASSISTANT]}, "other than text"),
        ("messages", {"messages": [SYSTEM, USER, ASSISTANT], "system": "T"}, "the row has two system texts"),
        ("alpaca", {"instruction": None, "output": "A"}, "the instruction or its input is no text"),
        ("alpaca", {"instruction": "Q", "input": 7, "output": "A"}, "the instruction or its input is no text"),
        ("alpaca", {"instruction": "Q", "input": ["x"], "output": "A"}, "the instruction or its input is no text"),
        ("alpaca", {"instruction": "Q", "output": None}, "a message is no object"),
        ("alpaca", {"instruction": "Q", "output": "A", "history": [["Q", "A"]]}, "a history before the instruction"),
        ("completion", {"prompt": "Q"}, "a message is no object"),
        ("completion", {"prompt": None, "completion": "A"}, "there is no list of messages"),
        ("completion", {"prompt": [USER], "completion": [USER]}, "an answer is not the assistant's"),
        ("text", {"text": "Once upon a time"}, "the text is no chat"),
        ("pair", {"prompt": "Q", "chosen": "good", "rejected": None}, "a message is no object"),
        ("pair", {"prompt": "Q", "chosen": [USER, GOOD], "rejected": [USER, BAD]}, "an answer is no single message"),
        ("whole", {"chosen": [USER, GOOD], "rejected": [USER, ASSISTANT, USER, BAD]}, "differ before their last"),
        ("whole", {"chosen": [USER, GOOD], "rejected": [SYSTEM, USER, BAD]}, "differ before their last message"),
        ("whole", {"chosen": [USER, GOOD], "rejected": [USER]}, "differ before their last message"),
        ("whole", {"chosen": [USER, USER], "rejected": [USER, BAD]}, "an answer is not the assistant's"),
        ("whole", {"chosen": [SYSTEM], "rejected": [SYSTEM]}, "an answer is not the assistant's"),
        ("whole", {"chosen": "good", "rejected": "bad"}, "there is no list of messages"),
        ("whole", {"chosen": [USER, GOOD], "rejected": None}, "there is no list of messages"),
    ],
)  # fmt: skip
def test_a_later_row_of_another_form_is_left_out_with_a_reason(first: str, row: dict[str, Any], says: str) -> None:
    firsts: dict[str, dict[str, Any]] = {
        "messages": {"messages": [USER, ASSISTANT]},
        "alpaca": {"instruction": "Q", "input": "", "output": "A"},
        "completion": {"prompt": "Q", "completion": "A"},
        "text": {"text": "User: Q\n\nAssistant: A"},
        "pair": {"prompt": "Q", "chosen": "good", "rejected": "bad"},
        "whole": {"chosen": [USER, GOOD], "rejected": [USER, BAD]},
    }
    with pytest.raises(RowError, match=says):
        form_of(firsts[first])(row)


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ({}, "its fields are none, and none of 'messages', 'conversations', 'prompt' with 'completion', "),
        ({"question": "Q", "answer": "A"}, "its fields are 'question', 'answer', and none of 'messages'"),
        ({"messages": None, "_file": "t"}, "its fields are none"),
        ({"instruction": "Q"}, "its fields are 'instruction', and none of .*'instruction' with 'output', 'text'"),
        ({"messages": [USER], "prompt": "Q", "completion": "A"}, "and 'messages' and 'prompt' with 'completion' could"),
        ({"messages": [USER], "conversations": [HUMAN]}, "'messages' and 'conversations' could each be it"),
        ({"chosen": "\n\nHuman: Q\n\nAssistant: good", "rejected": "\n\nHuman: Q\n\nAssistant: bad"},
         "its fields are 'chosen', 'rejected', and none of 'messages', 'conversations', 'prompt', 'instruction'"),
        ({"chosen": [GOOD], "rejected": [BAD]}, "its fields are 'chosen', 'rejected', and none of"),
        ({"messages": [USER], "instruction": "Q", "chosen": "good", "rejected": "bad"}, "and 'messages' and 'instruct"),
        ({"prompt": "Q", "chosen": "good"}, "its fields are 'prompt', 'chosen', and none of"),
        (dict.fromkeys("abcdefghijklmnopqrstuvwxyz", 1), r"its fields are 'a', [^z]*'t', and none of"),
        ({"x" * 99: 1, "\x1b[2J\ud800": 2}, r"its fields are 'x{39}, '\\x1b\[2J\\ud800', and none of"),
    ],
)  # fmt: skip
def test_a_first_row_that_does_not_say_its_form_is_refused_with_its_fields(row: dict[str, Any], says: str) -> None:
    with pytest.raises(SettingError, match=f"the row does not say what its conversation is: .*{says}"):
        form_of(row)


@given(ANY_ROW, ANY_ROW)
def test_any_row_is_read_left_out_or_refused(first: dict[str, Any], row: dict[str, Any]) -> None:
    try:
        spoken = form_of(first)(row)
    except (SettingError, RowError):
        return
    assert isinstance(spoken.conversation, Conversation)
    assert (spoken.chosen is None) == (spoken.rejected is None)
