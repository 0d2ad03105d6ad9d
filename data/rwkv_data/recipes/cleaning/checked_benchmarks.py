"""The benchmarks that problems are compared with: all of the node that are not for training, with the operator's own,
as far as their rows are prepared."""

import hashlib
import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from rwkv_data.definition.benchmark import Benchmark
from rwkv_data.definition.errors import BenchmarkFileError, NotCheckedError, RowsDamagedError
from rwkv_data.definition.registry import Catalogue
from rwkv_data.definition.stage import Row
from rwkv_data.prepare import prepared_sets
from rwkv_data.prepare.prepared_sets import Manifest
from rwkv_data.recipes.cleaning.benchmark_index import BenchmarkIndex, opened

NOT_PREPARED: Final = "not prepared"


@dataclass(frozen=True, slots=True)
class CheckedBenchmarks:
    """What problems are compared with. `not_checked`: the other benchmarks, each with why. `in_part`: those of which
    not all rows are prepared, with how many are and how many there are."""

    indexes: tuple[BenchmarkIndex, ...]
    not_checked: dict[str, str]
    in_part: dict[str, tuple[int, int]]

    def require_all(self) -> None:
        """Raise NotCheckedError if there is a benchmark that is not checked."""
        if self.not_checked:
            raise NotCheckedError(
                f"{len(self.not_checked)} benchmarks cannot be checked ({', '.join(self.not_checked)}); prepare them "
                "with `rwkvctl data prepare`, or leave out --require-checked"
            )


def checked_benchmarks(
    catalogue: Catalogue, data_dir: Path, cache: Path, scratch: Path, report: Callable[[str, int, int], None]
) -> CheckedBenchmarks:
    """Open the index of each benchmark. `cache` is HOME/cache: where it cannot be written, indexes are made in
    `scratch`, for this once. `report` is told the name of the benchmark, how many are done, and of how many."""
    names, indexes = catalogue.names(), list[BenchmarkIndex]()
    not_checked, in_part = dict[str, str](), dict[str, tuple[int, int]]()
    kept = cache / "cleaning"
    made_in = kept if _is_writable(kept) else scratch / "cleaning"
    for number, name in enumerate(names):
        report(name, number, len(names))
        try:
            benchmark = catalogue.load(name)
            manifest = None if benchmark.training else prepared_sets.read_manifest(data_dir, benchmark)
            if manifest is not None:
                rows = partial(_rows, data_dir, benchmark, manifest)
                indexes.append(opened(name, manifest.sha256, kept, rows, private=benchmark.private, made_in=made_in))
                in_part |= {} if manifest.complete else {name: (manifest.rows, manifest.rows_complete)}
            elif not benchmark.training:
                not_checked[name] = NOT_PREPARED
        except (BenchmarkFileError, RowsDamagedError) as error:
            not_checked[name] = str(error)
    return CheckedBenchmarks(tuple(indexes), not_checked, in_part)


def _is_writable(folder: Path) -> bool:
    there = next((place for place in (folder, *folder.parents) if place.exists()), folder)
    return os.access(there, os.W_OK)


def _rows(data_dir: Path, benchmark: Benchmark, manifest: Manifest) -> Iterator[Row]:
    """Yield the rows of a benchmark without holding them all. Raises RowsDamagedError, at the end at the latest, if
    they are not those of the manifest. An older version of the benchmark may have prepared them: they are its rows all
    the same."""
    if benchmark.built_in:
        yield from prepared_sets.load_rows(data_dir, benchmark)
        return
    path = data_dir / benchmark.name / f"{manifest.split}.jsonl"
    digest = hashlib.sha256()
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, 1):
                digest.update(line)
                yield _row(line, f"{path}:{number}")
    except OSError as error:
        raise RowsDamagedError(f"{path} cannot be read: {error.strerror or error}") from error
    if digest.hexdigest() != manifest.sha256:
        raise RowsDamagedError(f"{path} is not what its manifest says (other sha256)")


def _row(line: bytes, where: str) -> Row:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        row = None
    if not isinstance(row, dict):
        raise RowsDamagedError(f"{where} is no JSON object")
    return row
