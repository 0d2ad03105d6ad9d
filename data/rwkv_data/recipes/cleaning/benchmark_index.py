"""The index of one benchmark's rows: which row has which words, and which runs of words.

It is made once for rows of a sha256 and kept in HOME/cache/cleaning/, a folder each:

    words                           an Arrow table: a row's words, a line for each of its texts, and the row's own id
    equal, bags, grams-13, grams-8  hashes with their rows (`hash_table`)
    sha256                          of all the others: a row that a damaged index does not find would stay unseen

A folder has its name once it is whole. Its name also says which version of this file made it, and which version of
Unicode decided what a word is. Whoever deletes the folder loses nothing but time.
"""

import contextlib
import hashlib
import os
import shutil
import tempfile
import time
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

import numpy as np

from rwkv_data.definition import row_ids
from rwkv_data.definition.stage import Row
from rwkv_data.recipes.cleaning.hash_table import HashTable, HashTableWriter
from rwkv_data.recipes.cleaning.hashed_texts import HashedTexts, Hashes, Places
from rwkv_data.recipes.cleaning.row_text import passages, whole_forms
from rwkv_data.recipes.cleaning.rules import LONG_GRAM, SHORT_GRAM, SMALLEST_BAG
from rwkv_data.recipes.cleaning.word_table import BLOCK, WordTable, WordTableWriter
from rwkv_data.recipes.cleaning.words import squeezed, words_of

FORMAT: Final = 2
"""Of the index; the next number whenever words, texts of rows or files change."""
Table = Literal["equal", "bags", "grams-13", "grams-8"]
TABLES: Final[tuple[Table, ...]] = ("equal", "bags", "grams-13", "grams-8")

SUM: Final = "sha256"
_PART: Final = ".part-"
_LEFT_S: Final = 86_400
"""Age of a folder that nobody is writing any more: the making of an index takes minutes at most."""

Texts = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class BenchmarkIndex:
    """The rows of a benchmark, ready to be compared with. `private`: its authors ask that its text is not shown.
    `unique_ids`: no two rows have the same id upstream."""

    name: str
    private: bool
    words: WordTable
    unique_ids: bool
    folder: Path

    def table(self, name: Table) -> HashTable:
        """Return a table, mapped into memory as long as it is used: all tables together are larger than what cleaning
        itself needs."""
        return HashTable(self.folder, name)

    def texts(self, row: int) -> Texts:
        """Return the words of each text of a row, the problem first."""
        return tuple(self.words.text(row).split("\n"))

    def row_name(self, row: int) -> str:
        """Return what the row is called (see rwkv_data.definition.row_ids)."""
        return row_ids.row_id(self.name, row, self.words.text(row, "id") if self.unique_ids else "")


def opened(
    name: str,
    sha256: str,
    cache: Path,
    rows: Callable[[], Iterable[Row]],
    *,
    private: bool = False,
    made_in: Path | None = None,
) -> BenchmarkIndex:
    """Return the index of rows with this sha256, made of `rows()` if it is not in the cache, or damaged there. It is
    made in another folder, `made_in`, where the cache cannot be written."""
    folder, made_in = f"{sha256}-{FORMAT}-{unicodedata.unidata_version}", made_in or cache
    if (cache / folder).exists():
        with contextlib.suppress(OSError, ValueError):
            return _read(name, cache / folder, private=private)
        shutil.rmtree(made_in / folder, ignore_errors=True)
    made_in.mkdir(parents=True, exist_ok=True)
    _sweep(made_in)
    with tempfile.TemporaryDirectory(prefix=_PART, dir=made_in, ignore_cleanup_errors=True) as part:
        _write(Path(part), rows())
        with contextlib.suppress(OSError):  # another process was faster, wrote the same, and may be reading it
            Path(part).rename(made_in / folder)
    return _read(name, made_in / folder, private=private)


def _sweep(cache: Path) -> None:
    """Remove the folders of processes that were killed."""
    for part in cache.glob(f"{_PART}*"):
        with contextlib.suppress(OSError):
            if time.time() - part.stat().st_mtime > _LEFT_S:
                shutil.rmtree(part)


def _read(name: str, folder: Path, *, private: bool) -> BenchmarkIndex:
    if (folder / SUM).read_text() != _sum(folder):
        raise ValueError(f"{folder} is not what was written")
    words = WordTable(folder / "words")
    index = BenchmarkIndex(name, private, words, words.are_different("id"), folder)
    for table in TABLES:
        index.table(table)  # raises an error where it is not whole
    return index


def _write(folder: Path, rows: Iterable[Row]) -> None:
    with contextlib.ExitStack() as stack:
        writers = {table: stack.enter_context(HashTableWriter(folder, table)) for table in TABLES}
        words = stack.enter_context(WordTableWriter(folder / "words", "words", "id"))
        first = 0
        for block in _blocks(rows):
            words.add(["\n".join(texts) for texts, _ in block], [own for _, own in block])
            _add(writers, [texts for texts, _ in block], first)
            first += len(block)
    (folder / SUM).write_text(_sum(folder))
    for path in folder.iterdir():
        with path.open("rb") as file:
            os.fsync(file.fileno())
    folder.chmod(0o755)  # a temporary folder is its owner's alone, and the cache is of all who may read the rows


def _sum(folder: Path) -> str:
    """Return the sha256 of the sha256 of each file but its own, in the order of their names."""
    whole = hashlib.sha256()
    for path in sorted(folder.iterdir()):
        if path.name != SUM and path.is_file():
            with path.open("rb") as file:
                whole.update(hashlib.file_digest(file, "sha256").digest())
    return whole.hexdigest()


def _blocks(rows: Iterable[Row]) -> Iterator[list[tuple[Texts, str]]]:
    """Yield the words of rows with the rows' ids, some rows at a time."""
    block: list[tuple[Texts, str]] = []
    size = 0
    for row in rows:
        texts = tuple(map(words_of, passages(row)))
        block.append((texts, row_ids.upstream_of(row).encode(errors="replace").decode()))
        size += sum(map(len, texts))
        if size >= BLOCK:
            yield block
            block, size = [], 0
    if block:
        yield block


def _add(writers: dict[Table, HashTableWriter], block: list[Texts], first: int) -> None:
    """Add the hashes of a block of rows, of which the first has the number `first`."""
    forms = [(row, form) for row, texts in enumerate(block) if texts for form in whole_forms(texts)]
    owner = np.fromiter((row for row, _ in forms), np.int64, len(forms))
    hashed = HashedTexts([form for _, form in forms])
    sizes: dict[Table, int] = {"grams-13": LONG_GRAM, "grams-8": SHORT_GRAM}
    for table, size in sizes.items():
        runs = hashed.runs(size)
        hashes, rows = _different(runs.hashes, owner[runs.texts])
        writers[table].add(hashes, rows + first)
    bags = HashedTexts([texts[0] if texts else "" for texts in block]).bags(SMALLEST_BAG)
    writers["bags"].add(bags.hashes, bags.texts + first)
    whole = HashedTexts([squeezed(form) for _, form in forms]).whole()
    writers["equal"].add(whole.hashes, owner[whole.texts] + first)


def _different(hashes: Hashes, rows: Places) -> tuple[Hashes, Places]:
    """Return each hash of a row once, ordered by row."""
    order = np.lexsort((hashes, rows))
    hashes, rows = hashes[order], rows[order]
    new = np.ones(len(order), bool)
    new[1:] = (hashes[1:] != hashes[:-1]) | (rows[1:] != rows[:-1])
    return hashes[new], rows[new]
