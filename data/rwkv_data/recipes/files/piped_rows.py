"""Training rows and grades from another process, which has them of the daemon, over pipes.

Rows come as lines of JSON: first how many there are, with the card, then each row. A pipe that ends early is an error,
and nothing is written. For grades a line is written that asks for some, and a line is read with the answers.
"""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Final, TypeVar

import msgspec

from rwkv_data.definition.errors import PrepareError
from rwkv_data.recipes.files.file_card import FileCard
from rwkv_data.recipes.files.lineage import SampleOrigin
from rwkv_data.recipes.files.row_files import FileOrder, WrittenFiles, write_rows
from rwkv_data.recipes.files.sharegpt import HUMAN_GPT
from rwkv_data.recipes.files.training_row import TrainingRow

T = TypeVar("T")
EARLY: Final = "the rows ended early: nothing was written"


class PipedRows(msgspec.Struct, frozen=True):
    """The first line of a pipe: how many rows follow, and the card of the file that they become."""

    rows: int
    card: FileCard


def written(
    pipe: IO[bytes], to: Path, row_format: str, roles: str = HUMAN_GPT, *, replace: bool, keep_same: bool = False
) -> WrittenFiles:
    """Write the rows of a pipe to a file. Raises an error of one sentence, and then has written nothing."""
    head = _decoded(pipe.readline(), PipedRows)
    order = FileOrder(to=to, format=row_format, card=head.card, roles=roles, replace=replace, keep_same=keep_same)
    return write_rows(order, _rows(pipe, head.rows))


def _rows(pipe: IO[bytes], count: int) -> Iterator[TrainingRow]:
    for _ in range(count):
        yield _decoded(pipe.readline(), TrainingRow)


def _decoded(line: bytes, kind: type[T]) -> T:
    if not line.endswith(b"\n"):
        raise PrepareError(EARLY)
    try:
        return msgspec.json.decode(line, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise PrepareError(
            f"a row cannot be read ({error}): it is damaged, or was made by another version; run its recipe again"
        ) from None


class Grades:
    """Asks for grades. `asked` counts them."""

    def __init__(self, answers: IO[bytes], questions: IO[bytes]) -> None:
        self._answers, self._questions = answers, questions
        self.asked = 0

    def known(self, samples: Sequence[SampleOrigin]) -> list[bool | None]:
        """Return for each sample whether it is right; None where there is no such grade. Raises PrepareError."""
        asked = [{name: getattr(one, name) for name in ("job", "row", "repeat", "grade_key")} for one in samples]
        self._questions.write(json.dumps({"asked": asked}).encode() + b"\n")
        self._questions.flush()
        line = self._answers.readline()
        if not line:
            raise PrepareError("the grades cannot be compared: nobody answers")
        self.asked += len(asked)
        return msgspec.json.decode(line, type=list[bool | None])
