"""What the writer has said of the rows of a benchmark, published as labels: the end of a labelling.

The labels of one field, rule and writer are those of all labellings of the same rows together: whoever labels the first
20,000 rows today and the next tomorrow has 40,000. A label is never replaced by the failure of a later job. The file of
labels is named by its content, so publishing twice, as after a kill, changes nothing.
"""

import asyncio
import json
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec

from rwkv_daemon.catalogue.offered import NodeCatalogue
from rwkv_daemon.changes.change import Change
from rwkv_daemon.changes.records import Records
from rwkv_daemon.jobs.asked_rows import asked_indices
from rwkv_daemon.store import JobRow
from rwkv_daemon.store.queries.recipes.labelling import RowLabel, failed_rows, labellings_of, row_labels
from rwkv_daemon.workers.crash_points import crash_point
from rwkv_daemon.workers.run_directory import UNREADABLE
from rwkv_data.definition.errors import DataError, RowsDamagedError
from rwkv_data.definition.row_filter import Scalar
from rwkv_data.labels.label_file import LabelOrigin, StoredLabels
from rwkv_data.labels.pass_rate import NOT_ASKED
from rwkv_data.labels.publishing import publish_labels
from rwkv_data.prepare import prepared_sets
from rwkvctl.text.quantities import several

WHY_NOT: Final = {UNREADABLE: "unreadable"}
FAILED: Final = "failed"


@dataclass(slots=True)
class FoundLabels:
    """The labels of a set's rows as far as they are known, and why the others have none."""

    values: list[Scalar | None]
    missing: list[str]
    sources: dict[str, str] = field(default_factory=dict)

    def take(self, rows: Sequence[RowLabel], indices: Sequence[int]) -> None:
        """Take in rows of a later job; `indices` are those of its rows in the set."""
        for row in rows:
            index = indices[row.row]
            if row.label is not None:
                self.values[index] = number_of(row.label)
            elif self.values[index] is None:
                self.missing[index] = WHY_NOT.get(row.reason, FAILED)


async def end_labelling(
    records: Records, catalogue: NodeCatalogue, job: JobRow, end: Callable[[Change, str, str], Awaitable[None]]
) -> None:
    """Publish the labels of a job whose rows have all ended, and finish it; it fails if no row has a label, or they
    cannot be published now."""
    try:
        stored = await published(records, catalogue, job)
    except DataError as error:
        detail = str(error)
        if await failed_rows(records.store, job):
            detail += "; `rwkvctl data label` with the same words asks those that failed again"
        async with records.change() as change:
            await end(change, "infrastructure", detail)
            stops = job.state == "stopping"
            blame = {} if stops else {"failure": "infrastructure"}
            await change.move(job, "ended" if stops else "fail", detail=detail, engine=None, **blame)
        return
    crash_point("labels-after-publishing")
    async with records.change() as change:
        await end(change, "", "")
        detail = f"{stored.name}: {stored.labels.labelled:,} of {several(stored.labels.rows, 'row')} labelled"
        await change.move(job, "finish", engine=None, detail=detail)


async def published(records: Records, catalogue: NodeCatalogue, job: JobRow) -> StoredLabels:
    """Publish the labels of a job with those of others like it, in the order of the jobs. An earlier job of which it
    cannot be told any more which rows it asked is left out. Raises DataError."""
    benchmark = catalogue.benchmarks.get(job.benchmark)
    manifest = await asyncio.to_thread(prepared_sets.current_manifest, catalogue.benchmarks.data_dir, benchmark)
    if manifest.sha256 != job.rows_sha256:
        raise RowsDamagedError(f"the rows of {job.benchmark} are not those that {job.name} asked: prepare those again")
    found = FoundLabels([None] * manifest.rows, [NOT_ASKED] * manifest.rows)
    source = ""
    for one in reversed(await labellings_of(records.store, job.benchmark, job.rows_sha256)):
        if one.id != job.id and (one.state != "done" or not is_like(one, job)):
            continue
        try:
            indices = await asyncio.to_thread(asked_indices, catalogue, one)
        except DataError:
            if one.id == job.id:
                raise
            continue
        async for rows in row_labels(records.store, one):
            found.take(rows, indices)
        found.sources[one.name] = one.generation_key
        source = source_of(records, one) or source
    counts = Counter(why for why, value in zip(found.missing, found.values, strict=True) if value is None)
    what = json.loads(job.configuration)["labelling"]
    origin = LabelOrigin(what["rule"], source, dict(sorted(counts.items())), found.sources)
    return await asyncio.to_thread(
        publish_labels, catalogue.benchmarks.data_dir, benchmark, job.rows_sha256, what["field"], origin, found.values
    )


def is_like(one: JobRow, job: JobRow) -> bool:
    """Whether two labellings of the same rows have the same rule, field and writer."""
    mine = (job.weights_sha256, json.loads(job.configuration)["labelling"])
    return (one.weights_sha256, json.loads(one.configuration).get("labelling")) == mine


def source_of(records: Records, job: JobRow) -> str:
    """Return which model a labelling asked, as labels say it; empty if its run directory does not tell any more."""
    try:
        endpoint = records.folder(job.id).read_endpoint()
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return ""
    revision = f" {endpoint['revision']}" if endpoint.get("revision") else ""
    return f"{endpoint['model']}{revision} at {endpoint.get('base_url', '')}" if endpoint.get("model") else ""


def number_of(label: str) -> float:
    """Return a label as a number; a whole one as int, so that 4 and 4.0 are one value."""
    value = float(label)
    return int(value) if value.is_integer() else value
