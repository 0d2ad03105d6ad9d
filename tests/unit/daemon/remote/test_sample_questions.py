"""One sample as a request to a server: its body, its place in the cache, and what is not sent."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rwkv_daemon.remote.request_style import FEW_STOPS, RequestStyle
from rwkv_daemon.remote.sample_question import SampleQuestion, UnsendableError, never_sent, question_of, stop_strings
from rwkvctl.protocol.engine import Constraint, Continue, GenerateItem, Sampling, Stops, Turn

STANDARD = RequestStyle()
CHAT = (Turn(role="system", content="Be brief."), Turn(role="user", content="1 + 1?"))


def question(item: GenerateItem, index: int = 0, *, identity: str = "abc") -> SampleQuestion:
    return question_of(identity, "chat" if item.messages else "completions", item, index)


def item(**more: Any) -> GenerateItem:
    return GenerateItem(**{"id": "a", "messages": CHAT} | more)


def test_the_body_of_a_chat() -> None:
    sampling = Sampling(max_tokens=99, temperature=0.5, top_p=0.9, top_k=40, presence=0.1, frequency=0.2, decay=0.99)
    stops = Stops(tokens=("\n\n", "User"), suffixes=("User", "\nQ:"))
    asked = question(item(sampling=sampling, stops=stops, keys=(5, 2**63 + 7), n=2), 1)
    assert asked.route == "/chat/completions"
    assert asked.body("QwQ", STANDARD, 99) == {
        "model": "QwQ",
        "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "1 + 1?"}],
        "max_tokens": 99,
        "temperature": 0.5,
        "top_p": 0.9,
        "top_k": 40,
        "presence_penalty": 0.1,
        "frequency_penalty": 0.2,
        "stop": ["\n\n", "User", "\nQ:"],
        "seed": 7,
    }


def test_the_body_of_a_completion_is_the_text_as_it_is() -> None:
    asked = question(GenerateItem(id="a", text="User: hi \n\nAssistant:", keys=(3,)))
    assert asked.route == "/completions"
    expected = {"model": "m", "prompt": "User: hi \n\nAssistant:", "max_tokens": 256, "temperature": 0.0, "seed": 3}
    assert asked.body("m", STANDARD, 256) == expected


def test_the_body_follows_the_style() -> None:
    asked = question(item(sampling=Sampling(top_k=3), stops=Stops(suffixes=tuple("abcdef"))))
    style = RequestStyle(
        length_field="max_completion_tokens", without=frozenset({"top_k", "seed", "temperature"}), most_stops=FEW_STOPS
    )
    body = asked.body("m", style, 7)
    assert body.keys() == {"model", "messages", "max_completion_tokens", "stop"}
    assert (body["max_completion_tokens"], body["stop"]) == (7, ["a", "b", "c", "d"])


def test_samples_without_keys_have_their_number_as_seed() -> None:
    assert [question(item(n=3, keys=(9,)), index).seed for index in range(3)] == [9, 1, 2]


CHANGES: list[dict[str, Any]] = [
    {"messages": (CHAT[1],)},
    {"messages": (Turn(role="assistant", content="Be brief."), CHAT[1])},
    {"messages": (), "text": "Be brief."},
    {"keys": (6,)},
    {"stops": Stops(suffixes=("x",))},
    *(
        {"sampling": Sampling(**{name: value})}
        for name, value in {
            "max_tokens": 7, "temperature": 0.1, "top_p": 0.8, "top_k": 2, "presence": 0.3, "frequency": 0.3,
        }.items()
    ),
]  # fmt: skip
NO_CHANGES: list[dict[str, Any]] = [
    {"id": "b"},
    {"group": "j2", "priority": 4, "keep": True},
    {"n": 2, "keys": (5, 6)},
    {"sampling": Sampling(decay=0.5)},
    {"sampling": Sampling(banned=("x",), unpenalised=("y",), logit_bias=((1, 2.0),))},
]


def test_everything_that_decides_a_reply_is_in_its_key_and_nothing_else() -> None:
    keys = [question(item(**{"keys": (5,)} | change)).key("m") for change in ({}, *CHANGES)]
    keys.append(question(item(keys=(5,)), identity="abd").key("m"))
    assert len(set(keys)) == len(keys)
    assert {question(item(**{"keys": (5,)} | change)).key("other") for change in NO_CHANGES} == {keys[0]}


@pytest.mark.parametrize(
    ("api", "more", "says"),
    [
        ("chat", {"messages": (), "text": "x"}, "takes messages"),
        ("completions", {}, "takes a text"),
        ("completions", {"messages": (), "ids": (1, 2)}, "token ids"),
        ("chat", {"messages": (), "continue_from": Continue(id="b")}, "token ids"),
        ("chat", {"constraint": Constraint(json=True)}, "constraint"),
    ],
)
def test_what_a_server_cannot_be_asked_is_refused(api: Any, more: dict[str, Any], says: str) -> None:
    with pytest.raises(UnsendableError, match=says):
        question_of("abc", api, item(**more), 0)


def test_a_field_that_was_accepted_before_is_refused_for_its_value() -> None:
    asked = question(item(sampling=Sampling(top_k=3), stops=Stops(suffixes=("x",))))
    assert asked.droppable(STANDARD) == {"temperature", "top_k", "seed", "stop"}
    known = STANDARD.learning(STANDARD, {"temperature", "stop"}, structured=False)
    assert asked.droppable(known) == {"top_k", "seed", "stop"}


def test_what_no_field_is_there_for_is_told() -> None:
    assert never_sent(Sampling(temperature=1.0, decay=0.9, unpenalised=(" ",)), Stops()) == {}
    asked = Sampling(presence=0.5, decay=0.9, unpenalised=(" ",), banned=("x",), logit_bias=((1, 2.0),), logprobs=2)
    found = never_sent(asked, Stops(end_of_text=False))
    assert found == {
        "decay": 0.9, "unpenalised": [" "], "banned": ["x"], "logit_bias": [[1, 2.0]], "logprobs": 2,
        "end_of_text": False,
    }  # fmt: skip
    assert msgspec.json.encode(found)


@given(st.lists(st.text(max_size=3)), st.lists(st.text(max_size=3)))
def test_stop_strings_are_said_once_and_none_is_empty(tokens: list[str], suffixes: list[str]) -> None:
    found = stop_strings(Stops(tokens=tuple(tokens), suffixes=tuple(suffixes)))
    assert set(found) == {*tokens, *suffixes} - {""}
    assert len(set(found)) == len(found)
