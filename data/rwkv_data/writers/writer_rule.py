"""Writer rules: how to ask another model to rewrite a completion, and how to read its reply.

A rule is a value without I/O: whoever calls the writer sends what `ask` returns to any OpenAI-compatible endpoint and
hands the reply to `read`. A reply that cannot be used is asked for again; after `attempts` of them the completion has
no rewriting.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal

from rwkv_data.judges.judge_rule import Messages

UnusableReason = Literal["form", "not-faithful"]


class UnusableRewritingError(Exception):
    """A writer's reply that cannot be used. The text is a sentence that says why and repeats nothing of the reply."""

    def __init__(self, reason: UnusableReason, sentence: str) -> None:
        super().__init__(sentence)
        self.reason: Final = reason


@dataclass(frozen=True, slots=True)
class WriterExample:
    """A reply to be read, and what comes of it: the rewriting, or why there is none."""

    original: str
    reply: str
    expected: str | UnusableReason


@dataclass(frozen=True, kw_only=True)
class WriterRule:
    """One way to rewrite a completion.

    `ask(problem, original)` gives the chat request; `read(original, reply)` gives the rewriting in its normal form, or
    raises UnusableRewritingError. `convert(original)` gives the rewriting that needs no writer, or None if the writer
    must be asked. `room(original)` is the number of tokens that a reply may have.

    Name and version enter the key of the derived job, so `version` changes with every change of the prompt or of the
    reading.
    """

    name: str
    version: int
    ask: Callable[[str, str], Messages]
    read: Callable[[str, str], str]
    convert: Callable[[str], str | None]
    room: Callable[[str], int]
    examples: tuple[WriterExample, ...]
    attempts: int = 3

    @property
    def label(self) -> str:
        """Name and version, as in `thought-solution/1`."""
        return f"{self.name}/{self.version}"
