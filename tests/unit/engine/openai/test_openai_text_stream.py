"""Streamed texts: stops are removed, text that was sent stays, and the pieces give the whole text."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from vocabularies import vocabulary

from rwkv_engine.openai.refusals import bad
from rwkv_engine.openai.server_sent_events import DONE, event, events
from rwkv_engine.openai.templates import Phase
from rwkv_engine.openai.text_stream import TextStream, beginning
from rwkv_engine.openai.thinking import ThoughtSplitter
from rwkv_engine.scheduling.sample import Sample, SampleRule
from rwkv_engine.scheduling.stops import resolve
from rwkvctl.protocol.engine import Sampling, Stops

BYTES, WORLD = vocabulary(257), vocabulary(65536)
PARTS = ["a", "b", "ab", "é", "北", "😀", "\n\n", "User", "</think>"]
HALVES = [WORLD.ids[bytes([byte])] for byte in (0xE5, 0x8C, 0x97, 0xF0, 0x9F, 0xFF, 0x80)]
tokens = st.lists(
    st.one_of(
        st.sampled_from(PARTS).flatmap(lambda part: st.sampled_from(WORLD.encode(part))), st.sampled_from(HALVES)
    ),
    max_size=30,
)
stops = st.lists(st.lists(st.sampled_from(PARTS), min_size=1, max_size=3).map("".join), max_size=4)


def grow(ids: Sequence[int], stop: Sequence[str], reads: Sequence[bool], lead: bytes = b"") -> tuple[Sample, str, bool]:
    """Add ids to a sample; a reader reads after those for which `reads` is set, and at the end."""
    rule = SampleRule(Sampling(max_tokens=len(ids) + 1), resolve(Stops(suffixes=tuple(stop)), WORLD), None, frozenset())
    sample = Sample(rule, 0, WORLD)
    text_stream = TextStream(WORLD, rule.stops.suffixes, lead)
    text, counted, last = "", 0, False
    for place, token in enumerate([*ids, 0]):
        if sample.stop is None:
            sample.add(token)
        if reads[place % len(reads)] or sample.stop is not None:
            piece = text_stream.next(sample)
            assert not last or piece.text == ""
            assert piece.tokens >= counted
            text, counted, last = text + piece.text, piece.tokens, piece.last
    assert counted == len(sample.ids), "in the end every token was told of"
    return sample, text, last


@given(
    tokens, stops, st.lists(st.booleans(), min_size=1, max_size=7), st.sampled_from([b"", b"lead ", "é".encode()[:1]])
)
def test_the_pieces_of_a_sample_are_its_text(ids: list[int], stop: list[str], reads: list[bool], lead: bytes) -> None:
    sample, text, last = grow(ids, stop, reads, lead)
    assert last
    assert text == (lead + sample.data).decode(errors="replace")
    assert not any(one.encode() in sample.data for one in stop), "no stop is in the text"
    whole = WORLD.decode_bytes(ids)
    assert whole.startswith(sample.data)
    if sample.stop == "stop_suffix":
        assert any(whole[len(sample.data) :].startswith(one.encode()) for one in stop)


@given(st.binary(max_size=12), st.binary(min_size=1, max_size=8))
def test_what_is_held_back_is_the_longest_beginning_of_the_stop(data: bytes, stop: bytes) -> None:
    wanted = max(k for k in range(len(stop)) if data.endswith(stop[:k]) or k == 0)
    assert beginning(bytearray(data), stop) == wanted


def test_half_a_stop_waits_and_is_given_when_it_is_none() -> None:
    rule = SampleRule(Sampling(max_tokens=99), resolve(Stops(suffixes=("\n\nUser",)), BYTES), None, frozenset())
    sample, text_stream, seen = Sample(rule, 0, BYTES), TextStream(BYTES, rule.stops.suffixes), []
    for byte in b"hi\n\nUsed\n\nUser: more":
        if sample.stop is None:
            sample.add(byte + 1)
            seen.append(text_stream.next(sample).text)
    assert seen == ["h", "i", "", "", "", "", "", "\n\nUsed", "", "", "", "", "", ""]
    assert sample.stop == "stop_suffix"


# -- thoughts


@given(
    st.lists(st.sampled_from([">", "<", "</think>", "</thin", "think>", "a", " ", "\n", "b>"]), max_size=12).map(
        "".join
    ),
    st.lists(st.integers(1, 5), min_size=1, max_size=20),
    st.sampled_from(["verbatim", "answering", "thinking"]),
    st.booleans(),
)
def test_any_cutting_gives_the_same_thought_and_answer(text: str, sizes: list[int], phase: Phase, tag: bool) -> None:
    whole = ThoughtSplitter(phase, tag).feed(text, end=True)
    splitter, thought, answer, place, turn = ThoughtSplitter(phase, tag), "", "", 0, 0
    while place < len(text):
        size = sizes[turn % len(sizes)]
        said = splitter.feed(text[place : place + size])
        thought, answer = thought + said.thought, answer + said.answer
        place, turn = place + size, turn + 1
    said = splitter.feed("", end=True)
    assert (thought + said.thought, answer + said.answer) == whole


@pytest.mark.parametrize(
    ("phase", "tag", "text", "thought", "answer"),
    [
        ("thinking", True, ">\nfirst\nthen</think>\n\nso 4", "first\nthen", "so 4"),
        ("thinking", True, ">never closed </thin", "never closed </thin", ""),
        ("thinking", False, " goes on</think>x", "goes on", "x"),
        ("answering", True, ">\n hello", "", "hello"),
        ("answering", False, " > quoted", "", "> quoted"),
        ("answering", False, "> quoted </think>", "", "> quoted </think>"),
        ("verbatim", False, "  as it is</think> ", "", "  as it is</think> "),
        ("thinking", True, "></think>", "", ""),
    ],
)
def test_thoughts(phase: Phase, tag: bool, text: str, thought: str, answer: str) -> None:
    assert ThoughtSplitter(phase, tag).feed(text, end=True) == (thought, answer)


# -- events

finite = st.floats(allow_nan=False, allow_infinity=False)
values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-(2**53), 2**53), st.text(), finite),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(), inner, max_size=3)),
    max_leaves=4,
)


def read(data: bytes) -> list[str]:
    """Return the data of events by the standard of server-sent events: lines end with CR, LF or both."""
    found, lines = [], data.decode().replace("\r\n", "\n").replace("\r", "\n").split("\n")
    for line in lines:
        if line:
            name, _, value = line.partition(": ")
            assert name == "data"
            found.append(value)
    assert lines[-2:] == ["", ""]
    return found


@given(st.lists(values, max_size=3))
def test_events_are_read_back_as_they_were_written(sent: list[object]) -> None:
    data = b"".join(map(event, sent)) + DONE
    *found, done = read(data)
    assert list(map(json.loads, found)) == sent
    assert done == "[DONE]"


def test_an_error_is_an_event_and_the_end_comes_after_it() -> None:
    async def failing() -> AsyncIterator[object]:
        yield {"n": 1}
        raise bad("x", "no")

    async def collect() -> bytes:
        return b"".join([piece async for piece in events(failing())])

    first, error, done = read(asyncio.run(collect()))
    assert (json.loads(first), done) == ({"n": 1}, "[DONE]")
    assert json.loads(error)["error"]["param"] == "x"
