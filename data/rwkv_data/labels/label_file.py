r"""Labels on disk: HOME/data/NAME/labels/FIELD@SHA256.jsonl, one file for each version of the labels of a set.

The first line says what they are, the others are a column as beside the rows (rwkv_data.prepare.field_file):

    {"labels": {"benchmark": "numina_math", "rows_sha256": "...", "field": "difficulty", ...}}
    {"rows": 65536}
    {"name": "difficulty", "values": [4.5, 7], "codes": [1, 2, 0, ...]}

A file is named by its sha256 and never changes, and no time stands in it: the same labels are the same file. Labels
belong to the rows of one sha256; after other rows were prepared they are not seen until those rows are back. Several
versions may lie side by side. A field alone (`difficulty`) means the version that was published last, and
`difficulty@1a2b3c4d` the one whose sha256 begins so.
"""

import contextlib
import os
import re
import stat
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from rwkv_data.definition.errors import PrepareError, SettingError
from rwkv_data.definition.row_fields import NUMBER, FieldKinds
from rwkv_data.definition.row_filter import PIN, Scalar
from rwkv_data.prepare.field_file import FieldFile, FieldWriter
from rwkv_data.prepare.writer import LineFile

FOLDER: Final = "labels"
NAME: Final = re.compile(r"[a-z][a-z0-9_-]{0,47}")
_FILE: Final = re.compile(rf"({NAME.pattern}){PIN}([0-9a-f]{{64}})\.jsonl")
_VERSION: Final = 8
"""Characters of a sha256 that name a version."""
_MOST_HEADER: Final = 1 << 20


class LabelOrigin(NamedTuple):
    """Where labels come from: the rule by which they were found in `source`, and how many rows have none for which
    reason. `facts`: what else tells the source, such as the sha256 of a file, or jobs with their grade keys.
    `by_version`: the name alone never means these labels."""

    rule: str
    source: str
    unlabelled: Mapping[str, int]
    facts: Mapping[str, str]
    by_version: bool = False


class LabelSet(msgspec.Struct, frozen=True, kw_only=True):
    """What labels are: of which rows, called what, and their origin. Of the set's `rows`, `labelled` have one. `kind`
    is what the values are (number, text, ...); `lowest` and `highest` are given of numbers. `by_version`: each version
    is something else, and the name alone means none of them; other labels have no such field."""

    benchmark: str
    rows_sha256: str
    rows: int
    field: str
    kind: str
    rule: str
    source: str
    labelled: int
    unlabelled: dict[str, int] = {}
    lowest: float | None = None
    highest: float | None = None
    facts: dict[str, str] = {}
    by_version: bool | msgspec.UnsetType = msgspec.UNSET


@dataclass(frozen=True, slots=True)
class StoredLabels:
    """Labels as they lie on disk. `published` is the time in ns at which they were published last."""

    labels: LabelSet
    path: Path
    sha256: str
    published: int

    @property
    def name(self) -> str:
        """The field with its version, which always means these labels."""
        return f"{self.labels.field}{PIN}{self.sha256[:_VERSION]}"

    @property
    def column(self) -> FieldFile:
        """The labels as a field of the rows."""
        field = self.labels.field
        return FieldFile(self.path, self.sha256, self.labels.rows, {field: self.labels.kind}, f"{AGAIN} {self.name}")

    def summary(self) -> dict[str, Any]:
        """Return what these labels are, as plain values under the names of a `rwkvctl.labels/1`."""
        same = ("field", "benchmark", "kind", "rule", "source", "rows", "labelled", "unlabelled", "lowest", "highest")
        return {"name": self.name} | {name: getattr(self.labels, name) for name in same}


AGAIN: Final = "remove the file, and make the labels again:"


def check_field(field: str, fields: Mapping[str, str]) -> None:
    """Raise SettingError if labels cannot be called so, beside the fields that rows have."""
    if not NAME.fullmatch(field):
        raise SettingError(
            f"{field[:60]!r} is no name for labels: small letters, digits, - and _, at most 48, a letter first"
        )
    if field in fields:
        raise SettingError(f"the rows have a field {field!r} of their own; give the labels another name with --field")


def check_writable(data_dir: Path, benchmark: str) -> None:
    """Raise PrepareError if this process may not publish labels of a set: better before they are paid for."""
    folder = data_dir / benchmark / FOLDER
    there = folder if folder.is_dir() else folder.parent
    if not os.access(there, os.W_OK | os.X_OK):
        raise PrepareError(f"{there} cannot be written by the daemon's user, so labels could not be stored there")


def label_set(
    benchmark: str, rows_sha256: str, field: str, origin: LabelOrigin, values: Sequence[Scalar | None]
) -> LabelSet:
    """Return what labels are, a value or None for each row of a set. Raises SettingError if no row has one."""
    found = [value for value in values if value is not None]
    if not found:
        missing = ", ".join(f"{count:,} {why}" for why, count in origin.unlabelled.items() if count)
        raise SettingError(f"no row of {benchmark} would have a label: {missing}")
    kinds = FieldKinds()
    for value in found:
        kinds.take({field: value})
    numbers = [value for value in found if kinds.kinds.get(field) == NUMBER and not isinstance(value, str)]
    return LabelSet(
        benchmark=benchmark,
        rows_sha256=rows_sha256,
        rows=len(values),
        field=field,
        kind=kinds.kinds.get(field, ""),
        rule=origin.rule,
        source=origin.source,
        labelled=len(found),
        unlabelled={why: count for why, count in origin.unlabelled.items() if count},
        lowest=min(numbers, default=None),
        highest=max(numbers, default=None),
        facts=dict(origin.facts),
        by_version=origin.by_version or msgspec.UNSET,
    )


def publish(data_dir: Path, labels: LabelSet, values: Sequence[Scalar | None]) -> StoredLabels:
    """Write labels, a value or None for each row of the set; they are the newest of their field then, also if they were
    there before. Whole or not at all. Raises PrepareError."""
    folder, header = data_dir / labels.benchmark / FOLDER, msgspec.json.encode({"labels": labels}) + b"\n"
    if len(header) > _MOST_HEADER:
        raise PrepareError(f"what these labels come from takes {len(header):,} bytes to say; name fewer jobs at once")
    try:
        if not folder.is_dir():
            folder.mkdir(parents=True)
            folder.chmod(0o755)  # the daemon reads it, whoever makes it
        return _written(folder, header, labels, values)
    except OSError as error:
        raise PrepareError(f"{folder} cannot be written: {error.strerror or error}") from error


def _written(folder: Path, header: bytes, labels: LabelSet, values: Sequence[Scalar | None]) -> StoredLabels:
    descriptor, part = tempfile.mkstemp(dir=folder, prefix=".", suffix=".part")
    try:
        with os.fdopen(descriptor, "wb") as stream:
            file = LineFile(stream)
            file.add(header)
            writer = FieldWriter(file.add)
            for value in values:
                writer.take({labels.field: value})
            writer.finish()
            stream.flush()
            os.fchmod(stream.fileno(), 0o644)
            os.fsync(stream.fileno())
        sha256 = file.written.sha256
        path = Path(part).replace(folder / f"{labels.field}{PIN}{sha256}.jsonl")
    except BaseException:
        Path(part).unlink(missing_ok=True)
        raise
    published = _newest(folder, path)
    _flush(folder)
    return StoredLabels(labels, path, sha256, published)


def _newest(folder: Path, path: Path) -> int:
    """Make a file the newest, also where the clock of the file system is coarse; returns its time in ns."""
    ours = path.stat().st_mtime_ns
    others = (published for name, published in _stamps(folder) if name != path.name)
    if ours <= (latest := max(others, default=0)):
        ours = latest + 1
        os.utime(path, ns=(ours, ours))
    return ours


def _flush(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def labels_of(data_dir: Path, benchmark: str, rows_sha256: str) -> list[StoredLabels]:
    """Return the labels that these rows have, each field's newest last. Only first lines are read. What is no file of
    labels, or cannot be read, is left out: it may be no reason to refuse work that does not name it."""
    found = [stored for path in _files(data_dir / benchmark / FOLDER) if (stored := _stored(path)) is not None]
    these = (one for one in found if (one.labels.benchmark, one.labels.rows_sha256) == (benchmark, rows_sha256))
    return sorted(these, key=lambda one: (one.labels.field, one.published, one.sha256))


def _stored(path: Path) -> StoredLabels | None:
    name = _FILE.fullmatch(path.name)
    try:
        if name is None or not stat.S_ISREG(path.stat().st_mode):
            return None
        with path.open("rb") as file:
            first, published = file.readline(_MOST_HEADER), os.fstat(file.fileno()).st_mtime_ns
    except OSError:
        return None
    try:
        labels = msgspec.json.decode(first, type=dict[str, LabelSet])["labels"]
    except (msgspec.MsgspecError, UnicodeDecodeError, KeyError):
        return None
    return StoredLabels(labels, path, name[2], published) if labels.field == name[1] else None


def stamp(data_dir: Path, benchmark: str) -> tuple[tuple[str, int], ...]:
    """Return a value that changes whenever labels of a set are published or removed."""
    return tuple(_stamps(data_dir / benchmark / FOLDER))


def _stamps(folder: Path) -> Iterator[tuple[str, int]]:
    for path in _files(folder):
        with contextlib.suppress(OSError):
            yield path.name, path.stat().st_mtime_ns


def _files(folder: Path) -> list[Path]:
    """The entries that are called like labels, sorted."""
    try:
        return sorted(path for path in folder.iterdir() if _FILE.fullmatch(path.name))
    except OSError:
        return []
