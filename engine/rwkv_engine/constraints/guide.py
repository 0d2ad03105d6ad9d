"""A compiled constraint, and the guide that follows one sample through it. Torch-free."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from rwkv_engine.tokenizer import END_OF_TEXT
from rwkv_kernels.draw import Ids, Mask

if TYPE_CHECKING:
    from llguidance import LLMatcher

LONGEST_FAULT = 300
_PLACE = re.compile(r"^at \d+\(\d+\): ")


@dataclass(eq=False, slots=True)
class Grammar:
    """A compiled constraint. `spoiled`: its automaton has exceeded its bound, so the next request compiles it anew."""

    matcher: "LLMatcher"
    words: int
    spoiled: bool = False

    def begin(self) -> "Guide":
        """Return a guide for a sample without tokens. Cheap: all guides of a grammar share its automaton."""
        return Guide(self, self.matcher.deep_copy())


@dataclass(eq=False, slots=True)
class Guide:
    """The state of one sample in its grammar, a function of its ids. `fault`: why it cannot go on."""

    grammar: Grammar
    matcher: "LLMatcher"
    fault: str = ""
    _taken: int = 0
    _mask: Mask | None = None

    def allowed(self, ids: Sequence[int]) -> Mask:
        """Return the mask of the tokens that may follow these ids, which must begin with those of the last call."""
        if self._mask is None or len(ids) > self._taken:
            self.matcher.consume_tokens(list(ids[self._taken :]))
            self._taken = len(ids)
            self._mask = mask_of(self.matcher, self.grammar.words)
            if self.matcher.is_error():
                self.fault, self.grammar.spoiled = sentence(self.matcher.get_error()), True
                self._mask[:] = 0
        return self._mask


def mask_of(matcher: "LLMatcher", words: int) -> Mask:
    """Return the mask of the tokens that may come next, as `words` 32-bit words."""
    mask = np.zeros(words, np.uint32)
    matcher.unsafe_compute_mask_ptr(mask.ctypes.data, mask.nbytes)
    return mask


def first_fault(grammar: Grammar) -> str:
    """Return what is wrong with a grammar from the beginning; empty if nothing is. Its first two steps are taken here,
    so that what holds for all of its samples is known before the engine's thread meets it."""
    mask_of(grammar.matcher, grammar.words)
    if grammar.matcher.is_error():
        return sentence(grammar.matcher.get_error())
    guide = grammar.begin()
    first = np.flatnonzero(np.unpackbits(guide.allowed(()).view(np.uint8), bitorder="little"))[-1]
    if first != END_OF_TEXT:
        guide.allowed((int(first),))
    return guide.fault


def leaves_nothing(mask: Mask, banned: Ids | None) -> bool:
    """Whether bans remove every token that a mask allows."""
    bits = np.unpackbits(mask.view(np.uint8), bitorder="little")
    if banned is not None:
        bits[banned] = 0
    return not bits.any()


def sentence(error: str) -> str:
    """Return llguidance's error message as one line of bounded length."""
    text = _PLACE.sub("", " ".join(error.replace("<non-verbose/>", "").split())).partition(" 1 | start: ")[0]
    if text.startswith("NoExtension"):
        return "nothing fulfils it"
    return text if len(text) <= LONGEST_FAULT else text[:LONGEST_FAULT] + " ..."
