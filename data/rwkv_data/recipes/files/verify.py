"""Whether a file of training rows, its lineage and its card belong together, and whether the lineage is true.

Every byte of file and lineage is compared: each row with the hash in its line, each line with its own, and both files
as a whole with the card. What a grade says now is asked of whoever knows it, so nothing here knows the store.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, zip_longest
from pathlib import Path
from typing import Final

from rwkv_data.definition.errors import PrepareError, RowError
from rwkv_data.prepare.sources import streams
from rwkv_data.recipes.files.file_card import FileStamp, stamp_of
from rwkv_data.recipes.files.lineage import LineageLine, SampleOrigin, parsed_line
from rwkv_data.recipes.files.parquet_folder import shard_files, shard_lines
from rwkv_data.recipes.files.row_files import FileNames, file_sha256, names_of, row_sha256
from rwkv_data.recipes.files.row_format import row_format
from rwkv_data.recipes.whole_files import finish_writing
from rwkvctl.protocol.errors import RwkvctlError

KnownVerdicts = Callable[[Sequence[SampleOrigin]], Sequence[bool | None]]
"""For each sample: whether its job has it with this grade key as right (True) or not right (False); else None."""
MOST_PROBLEMS: Final = 20
LONGEST_LINE: Final = 64 << 20
LARGEST_CARD: Final = 16 << 20
BATCH: Final = 512
"""Samples that are asked for at once."""
_LEARNED: Final = {"answer", "chosen"}


@dataclass(frozen=True, slots=True, order=True)
class FileProblem:
    """What is wrong with a row, by its line in the lineage, or with the file as a whole (line 0)."""

    line: int
    text: str


def verify(path: Path, known: KnownVerdicts, most: int = MOST_PROBLEMS) -> list[FileProblem]:
    """Return the first problems of a file or folder and its lineage, by line; none if all is well. Brings a writing
    that was killed to its end before. Raises PrepareError if something cannot be read."""
    try:
        finish_writing(path)
        if not path.exists():
            raise PrepareError(f"{path} cannot be read: No such file or directory")
        names = names_of(path, folder=path.is_dir())
        stamp = _stamp(names)
        if isinstance(stamp, FileProblem):
            return [stamp]
        return sorted(_problems(names, stamp, known, most))[:most]
    except OSError as error:
        raise PrepareError(f"{error.filename or path} cannot be read: {error.strerror or error}") from error


def _stamp(names: FileNames) -> FileStamp | FileProblem:
    for path in (names.card, names.lineage):
        if not path.is_file():
            return FileProblem(0, f"{path} is missing")
    try:
        with names.card.open("rb") as file:
            stamp = stamp_of(streams.whole(file, str(names.card), LARGEST_CARD).decode())
        shape = row_format(stamp.format).shape
    except (RwkvctlError, UnicodeDecodeError) as error:
        return FileProblem(0, f"{names.card} was changed: {error}")
    if (shape == "folder") != names.rows.is_dir():
        return FileProblem(0, f"{names.card} is that of another file: its format is {stamp.format}")
    return stamp


def _problems(names: FileNames, stamp: FileStamp, known: KnownVerdicts, most: int) -> list[FileProblem]:
    whole = list(_whole_problems(names, stamp))
    problems: list[FileProblem] = []
    asked: list[tuple[int, SampleOrigin]] = []
    for number, found in enumerate(_compared(names, stamp), 1):
        if isinstance(found, str):
            problems.append(FileProblem(number, found))
        else:
            asked += [(number, sample) for sample in found.samples]
        if len(asked) >= BATCH:
            problems += _untrue(asked, known)
            asked = []
        if len(problems) >= most:
            break
    return [*problems, *_untrue(asked, known), *whole]


def _whole_problems(names: FileNames, stamp: FileStamp) -> Iterator[FileProblem]:
    if names.rows.is_dir():
        count = len(shard_files(names.rows))
        if count != len(stamp.sha256):
            yield FileProblem(0, f"{names.rows} has {count} files of rows, and {len(stamp.sha256)} were written")
    elif (file_sha256(names.rows),) != stamp.sha256:
        yield FileProblem(0, _other_file(names.rows))
    if file_sha256(names.lineage) != stamp.lineage_sha256:
        yield FileProblem(0, _other_file(names.lineage))


def _other_file(path: Path) -> str:
    return f"{path} is not the file that the card tells of: its sha256 is another"


def _compared(names: FileNames, stamp: FileStamp) -> Iterator[LineageLine | str]:
    """Yield for each row its lineage if they belong together, else what is wrong; the last text may be about what
    comes after the rows."""
    count = 0
    try:
        with names.lineage.open("rb") as file:
            lines = streams.lines(file, str(names.lineage), LONGEST_LINE)
            for sha256, line in zip_longest(_row_hashes(names, stamp), lines):
                count += 1
                yield _pair(sha256, line)
    except PrepareError as error:
        yield str(error)
        return
    if count != stamp.rows:
        yield f"the file ends after {count:,} rows, and {stamp.rows:,} were written"


def _pair(sha256: str | None, line: bytes | None) -> LineageLine | str:
    if line is None:
        return "there is a row, and no line of lineage"
    if sha256 is None:
        return "there is a line of lineage, and no row"
    try:
        lineage = parsed_line(line)
    except RowError as error:
        return str(error)
    if lineage.sha256 != sha256:
        return "the row is not the one that the lineage tells of: its sha256 is another"
    return lineage


def _row_hashes(names: FileNames, stamp: FileStamp) -> Iterator[str]:
    """Yield the hash of each row. Raises PrepareError where what follows cannot be rows."""
    form = row_format(stamp.format)
    if form.shape == "folder":
        shards = map(_shard, shard_files(names.rows), stamp.sha256)
        yield from map(row_sha256, chain.from_iterable(shards))
        return
    with names.rows.open("rb") as file:
        lines = streams.lines(file, str(names.rows), LONGEST_LINE)
        yield from map(row_sha256, _listed(lines, names.rows) if form.shape == "list" else lines)


def _shard(shard: Path, sha256: str) -> Iterator[bytes]:
    """The rows of a shard. One that was changed is not decoded."""
    if file_sha256(shard) != sha256:
        raise PrepareError(_other_file(shard))
    return shard_lines(shard)


def _listed(lines: Iterator[bytes], path: Path) -> Iterator[bytes]:
    """The rows of a JSON list that has a row a line, without what stands between them."""
    if next(lines, b"") != b"[\n":
        raise PrepareError(f"{path} does not begin with a line [")
    row = next(lines, b"")
    for line in lines:
        if line == b"]\n":
            yield row
            break
        if not row.endswith(b",\n"):
            raise PrepareError(f"{path}: there is no comma between this row and the next")
        yield row.removesuffix(b",\n")
        row = line
    else:
        raise PrepareError(f"{path} does not end with a line ]")
    if next(lines, b""):
        raise PrepareError(f"{path} goes on after the line ]")


def _untrue(asked: Sequence[tuple[int, SampleOrigin]], known: KnownVerdicts) -> Iterator[FileProblem]:
    """What is said of samples, each with its line, and is not so."""
    pieces = (asked[first : first + BATCH] for first in range(0, len(asked), BATCH))
    verdicts = [verdict for some in pieces for verdict in known([sample for _, sample in some])]
    for (line, sample), verdict in zip(asked, verdicts, strict=True):
        name = f"row {sample.row} repeat {sample.repeat} of j{sample.job}"
        if verdict is None:
            yield FileProblem(line, f"{name} has no grade of the key {sample.grade_key}")
        elif verdict != sample.right:
            yield FileProblem(line, f"{name} is {_said(verdict)}, and the lineage says {_said(sample.right)}")
        elif sample.use in _LEARNED and not verdict:
            yield FileProblem(line, f"{name} is not right, and is the {sample.use} of the row")


def _said(verdict: bool) -> str:
    return "right" if verdict else "not right"
