"""Label rules: how to ask another model for a value of a problem, and how to read its reply.

A rule is a value without I/O: whoever calls the writer sends what `ask` returns to any OpenAI-compatible endpoint and
hands the reply to `read`. A reply that cannot be read is asked for again; after `attempts` of them the row has no
label.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from rwkv_data.judges.judge_rule import Messages


class UnreadableLabelError(Exception):
    """A reply that gives no value. The text is a sentence that says why and repeats nothing of the reply."""


@dataclass(frozen=True, slots=True)
class LabelExample:
    """A reply to be read, and its value; None if it cannot be read."""

    reply: str
    expected: float | None


@dataclass(frozen=True, kw_only=True)
class LabelRule:
    """One way to label problems by asking a model.

    `ask(problem)` gives the chat request; `read(reply)` gives the value, or raises UnreadableLabelError. `field` is
    what the labels are called. `schema` is the JSON Schema of a structured reply, for servers that take one; the
    reading must do without. `room` is the number of tokens that a reply may have.

    Name and version enter the key of the job that asks, so `version` changes with every change of the prompt or of the
    reading.
    """

    name: str
    version: int
    field: str
    ask: Callable[[str], Messages]
    read: Callable[[str], float]
    schema: Mapping[str, object]
    room: int
    examples: tuple[LabelExample, ...]
    attempts: int = 3

    @property
    def label(self) -> str:
        """Name and version, as in `difficulty/1`."""
        return f"{self.name}/{self.version}"
