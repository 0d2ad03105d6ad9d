"""Messages rendered to prompts, names of tokens, and requests in the engine's terms."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from vocabularies import vocabulary

from rwkv_engine.openai.generation_request import NUDGE, GenerationRequest, key_of, sampling_of
from rwkv_engine.openai.prompts import prompts_of
from rwkv_engine.openai.refusals import Refusal
from rwkv_engine.openai.request_types import CompletionRequest, Message, Part
from rwkv_engine.openai.templates import TEMPLATES, cleaned, render, template_named
from rwkv_engine.openai.tokens import END, Offsets, Tokens
from rwkv_kernels.draw import Costs
from rwkvctl.protocol.engine import Sampling, Stops

WORLD = Tokens(vocabulary(65536))
BYTES = Tokens(vocabulary(257))


def said(*turns: tuple[str, str]) -> list[Message]:
    return [Message(role=role, content=content) for role, content in turns]  # type: ignore[arg-type]


# -- templates

TALK = said(("system", "be\n\nbrief"), ("user", " a\r\n\r\n\r\nb "), ("assistant", " yes\n\nno "), ("user", "c"))


@pytest.mark.parametrize(
    ("name", "prompt"),
    [
        ("chat", "System: be\nbrief\n\nUser: a\nb\n\nAssistant: yes\n\nno\n\nUser: c\n\nAssistant:"),
        ("think", "System: be\nbrief\n\nUser: a\nb\n\nAssistant: yes\n\nno\n\nUser: c\n\nAssistant: <think"),
        (
            "fake-think",
            "System: be\nbrief\n\nUser: a\nb\n\nAssistant: yes\n\nno\n\nUser: c\n\nAssistant: <think>\n</think",
        ),
        ("base", "be\n\nbrief\n\n a\r\n\r\n\r\nb \n\n yes\n\nno \n\nc"),
    ],
)
def test_templates(name: str, prompt: str) -> None:
    rendered = render(TALK, TEMPLATES[name])
    assert rendered.text == prompt
    assert ("\n\nUser" in rendered.stops) == (name != "base")


@pytest.mark.parametrize(
    ("name", "told", "prompt", "phase"),
    [
        ("chat", "Sure: ", "User: q\n\nAssistant: Sure: ", "verbatim"),
        ("think", "<think>So", "User: q\n\nAssistant: <think>So", "thinking"),
        ("think", "<think>So</think> 4", "User: q\n\nAssistant: <think>So</think> 4", "verbatim"),
        ("base", "and", "q\n\nand", "verbatim"),
    ],
)
def test_messages_that_end_with_the_assistant_go_on(name: str, told: str, prompt: str, phase: str) -> None:
    rendered = render(said(("user", "q"), ("assistant", told)), TEMPLATES[name])
    assert (rendered.text, rendered.phase) == (prompt, phase)


@given(st.text("ab \n\r", max_size=30))
def test_cleaned_text_cannot_end_a_turn(text: str) -> None:
    once = cleaned(text)
    assert "\n\n" not in once
    assert cleaned(once) == once or "\r" in once
    assert once.split() == text.split()


def test_parts_of_text_are_joined_and_images_refused() -> None:
    parts = [Part(type="text", text="a"), Part(type="text", text="b")]
    assert render([Message(role="user", content=parts)], TEMPLATES["chat"]).text == "User: ab\n\nAssistant:"
    with pytest.raises(Refusal, match="image_url"):
        render([Message(role="user", content=[Part(type="image_url")])], TEMPLATES["chat"])
    with pytest.raises(Refusal, match="no template 'x'"):
        template_named("x")


# -- tokens


@pytest.mark.parametrize("tokens", [WORLD, BYTES])
def test_no_two_tokens_have_the_same_name(tokens: Tokens) -> None:
    names = [tokens.name(token) for token in range(tokens.tokenizer.size)]
    assert len(set(names)) == len(names)
    assert names[0] == END
    assert names[0x80 + 1] == "bytes:\\x80"


def test_the_end_of_text_at_a_texts_beginning_is_token_0() -> None:
    assert WORLD.encode(END) == (0,)
    assert WORLD.encode(END + "a") == (0, *WORLD.encode("a"))
    inside = WORLD.encode("a" + END)
    assert 0 not in inside
    assert WORLD.decode((0, *WORLD.encode("é"))) == END + "é"


@given(st.text("aé北😀", max_size=12), st.integers(1, 4))
def test_offsets_are_where_tokens_begin_in_the_text(text: str, step: int) -> None:
    data = text.encode()
    pieces = [data[i : i + step] for i in range(0, len(data), step)]
    starts = [i for i, char in enumerate(text) for _ in char.encode()]
    assert Offsets().of(pieces, text) == [starts[i] for i in range(0, len(data), step)]
    assert max(Offsets().of([*pieces, b"stop"], text), default=0) <= len(text)


@pytest.mark.parametrize(
    ("value", "ids"),
    [
        ("12", [(50, 51)]),
        (["1", ""], [(50,), ()]),
        ([50, 51], [(50, 51)]),
        ([[50], [0, 51]], [(50,), (0, 51)]),
        ([[]], [()]),
    ],
)
def test_prompts(value: object, ids: list[tuple[int, ...]]) -> None:
    found = prompts_of(value, BYTES)
    assert [prompt.ids for prompt in found] == ids
    assert [prompt.hidden for prompt in found] == [0 if one[:1] == (0,) else 1 for one in ids]
    assert all(prompt.data == BYTES.shown(prompt.ids) for prompt in found)


# -- generation requests


def test_keys_of_a_seed_differ_and_come_again() -> None:
    request = GenerationRequest(n=50, sampling=Sampling(), stops=Stops(), seed=7)
    keys = [request.keys(prompt) for prompt in range(4)]
    assert len({key for some in keys for key in some}) == 200
    assert request.keys(2) == keys[2]
    assert keys[1][3] == key_of(7, 1, 3)
    assert all(0 <= key < 1 << 64 for key in keys[0])
    unseeded = GenerationRequest(n=2, sampling=Sampling(), stops=Stops(), seed=None)
    assert unseeded.keys(0) != unseeded.keys(0)


@given(
    st.floats(-2, 2).map(lambda x: round(x, 2)),
    st.floats(-2, 2).map(lambda x: round(x, 2)),
    st.lists(st.integers(0, 3), max_size=20),
)
def test_the_engines_costs_are_openais_penalties(presence: float, frequency: float, drawn: list[int]) -> None:
    asked = CompletionRequest(prompt="a", presence_penalty=presence, frequency_penalty=frequency)
    s = sampling_of(asked, 1, -1)
    costs = Costs(s.presence, s.frequency, s.decay, frozenset())
    for token in drawn:
        costs.add(token)
    found = costs.current()
    for token in set(drawn):
        assert found is not None
        count = drawn.count(token)
        wanted = count * frequency + (presence if count else 0.0)
        assert found[1][list(found[0]).index(token)] == pytest.approx(np.float32(wanted), abs=2 * NUDGE + 1e-5)


def test_rwkvs_penalties_are_handed_on_and_not_mixed() -> None:
    asked = CompletionRequest(prompt="a", alpha_presence=0.5, alpha_frequency=0.1, alpha_decay=0.99, top_k=-1)
    s = sampling_of(asked, 5, 2)
    assert (s.presence, s.frequency, s.decay, s.top_k, s.logprobs) == (0.5, 0.1, 0.99, 0, 2)
    with pytest.raises(Refusal, match="not both"):
        sampling_of(CompletionRequest(prompt="a", alpha_presence=0.5, presence_penalty=0.1), 5, -1)


def test_neutral_defaults() -> None:
    s = sampling_of(CompletionRequest(prompt="a"), 16, -1)
    assert s == Sampling(max_tokens=16, temperature=1.0)
