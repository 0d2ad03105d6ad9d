"""A file of training rows with what stands beside it, written whole or not at all.

FILE comes with FILE.lineage.jsonl and FILE.card.md, and is there only when they are. A parquet folder has them inside,
as lineage.jsonl and README.md, so that it appears, moves and is uploaded as one.
"""

import errno
import filecmp
import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final

from rwkv_data.definition.errors import PrepareError, RowError
from rwkv_data.recipes.files.file_card import FileCard, FileStamp, card_text
from rwkv_data.recipes.files.lineage import lineage_line
from rwkv_data.recipes.files.parquet_folder import ShardWriter, shard_files
from rwkv_data.recipes.files.row_format import RowFormat, row_format
from rwkv_data.recipes.files.sharegpt import HUMAN_GPT, Roles, dataset_info
from rwkv_data.recipes.files.training_row import TrainingRow
from rwkv_data.recipes.whole_files import finish_writing, hidden_folder, whole_paths
from rwkvctl.protocol.errors import Exit, RefusedError

_FULL: Final = {errno.ENOSPC, errno.EDQUOT}


@dataclass(frozen=True, slots=True)
class FileNames:
    """Where the rows, their lineage and their card are; `rows` is the folder if it is parquet."""

    rows: Path
    lineage: Path
    card: Path


def names_of(path: Path, *, folder: bool) -> FileNames:
    """Return the names that belong to a file, or to a parquet folder."""
    if folder:
        return FileNames(path, path / "lineage.jsonl", path / "README.md")
    return FileNames(path, path.with_name(f"{path.name}.lineage.jsonl"), path.with_name(f"{path.name}.card.md"))


@dataclass(frozen=True, slots=True, kw_only=True)
class FileOrder:
    """What is to be written, and where. `roles` belong to sharegpt alone. `keep_same`: a folder that is there with the
    same rows, lineage and card is no reason to refuse, and is left alone."""

    to: Path
    format: str
    card: FileCard
    roles: str = HUMAN_GPT
    replace: bool = False
    keep_same: bool = False


@dataclass(frozen=True, slots=True)
class WrittenFiles:
    """The names of the files that were written, and the stamp that their card has; or of a folder that was kept."""

    names: FileNames
    stamp: FileStamp
    kept: bool = False


def write_rows(order: FileOrder, rows: Iterable[TrainingRow]) -> WrittenFiles:
    """Write rows in their order. Raises RefusedError if one of the files is there and may not be replaced, SettingError
    for a format or a name that does not fit, RowError for a row that does not fit, and PrepareError if there is no row
    or the system fails; then nothing was written."""
    form = row_format(order.format, order.roles)
    form.check_name(order.to.name)
    names = names_of(order.to, folder=form.shape == "folder")
    if form.shape == "folder":
        _check_replaced(order)
        if order.keep_same and not order.replace and _is_there(order.to):
            return WrittenFiles(names, _same_folder(form, order, rows), kept=True)
        with whole_paths([order.to], replace=order.replace) as (place,):
            stamp = _write_folder(form, names_of(place, folder=True), order, rows)
    else:
        with whole_paths([names.card, names.lineage, names.rows], replace=order.replace) as (card, lineage, file):
            stamp = _write_file(form, FileNames(file, lineage, card), order, rows)
    return WrittenFiles(names, stamp)


def llama_factory_entry(order: FileOrder) -> dict[str, Any] | None:
    """Return what has to be added to LLaMA-Factory's dataset_info.json; None if the format is not sharegpt."""
    if not order.format.startswith("sharegpt"):
        return None
    roles: Roles = "user/assistant" if order.roles == "user/assistant" else HUMAN_GPT
    return {order.to.stem: dataset_info(order.to.name, roles, pairs=order.format == "sharegpt-preference")}


def _check_replaced(order: FileOrder) -> None:
    """Only what an export wrote is replaced as a folder: everything in it is removed."""
    names = names_of(order.to, folder=True)
    if order.replace and order.to.exists() and not names.lineage.is_file():
        raise RefusedError("exists", f"{order.to} was not written by an export and is not replaced.", "", Exit.REFUSED)


def _is_there(folder: Path) -> bool:
    """Whether there is a folder, after a writing that was killed has been brought to its end."""
    try:
        finish_writing(folder)
    except OSError as error:
        raise PrepareError(f"{folder} cannot be read: {error.strerror or error}") from error
    return folder.is_dir()


def _same_folder(form: RowFormat, order: FileOrder, rows: Iterable[TrainingRow]) -> FileStamp:
    """Return the stamp of a folder that is there and not touched. Raises RefusedError if it holds anything else than
    what would be written, which is found out by writing it beside."""
    try:
        with hidden_folder(order.to) as beside:
            place = beside / order.to.name
            stamp = _write_folder(form, names_of(place, folder=True), order, rows)
            if _same_files(place, order.to):
                return stamp
    except OSError as error:
        why = str(error.strerror or error)
        if error.errno in _FULL:
            why = f"no space is left in {order.to.parent}, where they are written for that; free some there"
        raise PrepareError(f"{order.to} cannot be compared with the rows: {why}") from error
    what = f"{order.to} already exists with other rows, lineage or card, and was not changed."
    raise RefusedError("exists", what, "--replace replaces it.", Exit.REFUSED)


def _same_files(made: Path, there: Path) -> bool:
    names = [path.relative_to(made) for path in made.rglob("*") if path.is_file()]
    shards = [[path.name for path in shard_files(folder)] for folder in (made, there)]
    return shards[0] == shards[1] and all(
        (there / name).is_file() and filecmp.cmp(made / name, there / name, shallow=False) for name in names
    )


def _write_file(form: RowFormat, places: FileNames, order: FileOrder, rows: Iterable[TrainingRow]) -> FileStamp:
    first, between, last = (b"[\n", b",\n", b"\n]\n") if form.shape == "list" else (b"", b"\n", b"\n")
    with places.rows.open("wb") as plain, places.lineage.open("wb") as beside:
        file, lineage = _HashedFile(plain), _LineageFile(beside)
        file.write(first)
        for row, line in _lines(form, rows):
            file.write((between if lineage.rows else b"") + line.removesuffix(b"\n"))
            lineage.add(row, line)
        file.write(last)
    return _with_card(places, order, lineage, [file.sha256])


def _write_folder(form: RowFormat, places: FileNames, order: FileOrder, rows: Iterable[TrainingRow]) -> FileStamp:
    places.rows.mkdir()
    with places.lineage.open("wb") as beside, ShardWriter(places.rows) as shards:
        lineage = _LineageFile(beside)
        for row, line in _lines(form, rows):
            shards.add(form.spell(row), len(line))
            lineage.add(row, line)
    return _with_card(places, order, lineage, map(file_sha256, shard_files(places.rows)))


def _with_card(places: FileNames, order: FileOrder, lineage: "_LineageFile", sha256: Iterable[str]) -> FileStamp:
    if not lineage.rows:
        raise PrepareError(f"there are no rows to write to {order.to}; nothing was written")
    stamp = FileStamp(format=order.format, rows=lineage.rows, sha256=tuple(sha256), lineage_sha256=lineage.file.sha256)
    places.card.write_text(card_text(order.card, stamp, llama_factory_entry(order)), encoding="utf-8", newline="\n")
    return stamp


def _lines(form: RowFormat, rows: Iterable[TrainingRow]) -> Iterator[tuple[TrainingRow, bytes]]:
    for number, row in enumerate(rows, 1):
        try:
            yield row, form.line(row)
        except RowError as error:
            raise RowError(f"row {number} ({row.lineage.row_id}): {error}") from None


class _HashedFile:
    """A file that is written once, from its beginning, and the hash of what was written."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file, self._hash = file, hashlib.sha256()

    def write(self, data: bytes) -> None:
        self._file.write(data)
        self._hash.update(data)

    @property
    def sha256(self) -> str:
        return self._hash.hexdigest()


class _LineageFile:
    """The file of lineage lines, and how many rows have theirs."""

    def __init__(self, file: IO[bytes]) -> None:
        self.file, self.rows = _HashedFile(file), 0

    def add(self, row: TrainingRow, line: bytes) -> None:
        self.file.write(lineage_line(row.lineage, row_sha256(line)))
        self.rows += 1


def file_sha256(path: Path) -> str:
    """Return the hash of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def row_sha256(line: bytes) -> str:
    """Return the hash of a row: of its line without the end."""
    return hashlib.sha256(line.removesuffix(b"\n")).hexdigest()
