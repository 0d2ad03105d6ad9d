"""Split rules: how to ask another model where the thoughts of a long reasoning end, and which of them are right.

A rule is a value without I/O, as a writer rule is. A reply that cannot be used is asked for again; after `attempts` of
them to one question the completion stays whole.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from rwkv_data.judges.judge_rule import Messages
from rwkv_data.writers.writer_rule import UnusableReason


class CompletionParts(NamedTuple):
    """A completion as its reasoning and its solution, and what stands before, between and after them: the five joined
    are the completion."""

    before: str
    reasoning: str
    between: str
    solution: str
    after: str

    def shortened(self, end: int) -> str:
        """Return the completion with its reasoning up to an offset alone."""
        return "".join(self._replace(reasoning=self.reasoning[:end]))


@dataclass(frozen=True, slots=True)
class SplitExample:
    """A reply to be read, and what comes of it: the thoughts, or why there are none."""

    reasoning: str
    reply: str
    expected: tuple[str, ...] | UnusableReason


@dataclass(frozen=True, kw_only=True)
class SplitRule:
    """One way to split the reasoning of a completion into thoughts.

    `parts(completion)` gives its reasoning and its solution, or raises UnusableRewritingError if it has none of them.
    `ask(problem, reasoning)` gives the chat request; `read(reasoning, reply)` gives the offset at which each thought
    ends, the last one at the end of the reasoning, or raises UnusableRewritingError. `ask_verdict(problem, solution,
    thought)` asks whether a thought agrees with the solution, and `read_verdict(reply)` gives the verdict, or raises
    UnusableRewritingError. `room(reasoning)` is the number of tokens that the first reply may have, `verdict_room` that
    of the others.

    Name and version enter the key of the derived job, so `version` changes with every change of the prompts or of the
    reading.
    """

    name: str
    version: int
    parts: Callable[[str], CompletionParts]
    ask: Callable[[str, str], Messages]
    read: Callable[[str, str], tuple[int, ...]]
    ask_verdict: Callable[[str, str, str], Messages]
    read_verdict: Callable[[str], bool]
    room: Callable[[str], int]
    verdict_room: int
    examples: tuple[SplitExample, ...]
    attempts: int = 3

    @property
    def label(self) -> str:
        """Name and version, as in `split-thoughts/1`."""
        return f"{self.name}/{self.version}"
