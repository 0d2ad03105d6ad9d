"""One file of raw rows in any form: its ending says which reader knows it, packed or in an archive or neither."""

import gzip
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, Final, TypeAlias

from rwkv_data.definition.errors import PrepareError
from rwkv_data.prepare.sources import archives, column_rows, json_rows, streams, table_rows, text_rows, xml_rows
from rwkv_data.prepare.sources.raw import FILE, Placed


@dataclass(frozen=True, slots=True, kw_only=True)
class Want:
    """What is wanted of a file. `member`: a glob for names inside an archive; without one the split's members are
    meant. `header`: whether tables have a header line; None finds out."""

    split: str
    member: str = ""
    header: bool | None = None


Reader: TypeAlias = Callable[[IO[bytes], str], Iterator[Placed]]

READERS: Final[dict[str, Reader]] = {
    ".jsonl": json_rows.of_lines,
    ".ndjson": json_rows.of_lines,
    ".json": json_rows.of_document,
    ".txt": text_rows.of_text,
    ".xml": xml_rows.of_xml,
    ".parquet": column_rows.of_parquet,
    ".arrow": column_rows.of_arrow,
}
TABLES: Final = {".csv": False, ".tsv": True}
READABLE: Final = (*READERS, *TABLES)


def read(path: Path, want: Want, shown: str = "") -> Iterator[Placed]:
    """The raw rows of one file. `shown` stands for its path where that would say nothing (a cache)."""
    where = shown or str(path)
    if not is_readable(path.name):
        raise PrepareError(f"{where} is none of {', '.join((*READABLE, *archives.ENDINGS))}")
    with streams.readable(where):
        if archives.is_archive(path.name):
            for name, stream in archives.members(path, want.split, want.member, READABLE, where):
                yield from _rows(stream, name, f"{where}/{name}", want)
            return
        with path.open("rb") as stream:
            yield from _rows(stream, path.name, where, want)


def is_readable(name: str) -> bool:
    """Whether a file of that name can hold rows."""
    return archives.is_archive(name) or plain(name).endswith(READABLE)


def plain(name: str) -> str:
    """The name in small letters, without .gz."""
    return name.lower().removesuffix(".gz")


def stem(name: str, split: str) -> str:
    """`data/test/abstract_algebra_test.csv` of the split "test" holds abstract_algebra."""
    base = PurePosixPath(name).name
    return base[: len(plain(base))].rpartition(".")[0].removesuffix(f"_{split}")


def _rows(stream: IO[bytes], name: str, where: str, want: Want) -> Iterator[Placed]:
    """The rows of an open file or member, each with the note which file it was."""
    note = {FILE: stem(name, want.split)}
    if name.lower().endswith(".gz"):
        stream = streams.unpacked(gzip.GzipFile(fileobj=stream), streams.Budget(where))
    ending = PurePosixPath(plain(name)).suffix
    if ending in TABLES:
        rows = table_rows.of_table(stream, where, note[FILE], tabs=TABLES[ending], header=want.header)
    else:
        rows = READERS[ending](stream, where)
    for place, raw in rows:
        yield place, raw | note
