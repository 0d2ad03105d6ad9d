"""A sample's text while it is generated: given out as soon as no stop and no character can be incomplete in it."""

import codecs
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from rwkv_engine.scheduling.sample import Sample
from rwkv_engine.tokenizer import Tokenizer


class TextPiece(NamedTuple):
    """New text, and how many of the sample's tokens are out with it. `last`: nothing follows."""

    text: str
    tokens: int
    last: bool


@dataclass(slots=True)
class TextStream:
    """Reads the text of one sample while the engine's thread generates it; `lead` is given out before that text.

    It reads the growing list of ids, and nothing is queued: a reader that reads rarely gets longer pieces.
    """

    tokenizer: Tokenizer
    stops: Sequence[bytes]
    lead: bytes = b""
    _data: bytearray = field(default_factory=bytearray)
    _ends: list[int] = field(default_factory=list)
    _given: int = 0
    _counted: int = 0
    _decoder: codecs.IncrementalDecoder = field(init=False)

    def __post_init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")

    def next(self, sample: Sample) -> TextPiece:
        """Return the text that is new since the last call."""
        last = sample.stop is not None  # asked first: what follows is then whole
        for token in sample.ids[len(self._ends) :]:
            self._data += self.tokenizer.token_bytes(token)
            self._ends.append(len(self._data))
        end = len(sample.data) if last else len(self._data) - held_back(self._data, self.stops)
        text = self._decoder.decode(self.lead + bytes(self._data[self._given : end]), last)
        self._given, self.lead = max(self._given, end), b""
        return TextPiece(text, self._tokens(last=last), last)

    def _tokens(self, *, last: bool) -> int:
        """Return how many tokens lie wholly in the text given out; in the end all of them."""
        while self._counted < len(self._ends) and (last or self._ends[self._counted] <= self._given):
            self._counted += 1
        return self._counted


def held_back(data: bytearray, stops: Sequence[bytes]) -> int:
    """Return how many bytes at the end of the data may be the beginning of a stop."""
    return max((beginning(data, stop) for stop in stops), default=0)


def beginning(data: bytearray, stop: bytes) -> int:
    """Return the length of the longest proper prefix of a stop that the data ends with."""
    tail = bytes(data[max(0, len(data) - len(stop) + 1) :])
    place = tail.find(stop[:1])
    while place >= 0:
        if stop.startswith(tail[place:]):
            return len(tail) - place
        place = tail.find(stop[:1], place + 1)
    return 0
