"""The rows that finished jobs asked, easiest first: by their pass-rate, or by a field or labels that hold numbers."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from rwkv_daemon.catalogue.offered import NodeCatalogue
from rwkv_daemon.changes.records import Records
from rwkv_daemon.recipes import pass_rates
from rwkv_daemon.recipes.pass_rates import JobVerdicts
from rwkv_daemon.store import JobRow
from rwkv_data.definition import row_order
from rwkv_data.definition.benchmark import Benchmark
from rwkv_data.definition.errors import RowsDamagedError, SettingError
from rwkv_data.definition.row_filter import unknown_field
from rwkv_data.labels.label_file import labels_of
from rwkv_data.prepare import prepared_sets
from rwkv_data.prepare.prepared_sets import Manifest
from rwkvctl.protocol.training.orders import BY_RATE, OrderedJob, OrderedRow, OrderReply, OrderRequest

NO_VERDICT: Final = "without a verdict"
NO_NUMBER: Final = "without a number"
BELOW: Final = "below the band"
ABOVE: Final = "above the band"


async def order(
    records: Records, catalogue: NodeCatalogue, jobs: Sequence[JobRow], request: OrderRequest
) -> OrderReply:
    """Return the rows of jobs, which all asked the same set, in their order. Raises RefusedError if a job has no
    verdicts on these rows, and DataError."""
    found = await pass_rates.verdicts_of(records, catalogue, jobs[0].benchmark, jobs)
    return await asyncio.to_thread(ordered, catalogue, found, request)


def ordered(catalogue: NodeCatalogue, jobs: Sequence[JobVerdicts], request: OrderRequest) -> OrderReply:
    """Put the rows of jobs in order. Raises DataError if their rows are gone, or have no such field."""
    name, rows_sha256, by = jobs[0].job.benchmark, jobs[0].job.rows_sha256, row_order.parse(request.by)
    data_dir, benchmark = catalogue.benchmarks.data_dir, catalogue.benchmarks.get(name)
    counts, manifest = pass_rates.counted(catalogue, jobs), prepared_sets.current_manifest(data_dir, benchmark)
    indices, values = sorted(counts.asked), dict[int, float]()
    if by != BY_RATE:
        by, values = field_values(data_dir, benchmark, manifest, by)
    rows, left_out = list[OrderedRow](), Counter[str]()
    for index, row_id in zip(indices, prepared_sets.ids_of_rows(data_dir, benchmark, manifest, indices), strict=True):
        right, n = counts.right[index], counts.verdicts[index]
        row = OrderedRow(id=row_id, pass_rate=right / n if n else None, right=right, n=n, value=values.get(index))
        measure, missing = (row.pass_rate, NO_VERDICT) if by == BY_RATE else (row.value, NO_NUMBER)
        if why := missing if measure is None else outside(measure, request):
            left_out[why] += 1
        else:
            rows.append(row)
    if {manifest.sha256, prepared_sets.current_manifest(data_dir, benchmark).sha256} != {rows_sha256}:
        raise RowsDamagedError(f"the rows of {name} were prepared anew meanwhile")
    rows.sort(key=lambda row: (-(row.pass_rate or 0.0) if by == BY_RATE else row.value, row.id))
    return OrderReply(
        benchmark=name,
        rows_sha256=rows_sha256,
        by=by,
        low=request.low,
        high=request.high,
        jobs=tuple(
            OrderedJob(id=job.name, model=job.model, kind=job.kind, repeats=job.repeats, grade_key=job.grade_key)
            for job, _ in jobs
        ),
        asked=len(indices),
        left_out=dict(sorted(left_out.items())),
        rows=tuple(rows),
    )


def outside(measure: float, request: OrderRequest) -> str:
    """Return on which side of the band a row is; empty if it is inside."""
    if request.low is not None and measure < request.low:
        return BELOW
    return ABOVE if request.high is not None and measure > request.high else ""


def field_values(data_dir: Path, benchmark: Benchmark, manifest: Manifest, name: str) -> tuple[str, dict[int, float]]:
    """Return the name of a field, that of labels with their version, and its numbers by the row's index. Raises
    DataError."""
    fields = prepared_sets.extent_of(data_dir, benchmark, manifest).fields
    if fields is None:
        raise SettingError(f"the rows of {benchmark.name} were prepared without their fields: prepare them again")
    versions = {one.name for one in labels_of(data_dir, benchmark.name, manifest.sha256)}
    if problem := unknown_field("--by", [name], fields.kinds, versions):
        raise SettingError(problem)
    numbers = row_order.numbers(fields.column(pinned := fields.pinned(name)))
    return pinned, {index: number for index, number in enumerate(numbers) if number is not None}
