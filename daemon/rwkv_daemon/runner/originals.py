"""The completions of another job that a job makes its own of. They lie in the samples files of its attempts and are
found there by their place, so that this process holds none of them but those that it is asking about."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from rwkv_daemon.workers.run_directory import RewritingSource, RunDir, StageRecord, decode_record
from rwkv_data.definition.answer import Answer
from rwkv_data.definition.errors import RowsDamagedError
from rwkv_data.definition.kind import Kind

Place = tuple[int, int]
"""A sample by its row and repeat."""


class StoredLine(NamedTuple):
    """Where a record stands: in which samples file, from which byte on, and how many bytes it has."""

    path: Path
    offset: int
    length: int


@dataclass(frozen=True, slots=True)
class Originals:
    """Where the completions of right samples of the job `name` stand, by their place. `cut_off` are right samples whose
    completion the token limit ended: there is nothing to be made of them."""

    name: str
    lines: dict[Place, StoredLine]
    cut_off: set[Place]

    def read(self, place: Place) -> StageRecord:
        """Return a completion. Raises RowsDamagedError if its file is not there any more."""
        where = self.lines[place]
        try:
            with where.path.open("rb") as file:
                file.seek(where.offset)
                record = decode_record(file.read(where.length))
        except OSError as error:
            raise RowsDamagedError(f"{where.path} cannot be read: {error.strerror or error}") from error
        if not isinstance(record, StageRecord):
            raise RowsDamagedError(f"{where.path} was changed: the completion of row {place[0]} is not at its place")
        return record


def find_originals(source: RewritingSource, kind: Kind) -> Originals:
    """Return where each completion of a source stands. Raises RowsDamagedError if one is not there any more."""
    right = set(source.right)
    found = Originals(source.name, {}, set())
    for path in (RunDir(Path(source.folder)).samples(number) for number in source.attempts):
        for line, offset in lines_of(path):
            record = decode_record(line)
            if isinstance(record, StageRecord) and (place := (record.row, record.repeat)) in right:
                right.remove(place)  # of one that stands there twice the first counts, as in the store
                answer = Answer(record.text, (record.stop,) if record.stop else ())  # type: ignore[arg-type]
                if kind.stop(answer) == "length":
                    found.cut_off.add(place)
                else:
                    found.lines[place] = StoredLine(path, offset, len(line))
    if right:
        raise RowsDamagedError(f"{len(right):,} completions of {source.name} are not in {source.folder} any more")
    return found


def lines_of(path: Path) -> Iterator[tuple[bytes, int]]:
    """Yield the complete lines of a samples file, each with its offset; nothing if there is no such file."""
    try:
        with path.open("rb") as file:
            offset = 0
            for line in file:
                if line.endswith(b"\n"):
                    yield line[:-1], offset
                offset += len(line)
    except FileNotFoundError:
        return
