"""A sample's text while it is generated: what can be given out because no stop and no character is half there."""

import codecs
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from rwkv_engine.scheduling.sample import Sample
from rwkv_engine.tokenizer import Tokenizer


class Piece(NamedTuple):
    """New text, and up to which of the sample's tokens it goes. `last`: nothing follows."""

    text: str
    tokens: int
    last: bool


@dataclass(slots=True)
class Cutter:
    """Follows one sample from another thread than the one that makes it grow; `lead` is given out before its text.

    It reads the growing list of ids and nothing is queued: a reader that comes rarely gets longer pieces.
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

    def next(self, sample: Sample) -> Piece:
        """What is new since the last call."""
        last = sample.stop is not None  # asked first: what follows is then whole
        for token in sample.ids[len(self._ends) :]:
            self._data += self.tokenizer.token_bytes(token)
            self._ends.append(len(self._data))
        end = len(sample.data) if last else len(self._data) - held_back(self._data, self.stops)
        text = self._decoder.decode(self.lead + bytes(self._data[self._given : end]), last)
        self._given, self.lead = max(self._given, end), b""
        return Piece(text, self._tokens(last=last), last)

    def _tokens(self, *, last: bool) -> int:
        """How many tokens lie wholly in what was given out; in the end all of them."""
        while self._counted < len(self._ends) and (last or self._ends[self._counted] <= self._given):
            self._counted += 1
        return self._counted


def held_back(data: bytearray, stops: Sequence[bytes]) -> int:
    """How many bytes at the end may be the beginning of a stop."""
    return max((beginning(data, stop) for stop in stops), default=0)


def beginning(data: bytearray, stop: bytes) -> int:
    """The length of the longest end of the data with which the stop begins, and is not over."""
    tail = bytes(data[max(0, len(data) - len(stop) + 1) :])
    place = tail.find(stop[:1])
    while place >= 0:
        if stop.startswith(tail[place:]):
            return len(tail) - place
        place = tail.find(stop[:1], place + 1)
    return 0
