"""The engine's stream of answers as lines, whatever pieces it comes in."""

import asyncio
import itertools
from collections.abc import AsyncIterator

import msgspec
import pytest
from hostile import HOSTILE_BYTES, HOSTILE_TEXTS
from hypothesis import given
from hypothesis import strategies as st

from rwkv_daemon.runner.engine_client import EngineRefusedError, lines, read
from rwkvctl.protocol.engine import Generated, Scored, Usage

DECODER: "msgspec.json.Decoder[Generated | Scored]" = msgspec.json.Decoder(Generated)


async def pieces_of(data: bytes, cuts: list[int]) -> AsyncIterator[bytes]:
    places = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    for start, end in itertools.pairwise(places):
        yield data[start:end]


def split(data: bytes, cuts: list[int]) -> list[bytes]:
    async def collected() -> list[bytes]:
        return [line async for line in lines(pieces_of(data, cuts))]

    return asyncio.run(collected())


@given(st.lists(st.binary(max_size=12)), st.lists(st.integers(0, 200)))
def test_pieces_do_not_matter(parts: list[bytes], cuts: list[int]) -> None:
    body = b"\n".join(parts)
    assert split(body, cuts) == [line for line in body.split(b"\n") if line]


@given(st.lists(st.sampled_from([text.encode(errors="replace").decode() for _, text in HOSTILE_TEXTS]), max_size=4))
def test_any_text_is_one_line(texts: list[str]) -> None:
    answers = [Generated(id="a", text=text, stop="length", usage=Usage(prompt=1)) for text in texts]
    body = b"".join(msgspec.json.encode(answer) + b"\n" for answer in answers)
    assert [read(DECODER, line) for line in split(body, [7, 70, 700])] == answers


@pytest.mark.parametrize("line", [b"", b"{}", b'{"id": 7}', b"[" * 10_000, *(one.data for one in HOSTILE_BYTES)])
def test_what_is_no_answer_is_refused_with_a_sentence(line: bytes) -> None:
    with pytest.raises(EngineRefusedError, match="an answer of the engine cannot be read"):
        read(DECODER, line)
