"""Preparation: raw rows from a file or the hub become checked, canonical rows with a manifest.

The manifest is removed first and written last, so at any moment a set is either whole or counts as not prepared.
"""

import contextlib
import fcntl
import hashlib
import os
import tempfile
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from rwkv_data import registry, sets
from rwkv_data.benchmark import Benchmark
from rwkv_data.errors import PrepareError, RowError
from rwkv_data.rows import canonical
from rwkv_data.sources import hub, local
from rwkv_data.sources.local import Placed


def prepare(name: str, data_dir: Path, source: Path | None = None) -> sets.Manifest:
    """Prepare a benchmark under a data directory (HOME/data), from a file or folder, or else from the hub."""
    benchmark = registry.load(name)
    if benchmark.built_in:
        raise PrepareError(f"{name} is built in: it needs no preparation")
    origin, revision, placed = _from_local(benchmark, source) if source else _from_hub(benchmark)
    content, count = _converted(benchmark, placed)
    manifest = sets.Manifest(
        format=sets.FORMAT,
        benchmark=name,
        benchmark_version=benchmark.version,
        split=benchmark.split,
        rows=count,
        rows_complete=benchmark.rows,
        sha256=hashlib.sha256(content).hexdigest(),
        source=origin,
        revision=revision,
        licence=benchmark.licence,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
    )
    _write(data_dir, manifest, content)
    return manifest


def _from_local(benchmark: Benchmark, path: Path) -> tuple[str, str, Iterable[Placed]]:
    """A file has no revision upstream: its sha256 stands for it."""
    if path.is_dir():
        path = local.find(path, benchmark.local_files)
    try:
        revision = f"sha256:{hashlib.sha256(path.read_bytes()).hexdigest()}"
    except OSError as error:
        raise PrepareError(f"{path} cannot be read: {error.strerror}") from None
    return path.name, revision, local.read(path, benchmark.split)


def _from_hub(benchmark: Benchmark) -> tuple[str, str, Iterable[Placed]]:
    source = benchmark.source
    if source is None:
        raise PrepareError(f"{benchmark.name} is not on the hub; give its file with --from")
    revision = hub.revision_of(source)
    return f"hf:{source.repo}/{source.config}/{source.split}", revision, hub.read(source, revision)


def _converted(benchmark: Benchmark, placed: Iterable[Placed]) -> tuple[bytes, int]:
    """The canonical rows as one file's content, and their number. A bad row is named by where it stands."""
    lines = []
    for where, raw in placed:
        try:
            lines.append(canonical(benchmark.convert(raw)))
        except RowError as error:
            raise PrepareError(f"{where}: {error}") from None
    if not lines:
        raise PrepareError(f"there are no rows for {benchmark.name}")
    return b"".join(lines), len(lines)


def _write(data_dir: Path, manifest: sets.Manifest, content: bytes) -> None:
    folder = data_dir / manifest.benchmark
    manifest_path = sets.manifest_path(data_dir, manifest.benchmark)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with _locked(folder):
            manifest_path.unlink(missing_ok=True)
            _replace(sets.rows_path(data_dir, manifest.benchmark), content)
            _replace(manifest_path, msgspec.json.format(msgspec.json.encode(manifest), indent=2) + b"\n")
    except OSError as error:
        raise PrepareError(f"{folder} cannot be written: {error.strerror}") from error


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """One preparation of a set at a time; the lock dies with its process."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _replace(path: Path, content: bytes) -> None:
    """Write a file whole or not at all."""
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False) as file:
        temporary = Path(file.name)
        try:
            file.write(content)
            file.flush()
            os.fchmod(file.fileno(), 0o644)
            os.fsync(file.fileno())
            temporary.replace(path)
        except OSError:
            temporary.unlink(missing_ok=True)
            raise
