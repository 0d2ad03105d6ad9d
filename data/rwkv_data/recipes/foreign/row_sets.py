"""Sets of rows that others made, in HOME/data/training-rows/NAME: read and checked once, and then mixed with the rows
of recipes.

    rows.jsonl, rows.index    the rows as recipes have theirs, each with its lineage (rwkv_data.recipes.indexed_lines)
    manifest.json             what they are: their file with its sha256, their licence, and what was left out
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Final

import msgspec

from rwkv_data.definition.errors import PrepareError, RowError, RowSetMissingError, SettingError
from rwkv_data.prepare.sources import local, streams
from rwkv_data.prepare.sources.raw import Placed
from rwkv_data.prepare.writer import MANIFEST, SetWriter, Written, writing
from rwkv_data.recipes.files.lineage import Lineage
from rwkv_data.recipes.files.training_row import TrainingRow, check_row
from rwkv_data.recipes.foreign.foreign_form import FormOf, Spoken, form_of
from rwkv_data.recipes.indexed_lines import IndexedLines, place

FOLDER: Final = "training-rows"
ROWS: Final = "rows"
NAME: Final = re.compile(r"(?!r[0-9]+\Z)[a-z][a-z0-9_-]{0,47}")
FORMAT: Final = 1
_REPORT: Final = 500


class RowSet(msgspec.Struct, frozen=True, kw_only=True):
    """What a set is. `rows` of the file's rows are in it; `left_out` counts the others by reason. `source_sha256` is
    the file's, `sha256` that of rows.jsonl. `pairs`: each row has two answers. `format`: how files were read."""

    format: int
    name: str
    source: str
    source_sha256: str
    licence: str
    rows: int
    pairs: bool
    left_out: dict[str, int]
    sha256: str


def folder_of(data_dir: Path, name: str) -> Path:
    """Return where the set of a name lies."""
    return data_dir / FOLDER / name


def row_set(data_dir: Path, name: str) -> RowSet | None:
    """Return what a set is; None if there is none, or none of this version."""
    found = _manifest(data_dir, name)
    return found if found is not None and found.format == FORMAT else None


def _manifest(data_dir: Path, name: str) -> RowSet | None:
    """What a set is, also if another version has read its file."""
    if not NAME.fullmatch(name):
        return None
    try:
        return msgspec.json.decode((folder_of(data_dir, name) / MANIFEST).read_bytes(), type=RowSet)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
        return None


def opened(data_dir: Path, name: str) -> tuple[IndexedLines, RowSet]:
    """Return the rows of a set, and what they are. Raises RowSetMissingError, also while they are being replaced, and
    OSError."""
    before = row_set(data_dir, name)
    try:
        lines = IndexedLines(folder_of(data_dir, name), ROWS)
    except FileNotFoundError:
        raise RowSetMissingError(missing(name)) from None
    found = row_set(data_dir, name)
    if found is None or found != before:
        lines.close()
        raise RowSetMissingError(missing(name))
    return lines, found


def missing(name: str) -> str:
    """Return a sentence that says that no set of this name is kept, and the command that keeps one."""
    return f"there are no rows {name}: `rwkvctl data rows FILE --name {name}` keeps those of a file"


def row_sets(data_dir: Path) -> list[RowSet]:
    """Return all sets, by name."""
    folder = data_dir / FOLDER
    names = sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []
    return [found for name in names if (found := row_set(data_dir, name)) is not None]


def keep(
    name: str, path: Path, data_dir: Path, *, licence: str, replace: bool, report: Callable[[int], None]
) -> RowSet:
    """Read a file of rows, and keep those that can be trained on. The same file with the same licence changes nothing;
    another one takes the place of a set only with `replace`, which reads the same file again, too. `report` is told how
    many rows were read. Raises SettingError for a name or a form that cannot be used, and PrepareError; then nothing
    was changed."""
    if not NAME.fullmatch(name):
        raise SettingError(
            f"{name!r} is no name for rows: small letters, digits, - and _, at most 48, a letter first, and no "
            "recipe such as r3; --name gives another"
        )
    local.need_file(path)
    seen = streams.identity(path.stat())
    raw = local.open_rows(path, (), "train", header=True)  # a form is known by the names of its fields
    source_sha256 = raw.revision.removeprefix("sha256:")
    before = _manifest(data_dir, name)
    is_same = before is not None and before.source_sha256 == source_sha256
    if before is not None and not is_same and not replace:
        raise PrepareError(
            f"the rows {name} are there already, of another file ({before.source}); --replace replaces them, or take "
            "another name with --name"
        )
    licence = printable(licence) or (before.licence if before is not None and is_same else "")
    if before is not None and is_same and (before.format, before.licence) == (FORMAT, licence) and not replace:
        return before
    with writing(data_dir / FOLDER, name) as writer:
        written, left_out, pairs = _write(writer, _rows(name, raw.placed, source_sha256, report))
        if not written.rows:
            commonest = f": {left_out.most_common(1)[0][0]}" if left_out else ""
            raise PrepareError(f"{path} has no row that can be trained on{commonest}")
        if streams.identity(path.stat()) != seen:
            raise PrepareError(streams.changed(path))
        made = RowSet(
            format=FORMAT, name=name, source=printable(str(path)), source_sha256=source_sha256, licence=licence,
            rows=written.rows, pairs=pairs, left_out=dict(left_out.most_common()), sha256=written.sha256,
        )  # fmt: skip
        writer.finish(msgspec.json.encode(made) + b"\n")
    return made


def _write(writer: SetWriter, rows: Iterable[TrainingRow | str]) -> tuple[Written, Counter[str], bool]:
    """Write rows with their index. Returns what was written, why the others are left out, and whether rows are
    pairs."""
    left_out, pairs, end = Counter[str](), False, 0
    with writer.opened(f"{ROWS}.jsonl") as lines, writer.opened(f"{ROWS}.index") as index:
        index.add(place(end))
        for row in rows:
            if isinstance(row, str):
                left_out[row] += 1
                continue
            line = msgspec.json.encode(row) + b"\n"
            lines.add(line)
            end += len(line)
            index.add(place(end))
            pairs = row.is_pair
    return lines.written, left_out, pairs


def printable(text: str) -> str:
    """Return a name of the system's as JSON can hold it: bytes that are no UTF-8 are shown as such."""
    return text.encode(errors="surrogateescape").decode(errors="replace")


def _rows(
    name: str, placed: Iterable[Placed], source_sha256: str, report: Callable[[int], None]
) -> Iterator[TrainingRow | str]:
    """Yield each row, or why it is left out. Rows are numbered as they stand in the file."""
    rows = iter(placed)
    first = next(rows, None)
    form = _form(first) if first is not None else None
    every: Iterable[Placed] = chain([first], rows) if first is not None else ()
    for number, (_, row) in enumerate(every):
        assert form is not None
        if number % _REPORT == 0:
            report(number)
        lineage = Lineage(row_id=f"{name}/{number}", rows_sha256=source_sha256, selector="")
        try:
            yield _training_row(form(row), lineage)
        except RowError as error:
            yield str(error)


def _form(first: Placed) -> FormOf:
    place, row = first
    try:
        return form_of(row)
    except SettingError as error:
        raise SettingError(f"{place}: {error}") from None


def _training_row(spoken: Spoken, lineage: Lineage) -> TrainingRow:
    """Raises RowError if nothing can be learned from it."""
    (system, turns), chosen, rejected = spoken
    if chosen is not None and chosen == rejected:
        raise RowError("both answers are the same")
    row = TrainingRow(system=system, turns=turns, chosen=chosen, rejected=rejected, lineage=lineage)
    check_row(row)
    return row
