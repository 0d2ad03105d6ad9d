"""Labellings: jobs in which the writer gives a label for each row of a benchmark, by a rule.

A labelling asks a row once and is never graded. Which rows it asks, the settings `rows` and `where` say, as for any
job. When it is done, its labels and those of earlier labellings of the same rows by the same rule and writer become the
newest labels of their field (`jobs/label_writer.py`). A row that was asked before costs nothing: its reply is stored.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from rwkv_daemon.catalogue import contents
from rwkv_daemon.catalogue.offered import NodeCatalogue
from rwkv_daemon.recipes.asked_problems import why_no_rows
from rwkv_daemon.recipes.writer_jobs import there_already, why_it_waits
from rwkv_daemon.remote.remote_model import RemoteModel
from rwkv_daemon.rules import work_keys
from rwkv_daemon.rules.plan import KindFact, SelectionError
from rwkv_daemon.scheduling.node_work import NodeWork
from rwkv_daemon.store import JobRow, NewJob
from rwkv_daemon.store.queries.jobs import OPEN, as_json
from rwkv_daemon.store.queries.recipes.labelling import failed_rows, labellings_of
from rwkv_data.definition.benchmark import Benchmark
from rwkv_data.definition.errors import DataError
from rwkv_data.definition.kind import Kind
from rwkv_data.labels import label_file
from rwkv_data.prepare import prepared_sets
from rwkv_data.writers.label_rule import LabelRule
from rwkvctl.protocol.endpoints import WRITER, path_of
from rwkvctl.protocol.errors import Exit, RefusedError
from rwkvctl.protocol.labels import LabellingRequest
from rwkvctl.protocol.states import Action, Reason

CONFIGURED = "labelling"
"""The part of a job's configuration that says by which rule it labels rows, and what the labels are called."""
STAGE = "label"
"""What the one stage of such a job is called."""


@dataclass(frozen=True, slots=True)
class PlannedLabelling:
    """What would become of a labelling of `rows` rows: a new job, or one that is there already (`job`). `to_ask`: rows
    that have no reply yet in the job."""

    benchmark: str
    kind: str
    settings: Mapping[str, str]
    limit: int | None
    field: str
    rows: int
    to_ask: int
    action: Action
    reason: Reason
    detail: str = ""
    job: str = ""
    new: NewJob | None = None


async def planned(
    work: NodeWork, catalogue: NodeCatalogue, request: LabellingRequest, rule: LabelRule
) -> PlannedLabelling:
    """Return what a labelling by a rule would be. Raises RefusedError if the rows cannot be labelled."""
    benchmark = catalogue.benchmarks.get(request.benchmark)
    field = request.field or rule.field
    fact = asked_rows(catalogue, benchmark, request)
    try:
        manifest = prepared_sets.current_manifest(catalogue.benchmarks.data_dir, benchmark)
        label_file.check_field(field, prepared_sets.fields_of(catalogue.benchmarks.data_dir, benchmark, manifest).kinds)
        label_file.check_writable(catalogue.benchmarks.data_dir, benchmark.name)
    except DataError as error:
        raise refusal("no-labels", f"{error}.", error.exit_code) from error
    if fact.rows is None:
        raise refusal("no-rows", f"{fact.rows_problem or 'its rows are not there'}.")
    rows = fact.rows if request.limit is None else min(fact.rows, request.limit)
    limit = None if request.limit is None or rows == fact.rows else request.limit
    what, writer = {"rule": rule.label, "field": field}, catalogue.endpoints.writer
    same = (benchmark.name, fact.kind, fact.settings, limit, field, rows)
    for known in await labellings_of(work.records.store, benchmark.name, fact.rows_sha256):
        mine = not writer or known.weights_sha256 in {"", writer.config.identity}
        if mine and what_of(known) == what and picked(known) == (dict(fact.settings), limit):
            if known.state not in OPEN and known.done >= known.total and await failed_rows(work.records.store, known):
                break  # they are asked again, and the others cost nothing
            left = max(0, rows - known.done)
            return PlannedLabelling(*same, left, *there_already(known, "labelling"), job=known.name)
    waits = why_it_waits(catalogue, writer, fact, fact.rows_sha256, disk_low=work.waiting.disk_low, is_graded=False)
    action, (reason, detail) = ("hold", waits) if waits else ("run", ("run", ""))
    new = new_job(fact, rule, what, (rows, limit), writer, waits)
    return PlannedLabelling(*same, rows, action, reason, detail, new=new)  # type: ignore[arg-type]  # of two literals


def asked_rows(catalogue: NodeCatalogue, benchmark: Benchmark, request: LabellingRequest) -> KindFact:
    """Return the kind whose rows are labelled, with the settings that pick them. Raises RefusedError."""
    if request.limit is not None and request.limit < 1:
        raise refusal("bad-limit", f"--limit must be at least 1, is {request.limit}.", Exit.USAGE)
    others = sorted(request.settings.keys() - {"rows", "where"})
    if others:
        raise refusal("not-a-pick", f"{others[0]} picks no rows: --set takes rows and where here.", Exit.USAGE)
    try:
        return contents.kind_fact(catalogue.benchmarks, benchmark, plain_kind(benchmark), request.settings)
    except SelectionError as error:
        raise refusal("bad-setting", f"{error}.", Exit.USAGE) from error


def plain_kind(benchmark: Benchmark) -> Kind:
    """Return the first kind that asks a row in one turn: as such a job a labelling is stored. Raises RefusedError."""
    for kind in benchmark.kinds.values():
        if not why_no_rows("", kind):
            return kind
    raise refusal(
        "not-a-conversation",
        f"{benchmark.name} has no kind that asks a row in one turn, such as free_response.chat, and is not labelled.",
    )


def what_of(job: JobRow) -> dict[str, Any]:
    """Return by which rule a labelling labels, and what its labels are called; empty for any other job."""
    found = msgspec.json.decode(job.configuration.encode(), type=dict[str, Any]).get(CONFIGURED)
    return found if isinstance(found, dict) else {}


def picked(job: JobRow) -> tuple[dict[str, str], int | None]:
    """Return which rows a labelling asks: its settings, and how many at most."""
    return msgspec.json.decode(job.settings.encode(), type=dict[str, str]), job.row_limit


def keys(what: Mapping[str, Any], fact: KindFact, limit: int | None, writer: RemoteModel | None) -> dict[str, str]:
    """Return what identifies a labelling by a writer: all empty while there is no writer."""
    if writer is None:
        return {"weights_sha256": "", "generation_key": "", "grade_key": ""}
    identity = writer.config.identity
    generation = work_keys.digest(
        CONFIGURED, what["rule"], what["field"], fact.rows_sha256, dict(fact.settings), limit, identity
    )
    return {"weights_sha256": identity, "generation_key": generation, "grade_key": work_keys.digest(generation)}


def new_job(
    fact: KindFact, rule: LabelRule, what: Mapping[str, str], size: tuple[int, int | None],
    writer: RemoteModel | None, waits: tuple[Reason, str] | None,
) -> NewJob:  # fmt: skip
    """Return a labelling as a new job. `size` is how many rows it asks, and the limit that was given."""
    reason, detail = waits or ("", "")
    rows, limit = size
    return NewJob(
        model=WRITER,
        weights_path=path_of(WRITER),
        benchmark=fact.benchmark,
        kind=fact.kind,
        state="held" if waits else "queued",
        reason=reason,
        detail=detail,
        priority=0,
        settings=as_json(dict(fact.settings)),
        configuration=as_json({CONFIGURED: dict(what), "stages": [{"name": STAGE}]}),
        benchmark_version=fact.benchmark_version,
        rows_sha256=fact.rows_sha256,
        seed=0,
        row_limit=limit,
        numerics="chat",
        repeats=1,
        stages=1,
        total=rows,
        run_log_dir="",
        group_name="",
        weights_inodes="",
        source_job=None,
        grader=rule.name,
        grader_version=str(rule.version),
        grading=as_json({}),
        **keys(what, fact, limit, writer),
    )


def refusal(code: str, sentence: str, exit_code: int = Exit.REFUSED) -> RefusedError:
    return RefusedError(code, sentence, "", exit_code)
