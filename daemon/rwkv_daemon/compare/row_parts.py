"""The rows of a job that belong to a part of its set: those that a suite shows, or those that it holds back."""

import asyncio
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from rwkv_daemon.catalogue.offered import NodeCatalogue
from rwkv_daemon.jobs.asked_rows import asked_indices
from rwkv_daemon.store import JobRow
from rwkv_data.definition.benchmark import Benchmark
from rwkv_data.definition.errors import RowsDamagedError
from rwkv_data.definition.row_selection import Part, part_of
from rwkv_data.prepare import prepared_sets

KEPT: Final = 512
"""Sets and jobs whose rows are remembered; most jobs share the numbers of their set."""


@dataclass(slots=True)
class KnownParts:
    """What was found out of the parts of sets, by their sha256, and of jobs, by their number and the part."""

    sets: dict[tuple[str, str], frozenset[int]] = field(default_factory=dict)
    jobs: dict[tuple[int, str], frozenset[int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RowPart:
    """A part of each set, as the setting `part` divides it: the same rows whichever of them a job asks."""

    name: Part
    catalogue: NodeCatalogue
    known: KnownParts

    async def rows_of(self, job: JobRow) -> frozenset[int]:
        """Return which rows of a job belong to the part, by their number in the job. Raises DataError if that cannot be
        told any more."""
        key = (job.id, self.name)
        if key not in self.known.jobs:
            indices = await asyncio.to_thread(asked_indices, self.catalogue, job)
            inside = await self._indices(job)
            whole = len(indices) > max(inside, default=-1) and all(row == index for row, index in enumerate(indices))
            rows = inside if whole else {row for row, index in enumerate(indices) if index in inside}
            _make_room(self.known.jobs)
            self.known.jobs[key] = frozenset(rows)
        return self.known.jobs[key]

    async def _indices(self, job: JobRow) -> frozenset[int]:
        """Return the indices of the part in the prepared set of a job's rows. Raises DataError."""
        key = (job.rows_sha256, self.name)
        if key not in self.known.sets:
            data_dir, benchmark = self.catalogue.benchmarks.data_dir, self.catalogue.benchmarks.get(job.benchmark)
            found = await asyncio.to_thread(_indices_of, data_dir, benchmark, self.name)
            if prepared_sets.current_manifest(data_dir, benchmark).sha256 != job.rows_sha256:
                raise RowsDamagedError(f"other rows of {job.benchmark} were prepared meanwhile")
            _make_room(self.known.sets)
            self.known.sets[key] = found
        return self.known.sets[key]


def _indices_of(data_dir: Path, benchmark: Benchmark, part: Part) -> frozenset[int]:
    rows = prepared_sets.load_rows(data_dir, benchmark)
    return frozenset(part_of(range(len(rows)), part, rows))


def _make_room(kept: dict[tuple[int, str], frozenset[int]] | dict[tuple[str, str], frozenset[int]]) -> None:
    while len(kept) >= KEPT:
        del kept[next(iter(kept))]  # type: ignore[arg-type]
