"""Prepared rows on disk, and the rows of built-in benchmarks, behind one door.

    HOME/data/NAME/SPLIT.jsonl    the rows, one canonical JSON object a line
    HOME/data/NAME/manifest.json  what they are and where they came from; written last

Planning reads manifests only. Rows are checked against their manifest when they are loaded, not before.
"""

import functools
import hashlib
import json
from pathlib import Path

import msgspec

from rwkv_data import registry
from rwkv_data.benchmark import Benchmark, Row
from rwkv_data.errors import DataError, RowsDamagedError, RowsMissingError
from rwkv_data.rows import canonical

FORMAT = 1
BUILT_IN = "built in"


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """What a prepared set is. `rows` of `rows_complete` are there; `sha256` is of the JSONL file's bytes."""

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

    @property
    def complete(self) -> bool:
        """All rows that the benchmark has are there."""
        return self.rows == self.rows_complete


def rows_path(data_dir: Path, name: str) -> Path:
    """Where the rows of a benchmark lie under a data directory (HOME/data)."""
    return data_dir / name / f"{registry.load(name).split}.jsonl"


def manifest_path(data_dir: Path, name: str) -> Path:
    """Where the manifest of a benchmark lies."""
    return data_dir / name / "manifest.json"


def read_manifest(data_dir: Path, name: str) -> Manifest | None:
    """The manifest of a benchmark, or None if it was never prepared. Nothing is verified but its own form."""
    benchmark = registry.load(name)
    if benchmark.generate_rows:
        return _built_in(name)[1]
    path = manifest_path(data_dir, name)
    try:
        manifest = msgspec.json.decode(path.read_bytes(), type=Manifest)
    except FileNotFoundError:
        return None
    except (msgspec.MsgspecError, UnicodeDecodeError, OSError) as error:
        raise RowsDamagedError(f"{path} is no manifest ({error}); {_again(name)}") from None
    if manifest.format != FORMAT:
        raise RowsDamagedError(f"{path} has format {manifest.format}, this version reads {FORMAT}; {_again(name)}")
    return manifest


def load_rows(data_dir: Path, benchmark: Benchmark) -> list[Row]:
    """All rows of a benchmark, verified against the manifest."""
    if benchmark.generate_rows:
        return list(_built_in(benchmark.name)[0])
    manifest = read_manifest(data_dir, benchmark.name)
    if manifest is None:
        raise RowsMissingError(f"{benchmark.name} is not prepared in {data_dir}; {_again(benchmark.name)}")
    if manifest.benchmark_version != benchmark.version:
        versions = f"version {manifest.benchmark_version} of the benchmark, this is {benchmark.version}"
        raise RowsDamagedError(f"the rows of {benchmark.name} were prepared for {versions}; {_again(benchmark.name)}")
    return _verified(rows_path(data_dir, benchmark.name), manifest, benchmark)


def _verified(path: Path, manifest: Manifest, benchmark: Benchmark) -> list[Row]:
    again = _again(benchmark.name)
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise RowsDamagedError(f"{path} is gone, its manifest is there; {again}") from None
    if hashlib.sha256(content).hexdigest() != manifest.sha256:
        raise RowsDamagedError(f"{path} is not what its manifest says (other sha256); {again}")
    lines = content.splitlines()
    if len(lines) != manifest.rows:
        raise RowsDamagedError(f"{path} has {len(lines)} rows, its manifest says {manifest.rows}; {again}")
    rows = [json.loads(line) for line in lines]
    for number, row in enumerate(rows, 1):
        _check(benchmark, row, f"{path}:{number}")
    return rows


def _check(benchmark: Benchmark, row: Row, where: str) -> None:
    try:
        benchmark.check_row(row)
    except DataError as error:
        raise RowsDamagedError(f"{where}: {error}; {_again(benchmark.name)}") from None


@functools.cache
def _built_in(name: str) -> tuple[tuple[Row, ...], Manifest]:
    """The generated rows of a built-in benchmark and the manifest they would have."""
    benchmark = registry.load(name)
    rows = tuple(benchmark.generate_rows() if benchmark.generate_rows else ())
    manifest = Manifest(
        format=FORMAT,
        benchmark=name,
        benchmark_version=benchmark.version,
        split=benchmark.split,
        rows=len(rows),
        rows_complete=benchmark.rows,
        sha256=hashlib.sha256(b"".join(map(canonical, rows))).hexdigest(),
        source=BUILT_IN,
        revision=str(benchmark.version),
        licence=benchmark.licence,
        created="",
    )
    return rows, manifest


def _again(name: str) -> str:
    return f"run `rwkvctl data prepare {name}`"
