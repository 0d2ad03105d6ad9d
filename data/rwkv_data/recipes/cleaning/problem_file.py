"""A file of training rows that is read twice: for its problems, and to copy the rows that stay.

JSON lines (`.jsonl`, `.ndjson`), packed by gzip or not, whose lines are copied byte for byte; and parquet.
"""

import contextlib
import gzip
import os
from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, Final

from numpy.typing import NDArray

from rwkv_data.definition.errors import PrepareError, SettingError
from rwkv_data.definition.stage import Row
from rwkv_data.prepare.sources import files, json_rows, streams
from rwkv_data.prepare.sources.files import Want

LINES: Final = (".jsonl", ".ndjson")
PARQUET: Final = ".parquet"
LONGEST_LINE: Final = 64 << 20
_BATCH: Final = 1024


class ProblemFile(ABC):
    """Rows, each with its number in the file and its place for messages. Raises PrepareError for what cannot be read,
    and if the file changes between two readings."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._seen: tuple[int, ...] | None = None

    @abstractmethod
    def rows(self) -> Iterator[tuple[int, str, Row]]:
        """Yield each row after its line or row number, from 1, and its place for messages, such as `x.jsonl:3`."""

    @abstractmethod
    def copy(self, stays: "NDArray[Any]", to: IO[bytes], name: str) -> None:
        """Write the rows that stay to a file that will have this name."""

    @abstractmethod
    def check_name(self, name: str) -> None:
        """Raise SettingError if a file of that name cannot hold the rows."""

    @contextlib.contextmanager
    def _opened(self) -> Iterator[IO[bytes]]:
        with streams.readable(str(self.path)), self.path.open("rb") as file:
            self._look(file)
            yield file
            self._look(file)

    def _look(self, file: IO[bytes]) -> None:
        identity = streams.identity(os.fstat(file.fileno()))
        if self._seen not in {None, identity}:
            raise PrepareError(streams.changed(self.path))
        self._seen = identity


def problem_file(path: Path) -> ProblemFile:
    """Return the file at a path. Raises PrepareError if it is no plain file of rows."""
    if not path.is_file():
        why = "it is no plain file, and it is read twice" if path.exists() else "No such file or directory"
        raise PrepareError(f"{path} cannot be read: {why}")
    if files.plain(path.name).endswith(LINES):
        return _LinesFile(path)
    if path.name.lower().endswith(PARQUET):
        return _ParquetFile(path)
    raise PrepareError(f"{path} is none of {', '.join((*LINES, *(f'{end}.gz' for end in LINES), PARQUET))}")


class _LinesFile(ProblemFile):
    """JSON lines. Blank lines are no rows, and are not copied."""

    def rows(self) -> Iterator[tuple[int, str, Row]]:
        for number, line in self._lines():
            place = f"{self.path}:{number}"
            row = json_rows.parsed(streams.decoded(line, place), place)
            if not isinstance(row, dict):
                raise PrepareError(f"{place}: not a JSON object")
            yield number, place, row

    def copy(self, stays: "NDArray[Any]", to: IO[bytes], name: str) -> None:
        with gzip.GzipFile("", "wb", fileobj=to, mtime=0) if _is_packed(name) else contextlib.nullcontext(to) as file:
            for at, (_, line) in enumerate(self._lines()):
                if at < len(stays) and stays[at]:  # a file that grew is refused at its end
                    file.write(line)

    def check_name(self, name: str) -> None:
        if name.lower().endswith(PARQUET):
            raise SettingError(f"{self.path} holds JSON lines, and they stay as they are: --to cannot be {name}")

    def _lines(self) -> Iterator[tuple[int, bytes]]:
        with self._opened() as file:
            packed = _is_packed(self.path.name)
            unpacked = gzip.GzipFile(fileobj=file) if packed else file
            stream = streams.unpacked(unpacked, streams.Budget(str(self.path))) if packed else file
            for number, line in enumerate(streams.lines(stream, str(self.path), LONGEST_LINE), 1):
                if line.strip():
                    yield number, line


class _ParquetFile(ProblemFile):
    """A parquet file; its columns and their types are copied as they are."""

    def rows(self) -> Iterator[tuple[int, str, Row]]:
        with self._opened():
            for number, (place, row) in enumerate(files.read(self.path, Want(split="train")), 1):
                yield number, place, row

    def copy(self, stays: "NDArray[Any]", to: IO[bytes], name: str) -> None:
        import pyarrow as pa
        from pyarrow import parquet

        with self._opened() as file:
            try:
                whole, first = parquet.ParquetFile(file, pre_buffer=False), 0
                with parquet.ParquetWriter(to, whole.schema_arrow) as writer:
                    for batch in whole.iter_batches(_BATCH):
                        chosen = pa.array(stays[first : first + len(batch)])
                        writer.write_batch(batch.filter(chosen))
                        first += len(batch)
            except pa.ArrowException as error:
                raise PrepareError(f"{self.path} is damaged ({' '.join(str(error).split())[:200]})") from None

    def check_name(self, name: str) -> None:
        if not name.lower().endswith(PARQUET):
            raise SettingError(f"{self.path} is parquet, and its rows stay as they are: --to must end with {PARQUET}")


def _is_packed(name: str) -> bool:
    return name.lower().endswith(".gz")
