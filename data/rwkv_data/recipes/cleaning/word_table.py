"""Texts as their words, in a memory-mapped Arrow table (the stream form, which `datasets` reads as it lies)."""

from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import pyarrow as pa
from pyarrow import compute

BLOCK: Final = 1 << 18
"""Characters that are worked on at once; a longer text is a block of its own."""


class WordTableWriter:
    """`with WordTableWriter(path, "words", "id") as table: table.add(...)`: writes rows of texts in batches."""

    def __init__(self, path: Path, *columns: str) -> None:
        self._schema = pa.schema([(name, pa.large_string()) for name in columns])
        self._file = pa.OSFile(str(path), "wb")
        self._writer = pa.ipc.new_stream(self._file, self._schema)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, error: BaseException | None, _at: TracebackType | None
    ) -> None:
        if error is None:
            self._writer.close()
        self._file.close()

    def add(self, *columns: list[str]) -> None:
        """Write a batch, one list for each column."""
        arrays = [pa.array(column, pa.large_string()) for column in columns]
        self._writer.write_batch(pa.record_batch(arrays, schema=self._schema))


class WordTable:
    """The rows of such a table; nothing of it lies in memory but what was just read."""

    def __init__(self, path: Path) -> None:
        self._table: Any = pa.ipc.open_stream(pa.memory_map(str(path))).read_all()

    def __len__(self) -> int:
        return int(self._table.num_rows)

    def text(self, row: int, column: str = "words") -> str:
        """Return the text of a row."""
        return str(self._table[column][row].as_py())

    def are_different(self, column: str) -> bool:
        """Return whether no text stands twice in a column; empty ones do not count."""
        texts = self._table[column]
        filled = texts.filter(compute.not_equal(texts, ""))
        return bool(len(filled) == compute.count_distinct(filled).as_py())

    def blocks(self) -> Iterator[tuple[int, list[str]]]:
        """Yield the words of all rows as they were written, batch after batch, each with the number of its first
        row."""
        first = 0
        for batch in self._table.to_batches():
            texts = batch.column("words").to_pylist()
            yield first, texts
            first += len(texts)
