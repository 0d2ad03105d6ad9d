"""The shards of a folder that `datasets.load_dataset` opens as it lies: data/train-00000-of-00002.parquet and so on.

By these names the library finds them without being told. If the folder's card told it (`configs`), it would cache by
the card alone, and give the rows of an older folder of that name.

A shard and its row groups end at sizes that depend on the rows alone, and what pyarrow may choose is chosen here. Its
own version stands in each file, so another version of pyarrow writes other bytes.
"""

from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Final, Self

import pyarrow as pa
from pyarrow import parquet

from rwkv_data.definition.errors import PrepareError, RowError
from rwkv_data.recipes.files.json_line import json_line

DATA: Final = "data"
SHARDS: Final = "*.parquet"
SHARD_BYTES: Final = 256 << 20
"""Size of the rows of a shard as JSON; the file is smaller."""
GROUP_BYTES: Final = 8 << 20
GROUP_ROWS: Final = 1000
_MESSAGES: Final = pa.list_(pa.struct([("role", pa.string()), ("content", pa.string())]))
_PINNED: Final = {
    "version": "2.6", "data_page_version": "1.0", "compression": "zstd", "compression_level": 3,
    "use_dictionary": False, "write_statistics": False,
}  # fmt: skip


class ShardWriter:
    """`with ShardWriter(folder) as shards: shards.add(row, size)`. Rows are plain values, all with the same fields."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / DATA
        self._folder.mkdir()
        self._shards = self._shard_bytes = self._group_bytes = 0
        self._rows: list[dict[str, Any]] = []
        self._fields: tuple[str, ...] = ()
        self._file: IO[bytes] | None = None
        self._writer: Any = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, error: BaseException | None, _at: TracebackType | None
    ) -> None:
        if error is None:
            self._end_group()
            self._end_shard()
            self._count_shards()
        elif self._file is not None:
            self._file.close()

    def add(self, row: dict[str, Any], size: int) -> None:
        """Write a row of this size as JSON. Raises RowError if it has other fields than the first."""
        self._fields = self._fields or tuple(row)
        if tuple(row) != self._fields:
            raise RowError(
                "rows with one answer and rows with two are mixed, and a folder has the same columns for all"
            )
        self._rows.append(row)
        self._group_bytes += size
        if self._group_bytes >= GROUP_BYTES or len(self._rows) >= GROUP_ROWS:
            self._end_group()

    def _end_group(self) -> None:
        if not self._rows:
            return
        if self._writer is None:
            self._begin_shard()
        table = pa.Table.from_pylist(self._rows, schema=self._schema())
        self._writer.write_table(table, row_group_size=len(self._rows))
        self._shard_bytes += self._group_bytes
        self._rows, self._group_bytes = [], 0
        if self._shard_bytes >= SHARD_BYTES:
            self._end_shard()

    def _begin_shard(self) -> None:
        self._file = (self._folder / f"train-{self._shards:05}.parquet").open("wb")
        self._writer = parquet.ParquetWriter(self._file, self._schema(), **_PINNED)
        self._shards += 1

    def _end_shard(self) -> None:
        if self._writer is not None and self._file is not None:
            self._writer.close()
            self._file.close()
        self._writer, self._file, self._shard_bytes = None, None, 0

    def _count_shards(self) -> None:
        for shard in shard_files(self._folder.parent):
            shard.rename(shard.with_name(f"{shard.stem}-of-{self._shards:05}.parquet"))

    def _schema(self) -> Any:
        return pa.schema([(name, _MESSAGES) for name in self._fields])


def shard_files(folder: Path) -> list[Path]:
    """Return the shards of a folder in order."""
    return sorted((folder / DATA).glob(SHARDS))


def shard_lines(shard: Path) -> Iterator[bytes]:
    """Yield the rows of a shard as JSON, as `RowFormat.line` gives them. Raises PrepareError if it is damaged."""
    try:
        with shard.open("rb") as file, parquet.ParquetFile(file, pre_buffer=False) as whole:
            for batch in whole.iter_batches(64):
                yield from map(json_line, batch.to_pylist())
    except pa.ArrowException as error:
        raise PrepareError(f"{shard} is damaged ({' '.join(str(error).split())[:200]})") from None
