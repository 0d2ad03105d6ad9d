"""Preparation: raw rows from files, the hub or the web become checked, canonical rows with a manifest."""

import dataclasses
import re
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final

import msgspec

from rwkv_data.definition import own_benchmark, registry
from rwkv_data.definition.benchmark import Benchmark, HubSource, WebSource
from rwkv_data.definition.errors import PrepareError, RowError
from rwkv_data.definition.rows import canonical
from rwkv_data.definition.stage import Row
from rwkv_data.prepare import prepared_sets
from rwkv_data.prepare.field_file import FieldWriter
from rwkv_data.prepare.sources import hub, local, own_rows, web
from rwkv_data.prepare.sources.raw import NOTES, Placed, Progress, Raw, Report, silent
from rwkv_data.prepare.writer import Written, writing

REPORT_EVERY: Final = 500
OWN_NAME: Final = re.compile(r"[a-z][a-z0-9_]{0,47}")
LABELS: Final = ("answer", "Answer", "label", "answerKey", "target", "expected_answer")
"""Fields that hold the right answer. Empty ones, or -1, are how sets hide the labels of a split."""


def prepare(
    name: str | Benchmark,
    data_dir: Path,
    source: Path | None = None,
    *,
    pool: Path | None = None,
    cache: Path | None = None,
    report: Report = silent,
) -> prepared_sets.Manifest:
    """Prepare a benchmark under a data directory (HOME/data), from a file or folder, or else from upstream.

    `pool` is a file of few-shot examples, where it is not found beside the rows. Downloads that are not the hub's own
    are kept in `cache` (HOME/cache). Raises PrepareError; what was prepared before then stays.
    """
    benchmark = registry.load(name) if isinstance(name, str) else name
    if benchmark.built_in:
        raise PrepareError(f"{benchmark.name} is built in: it needs no preparation")
    cache = cache or data_dir.parent / "cache"
    if source:
        raw, examples = _local(benchmark, source, pool)
    else:
        raw = _upstream(benchmark, benchmark.source, benchmark.split, cache, report)
        examples = _examples(benchmark, cache, report) if benchmark.pool else None
    return _write(benchmark, data_dir, raw, examples, report)


def prepare_own(
    name: str, path: Path, data_dir: Path, *, replace: bool = False, training: bool = False, report: Report = silent
) -> prepared_sets.Manifest:
    """Prepare rows of one's own as the set `own_NAME`: questions with answers, or with choices and answers.

    The same rows again change nothing, unless they were read by an older version; others take the place of a set only
    with `replace`. `training` makes them a training set, which they stay until they are replaced. Raises PrepareError.
    """
    name = name.removeprefix(own_benchmark.PREFIX)
    if not OWN_NAME.fullmatch(name):
        raise PrepareError(f"{name!r} is no name for rows: small letters, digits and _, at most 48, a letter first")
    local.need_file(path)
    forms = own_rows.common_forms(row for _, row in local.open_rows(path, (), "test").placed)
    benchmark = own_rows.benchmark(own_benchmark.PREFIX + name, path, forms)
    raw = local.open_rows(path, (), benchmark.split)
    before = None if replace else prepared_sets.read_manifest(data_dir, benchmark.name)
    if before and before.revision != raw.revision:
        raise PrepareError(
            f"{benchmark.name} is there already, of other rows ({before.source}); replace it or take another name"
        )
    training = training or bool(before and before.training)
    as_now = (before.format, before.benchmark_version, before.training) if before else ()
    if before and as_now == (prepared_sets.FORMAT, benchmark.version, training):
        return before
    return _write(dataclasses.replace(benchmark, training=training), data_dir, raw, None, report)


def _local(benchmark: Benchmark, source: Path, pool: Path | None) -> tuple[Raw, Raw | None]:
    """Rows and examples of files; a folder of the benchmark's name inside a folder is looked into."""
    if not source.is_dir():
        local.need_file(source)
    inside = source / benchmark.name
    if inside.is_dir() and local.find_rows(source, benchmark.local_files, benchmark.split) is None:
        source = inside
    raw = local.open_rows(source, benchmark.local_files, benchmark.split)
    if pool:
        local.need_file(pool)
        return raw, local.open_rows(pool, benchmark.pool_files, _pool_split(benchmark))
    return raw, local.find_rows(source, benchmark.pool_files, _pool_split(benchmark))


def _examples(benchmark: Benchmark, cache: Path, report: Report) -> Raw:
    try:
        return _upstream(benchmark, benchmark.pool, _pool_split(benchmark), cache, report)
    except PrepareError as error:
        raise PrepareError(f"the few-shot examples of {benchmark.name}: {error}") from error


def _pool_split(benchmark: Benchmark) -> str:
    return benchmark.pool.split if isinstance(benchmark.pool, HubSource) else "dev"


def _upstream(
    benchmark: Benchmark, source: HubSource | WebSource | None, split: str, cache: Path, report: Report
) -> Raw:
    if isinstance(source, HubSource):
        return hub.open_rows(source, report)
    if isinstance(source, WebSource):
        return web.open_rows(source, cache, split, report)
    raise PrepareError(f"{benchmark.name} is neither on the hub nor at a public address; give its file with --from")


def _write(benchmark: Benchmark, data_dir: Path, raw: Raw, pool: Raw | None, report: Report) -> prepared_sets.Manifest:
    rows, examples = _Conversion(benchmark, report), _Conversion(benchmark, report, pool=True)
    with writing(data_dir, benchmark.name) as writer:
        with writer.opened(prepared_sets.FIELDS) as file:
            fields = FieldWriter(file.add)
            written = writer.write(f"{benchmark.split}.jsonl", rows.lines(raw.placed, fields.take))
            fields.finish()
        if not written.rows:
            raise PrepareError(f"there are no rows for {benchmark.name}")
        shots = writer.write(prepared_sets.POOL, examples.lines(pool.placed)) if pool else None
        manifest = msgspec.structs.replace(
            _manifest(benchmark, raw, written, rows.left_out, pool, shots),
            dates=tuple(rows.dates),
            fields=fields.kinds,
            fields_sha256=file.written.sha256,
            unique_ids=fields.unique_ids,
            training=benchmark.training,
        )
        writer.finish(msgspec.json.format(msgspec.json.encode(manifest), indent=2) + b"\n")
    return manifest


def _manifest(
    benchmark: Benchmark, raw: Raw, written: Written, left_out: int, pool: Raw | None, shots: Written | None
) -> prepared_sets.Manifest:
    libraries = {"rwkvctl", *raw.libraries, *(pool.libraries if pool else ())}
    return prepared_sets.Manifest(
        format=prepared_sets.FORMAT,
        benchmark=benchmark.name,
        benchmark_version=benchmark.version,
        split=benchmark.split,
        rows=written.rows,
        rows_complete=benchmark.rows,
        sha256=written.sha256,
        source=raw.source,
        revision=raw.revision,
        licence=benchmark.licence,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        left_out=left_out,
        pool_rows=shots.rows if shots else 0,
        pool_sha256=shots.sha256 if shots else "",
        pool_source=pool.source if pool else "",
        pool_revision=pool.revision if pool else "",
        versions={name: _version(name) for name in sorted(libraries)},
    )


def _version(distribution: str) -> str:
    try:
        return version(distribution)
    except PackageNotFoundError:
        return "not installed"


class _Conversion:
    """Raw rows on their way to canonical lines; counts what is left out on purpose."""

    def __init__(self, benchmark: Benchmark, report: Report, *, pool: bool = False) -> None:
        self.left_out = 0
        self.dates: list[str] = []
        self._benchmark, self._report, self._pool = benchmark, report, pool
        self._where = benchmark.name
        self._rows = self._bytes = 0

    def lines(self, placed: Iterable[Placed], take: Callable[[Row], None] | None = None) -> Iterator[bytes]:
        """The canonical rows, one after the other, each shown to `take`. A bad row is a PrepareError that says where it
        stands."""
        raw: dict[str, Any] = {}
        try:
            for raw in self._expanded(placed):
                row = self._benchmark.convert(raw, pool=self._pool)
                if row is None:
                    self.left_out += 1
                    continue
                row = {name: value for name, value in row.items() if name not in NOTES}
                line = canonical(row)
                if take:
                    take(row)
                if self._benchmark.is_dated and not self._pool:
                    self.dates.append(str(row["date"]))
                self._count(line)
                yield line
        except RowError as error:
            raise PrepareError(f"{self._where}: {error}{self._hidden(raw)}") from None
        self._tell()

    def _expanded(self, placed: Iterable[Placed]) -> Iterable[Any]:
        expand = self._benchmark.expand
        if expand is None or (self._pool and self._benchmark.pool_from_source):
            return self._noted(placed)
        return self._guarded(expand(self._noted(placed)))

    def _noted(self, placed: Iterable[Placed]) -> Iterator[dict[str, Any]]:
        for self._where, raw in placed:
            yield raw

    def _guarded(self, rows: Iterable[Any]) -> Iterator[Any]:
        """Rows of a shape that `expand` did not foresee are bad rows like others."""
        try:
            yield from rows
        except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
            raise RowError(f"the row is of no known shape ({type(error).__name__}: {error})") from error

    def _count(self, line: bytes) -> None:
        self._rows += 1
        self._bytes += len(line)
        if self._rows % REPORT_EVERY == 0:
            self._tell()

    def _tell(self) -> None:
        total = None if self._pool else self._benchmark.rows or None
        self._report(Progress("pool" if self._pool else "rows", self._benchmark.name, self._rows, total, self._bytes))

    def _hidden(self, raw: dict[str, Any]) -> str:
        """What to do about a split without labels."""
        labels = [raw[name] for name in LABELS if name in raw]
        if (
            self._pool
            or not labels
            or "cells" in raw
            or any(str(label).strip() not in {"", "-1", "None"} for label in labels)
        ):
            return ""
        return f" (it has no label; the split of {self._benchmark.name} that has them is {self._benchmark.split!r})"
