"""Prepared rows on disk, and the rows of built-in benchmarks, behind one door.

    HOME/data/NAME/SPLIT.jsonl    the rows, one canonical JSON object a line
    HOME/data/NAME/fields.jsonl   their fields by column, to pick by (see rwkv_data.prepare.field_file)
    HOME/data/NAME/labels/        labels of the rows, which pick like fields (see rwkv_data.labels.label_file)
    HOME/data/NAME/pool.jsonl     few-shot examples, for benchmarks that have a pool of them
    HOME/data/NAME/manifest.json  what they are and where they came from; written last

Planning reads manifests only, and fields where a job filters by them. Rows are checked against their manifest when they
are loaded, not before.
"""

import functools
import hashlib
import itertools
import json
import pwd
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Final

import msgspec

from rwkv_data.definition import own_benchmark, registry, row_ids
from rwkv_data.definition.benchmark import Benchmark
from rwkv_data.definition.errors import DataError, RowsDamagedError, RowsMissingError
from rwkv_data.definition.kind import Kind
from rwkv_data.definition.row_fields import RowFields, RowsAtHand
from rwkv_data.definition.row_window import Extent
from rwkv_data.definition.rows import canonical
from rwkv_data.definition.stage import Row
from rwkv_data.labels.label_file import labels_of
from rwkv_data.labels.labelled_fields import LabelledFields
from rwkv_data.prepare.field_file import FieldFile
from rwkv_data.prepare.writer import MANIFEST

FORMAT: Final = 3
READS: Final = (1, 2, 3)
"""Manifest formats that this version reads. Format 1 knew neither examples nor rows that are left out, 1 and 2 no
fields."""
WITH_FIELDS: Final = 3
BUILT_IN: Final = "built in"
POOL: Final = "pool.jsonl"
FIELDS: Final = "fields.jsonl"


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """What a prepared set is. `rows` of `rows_complete` (0: nobody knows how many) are there; `left_out` raw rows are
    not, on purpose; `sha256` is of the JSONL file's bytes; `dates` are the days of the rows, where a window may pick
    by them. `fields` says what each field holds by which rows may be picked, `fields_sha256` is of the file of their
    columns, `unique_ids` says whether no two rows have the same id upstream. `training`: the rows are there to be
    trained on, which is how rows of the operator's own are known to be. `revision` is the commit or sha256 of what
    `source` named, `versions` those of the distributions that read it."""

    format: int
    benchmark: str
    benchmark_version: int
    split: str
    rows: int
    rows_complete: int
    sha256: str
    source: str
    revision: str
    licence: str
    created: str
    left_out: int = 0
    pool_rows: int = 0
    pool_sha256: str = ""
    pool_source: str = ""
    pool_revision: str = ""
    versions: dict[str, str] = {}
    dates: tuple[str, ...] = ()
    fields: dict[str, str] = {}
    fields_sha256: str = ""
    unique_ids: bool = False
    training: bool = False

    @property
    def complete(self) -> bool:
        """Whether all rows that the benchmark has are there."""
        return self.rows_complete in {0, self.rows}


def rows_path(data_dir: Path, name: str | Benchmark) -> Path:
    """Return where the rows of a benchmark lie under a data directory (HOME/data)."""
    benchmark = registry.load(name) if isinstance(name, str) else name
    return data_dir / benchmark.name / f"{benchmark.split}.jsonl"


def pool_path(data_dir: Path, name: str) -> Path:
    """Return where the few-shot examples of a benchmark lie."""
    return data_dir / name / POOL


def manifest_path(data_dir: Path, name: str) -> Path:
    """Return where the manifest of a benchmark lies."""
    return data_dir / name / MANIFEST


def read_manifest(data_dir: Path, name: str | Benchmark) -> Manifest | None:
    """Return the manifest of a benchmark, or None if it was never prepared. Nothing is verified but its own form. A
    benchmark that does not come with rwkvctl and generates its rows must be given itself, not by name."""
    if isinstance(name, str) and name in _ours():
        name = registry.load(name)
    if isinstance(name, Benchmark):
        if name.generate_rows:
            return _built_in(name, *_generated(name.generate_rows))
        name = name.name
    path = manifest_path(data_dir, name)
    try:
        manifest = msgspec.json.decode(path.read_bytes(), type=Manifest)
    except FileNotFoundError:
        return None
    except PermissionError:
        raise RowsDamagedError(f"{path} may not be read: {_whose(data_dir)}.") from None
    except (msgspec.MsgspecError, UnicodeDecodeError, OSError) as error:
        raise RowsDamagedError(f"{path} is no manifest ({error}); {_again(name)}") from None
    if manifest.format not in READS:
        raise RowsDamagedError(f"{path} has format {manifest.format}, this version reads {FORMAT}; {_again(name)}")
    return manifest


def extent_of(data_dir: Path, benchmark: Benchmark, manifest: Manifest) -> Extent:
    """Return how many rows there are, their days, and their fields and labels, of which nothing is read before they are
    asked."""
    fields = _fields(data_dir, benchmark, manifest)
    if fields is not None and (labels := labels_of(data_dir, benchmark.name, manifest.sha256)):
        fields = LabelledFields(fields, labels)
    return Extent(manifest.rows, manifest.dates, fields)


def fields_of(data_dir: Path, benchmark: Benchmark, manifest: Manifest) -> RowFields:
    """Return the fields that the rows have of themselves. Raises RowsDamagedError for a set that was prepared without
    them."""
    fields = _fields(data_dir, benchmark, manifest)
    if fields is None:
        raise RowsDamagedError(f"{benchmark.name} was prepared without its fields; {_again(benchmark.name)}")
    return fields


def _fields(data_dir: Path, benchmark: Benchmark, manifest: Manifest) -> RowFields | None:
    if benchmark.generate_rows:
        return RowsAtHand(_generated(benchmark.generate_rows)[0])
    return None if manifest.format < WITH_FIELDS else _field_file(data_dir, manifest)


def _field_file(data_dir: Path, manifest: Manifest) -> FieldFile:
    path, again = data_dir / manifest.benchmark / FIELDS, _again(manifest.benchmark)
    return FieldFile(path, manifest.fields_sha256, manifest.rows, manifest.fields, again)


def ids_of_rows(data_dir: Path, benchmark: Benchmark, manifest: Manifest, indices: Sequence[int]) -> list[str]:
    """Return what the rows at these indices are called (see rwkv_data.definition.row_ids). Rows are read only where
    they were prepared without their fields."""
    if benchmark.generate_rows or manifest.format < WITH_FIELDS:
        name = row_ids.ids_of(benchmark.name, load_rows(data_dir, benchmark))
        return [name(index) for index in indices]
    upstream: dict[int, str] = {}
    names = [name for name in row_ids.FIELDS if name in manifest.fields]
    if manifest.unique_ids and names:
        wanted, fields = set(indices), _field_file(data_dir, manifest)
        values = enumerate(zip(*map(fields.values, names), strict=True))
        upstream = {index: row_ids.first_id(found) for index, found in values if index in wanted}
    return [row_ids.row_id(benchmark.name, index, upstream.get(index, "")) for index in indices]


def load_asked(data_dir: Path, benchmark: Benchmark, kind: Kind, limit: int | None = None) -> list[Row]:
    """Return the rows that a kind asks, each with its examples, after verifying the whole set against its manifest. The
    others are not kept in memory, unless examples are drawn from one stream over all rows."""
    pool = load_pool(data_dir, benchmark) if kind.shots and kind.shots.needs_pool else []
    if kind.shots and kind.shots.goes_by_order:
        manifest = current_manifest(data_dir, benchmark)
        rows = _stored(data_dir, benchmark, manifest, range(manifest.rows))
        return kind.asked(rows, pool, limit, extent_of(data_dir, benchmark, manifest))
    asked = list(_rows_asked(data_dir, benchmark, kind, limit).values())
    return kind.shots.attach(asked, pool) if kind.shots else asked


def asked_indices(data_dir: Path, benchmark: Benchmark, kind: Kind, limit: int | None = None) -> Sequence[int]:
    """Return the indices in the prepared set of the rows that a kind asks, in their order. Rows are read only where
    their texts decide which are asked."""
    if kind.looks_at_rows:
        return list(_rows_asked(data_dir, benchmark, kind, limit))
    return kind.inside(extent_of(data_dir, benchmark, current_manifest(data_dir, benchmark)))[:limit]


def _rows_asked(data_dir: Path, benchmark: Benchmark, kind: Kind, limit: int | None) -> dict[int, Row]:
    """Return the rows that a kind asks by their index in the set, in their order."""
    manifest = current_manifest(data_dir, benchmark)
    inside = kind.inside(extent_of(data_dir, benchmark, manifest))
    if not kind.looks_at_rows:
        inside = inside[:limit]
    stored = sorted(inside) if kind.order else inside
    rows = dict(zip(stored, _stored(data_dir, benchmark, manifest, stored), strict=True))
    return {index: rows[index] for index in kind.chosen(inside, rows, limit)}


def load_rows(data_dir: Path, benchmark: Benchmark, limit: int | None = None) -> list[Row]:
    """Return the rows of a benchmark, or the first `limit`, after verifying the whole set against its manifest."""
    manifest = current_manifest(data_dir, benchmark)
    return _stored(data_dir, benchmark, manifest, range(manifest.rows)[:limit])


def each_row(data_dir: Path, benchmark: Benchmark) -> Iterator[Row]:
    """Yield the rows of a benchmark one by one, after verifying the whole set against its manifest."""
    manifest = current_manifest(data_dir, benchmark)
    if benchmark.generate_rows:
        return iter(_generated(benchmark.generate_rows)[0])
    return _each(rows_path(data_dir, benchmark), manifest.rows, manifest.sha256, _again(benchmark.name))


def _stored(data_dir: Path, benchmark: Benchmark, manifest: Manifest, only: Sequence[int]) -> list[Row]:
    """Return the rows at these indices (ascending) after verifying the whole set."""
    if benchmark.generate_rows:
        return [_generated(benchmark.generate_rows)[0][index] for index in only]
    again = _again(benchmark.name)
    return _verified(rows_path(data_dir, benchmark), manifest.rows, manifest.sha256, again, benchmark.check_row, only)


def load_pool(data_dir: Path, benchmark: Benchmark) -> list[Row]:
    """Return the few-shot examples of a benchmark, verified like its rows."""
    manifest = current_manifest(data_dir, benchmark)
    if not manifest.pool_sha256:
        raise RowsMissingError(
            f"{benchmark.name} was prepared without few-shot examples; {_again(benchmark.name)}"
            + (f" (--from a folder that has {' or '.join(benchmark.pool_files)})" if benchmark.pool_files else "")
        )
    path = pool_path(data_dir, benchmark.name)
    check = None if benchmark.pool_from_source else benchmark.check_row
    return _verified(path, manifest.pool_rows, manifest.pool_sha256, _again(benchmark.name), check)


def current_manifest(data_dir: Path, benchmark: Benchmark) -> Manifest:
    """Return the manifest of a set that was prepared for this version of the benchmark. Raises RowsMissingError and
    RowsDamagedError, which say why there is none."""
    manifest = read_manifest(data_dir, benchmark)
    if manifest is None:
        raise RowsMissingError(f"{benchmark.name} is not prepared in {data_dir}; {_again(benchmark.name)}")
    if manifest.benchmark_version != benchmark.version:
        versions = f"version {manifest.benchmark_version} of the benchmark, this is {benchmark.version}"
        raise RowsDamagedError(f"the rows of {benchmark.name} were prepared for {versions}; {_again(benchmark.name)}")
    return manifest


def _verified(
    path: Path,
    count: int,
    sha256: str,
    again: str,
    check: Callable[[Row], None] | None,
    only: Sequence[int] | None = None,
) -> list[Row]:
    return list(_each(path, count, sha256, again, check, only))


def _each(
    path: Path,
    count: int,
    sha256: str,
    again: str,
    check: Callable[[Row], None] | None = None,
    only: Sequence[int] | None = None,
) -> Iterator[Row]:
    """Yield the rows of a file after verifying it against its manifest. The file is read twice, so that its bytes need
    not lie in memory beside its rows."""
    try:
        with path.open("rb") as file:
            if hashlib.file_digest(file, "sha256").hexdigest() != sha256:
                raise RowsDamagedError(f"{path} is not what its manifest says (other sha256); {again}")
            file.seek(0)
            found = sum(1 for _ in file)
            if found != count:
                raise RowsDamagedError(f"{path} has {found} rows, its manifest says {count}; {again}")
            file.seek(0)
            for number, line in _lines(file, only):
                yield _row(line, f"{path}:{number}", again, check)
    except FileNotFoundError:
        raise RowsDamagedError(f"{path} is gone, its manifest is there; {again}") from None
    except OSError as error:
        raise RowsDamagedError(f"{path} cannot be read: {error.strerror or error}") from error


def _lines(file: IO[bytes], only: Sequence[int] | None) -> Iterator[tuple[int, bytes]]:
    r"""Return the lines, or those at the indices `only` (ascending), numbered from 1. A binary file ends lines at \n
    only, as the rows were written."""
    if only is None:
        return enumerate(file, 1)
    wanted = only if isinstance(only, range) else frozenset(only)
    first = itertools.islice(enumerate(file), only[-1] + 1 if only else 0)
    return ((index + 1, line) for index, line in first if index in wanted)


def _row(line: bytes, where: str, again: str, check: Callable[[Row], None] | None) -> Row:
    try:
        row: Row = json.loads(line)
        if not isinstance(row, Mapping):
            raise RowsDamagedError(f"{where}: not a JSON object; {again}")
        if check:
            check(row)
    except (DataError, ValueError) as error:
        raise RowsDamagedError(f"{where}: {error}; {again}") from None
    return row


@functools.cache
def _ours() -> frozenset[str]:
    """Return the names of the benchmarks that come with rwkvctl."""
    return frozenset(registry.names())


@functools.cache
def _generated(generate: Callable[[], Iterable[Row]]) -> tuple[tuple[Row, ...], str]:
    """Return the rows of a built-in benchmark, and the sha256 that their file would have."""
    rows = tuple(generate())
    return rows, hashlib.sha256(b"".join(map(canonical, rows))).hexdigest()


def _built_in(benchmark: Benchmark, rows: tuple[Row, ...], sha256: str) -> Manifest:
    """Return the manifest that a built-in benchmark would have."""
    return Manifest(
        format=FORMAT,
        benchmark=benchmark.name,
        benchmark_version=benchmark.version,
        split=benchmark.split,
        rows=len(rows),
        rows_complete=benchmark.rows,
        sha256=sha256,
        source=BUILT_IN,
        revision=str(benchmark.version),
        licence=benchmark.licence,
        created="",
        fields=dict(RowsAtHand(rows).kinds),
    )


def _whose(data_dir: Path) -> str:
    """Who may read the rows, and how."""
    try:
        name = pwd.getpwuid(data_dir.stat().st_uid).pw_name
    except (OSError, KeyError):
        return "they belong to another user"
    return f"they belong to {name}; run this as that user, with `sudo -u {name} rwkvctl …`"


def _again(name: str) -> str:
    if name.startswith(own_benchmark.PREFIX):
        return "give its file once more"
    return f"run `rwkvctl data prepare {name}`"
