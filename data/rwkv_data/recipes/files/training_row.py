"""A row of training data: a conversation with the answer to learn, or with two answers of which one is preferred."""

from typing import Final, Literal

import msgspec

from rwkv_data.definition.errors import RowError
from rwkv_data.recipes.files.lineage import Lineage

Role = Literal["user", "assistant"]
LONGEST: Final = 8 << 20
"""Most bytes of a row as JSON: the longest line of any format stays below what `verify` reads at once."""


class Turn(msgspec.Struct, frozen=True):
    """What the user or the assistant says before the other one speaks."""

    role: Role
    text: str


class TrainingRow(msgspec.Struct, frozen=True, kw_only=True):
    """User and assistant take turns, the user first. The last turn is the assistant's answer; in a pair it is the
    user's, and `chosen` and `rejected` are two answers to it. `problem`: the texts by which it is compared with
    benchmarks, the problem first; empty if they are what the user says."""

    turns: tuple[Turn, ...]
    lineage: Lineage
    system: str = ""
    chosen: str | None = None
    rejected: str | None = None
    problem: tuple[str, ...] = ()

    @property
    def is_pair(self) -> bool:
        """Whether the row has two answers."""
        return self.chosen is not None


def check_row(row: TrainingRow) -> None:
    """Raise RowError, which says why, if no file can hold a row or nothing can be learned from it."""
    if (row.chosen is None) != (row.rejected is None):
        raise RowError("the row has only one of a chosen and a rejected answer")
    if [turn.role for turn in row.turns] != [("user", "assistant")[at % 2] for at in range(len(row.turns))]:
        raise RowError("user and assistant do not take turns, the user first")
    if not row.turns or (row.turns[-1].role == "user") != row.is_pair:
        raise RowError(f"the last turn is not the {'question' if row.is_pair else 'answer'}")
    answers = (row.chosen, row.rejected) if row.is_pair else ()
    if not all(text and not text.isspace() for text in (*(turn.text for turn in row.turns), *answers)):
        raise RowError("a turn or an answer is empty")
    try:
        size = len(msgspec.json.encode(row))
    except UnicodeEncodeError:
        raise RowError("a text holds half a character (a lone surrogate), which UTF-8 cannot hold") from None
    if size > LONGEST:
        raise RowError(f"the row has more than {LONGEST:,} bytes")
