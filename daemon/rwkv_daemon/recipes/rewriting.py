"""Rewritings: jobs whose completions the writer makes of the right samples of a finished job.

A rewriting asks the same rows as its source and is graded as that is; what it rewrites is fixed by the grade that the
source has when the rewriting is queued. It is a job of the model `writer`, which is reached as models behind endpoints
are, so pauses, outages, budgets, retries and regrading need nothing of their own.
"""

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import msgspec

from rwkv_daemon.catalogue import contents, second_names
from rwkv_daemon.catalogue.offered import NodeCatalogue
from rwkv_daemon.changes.records import Records
from rwkv_daemon.host.source_commit import source_commit
from rwkv_daemon.jobs.pause_resume import resume_in
from rwkv_daemon.recipes.asked_problems import why_no_rows
from rwkv_daemon.remote.remote_model import RemoteModel
from rwkv_daemon.rules import work_keys
from rwkv_daemon.rules.plan import KindFact, SelectionError
from rwkv_daemon.scheduling.node_work import NodeWork
from rwkv_daemon.store import JobRow, NewJob
from rwkv_daemon.store.queries.jobs import OPEN, add_jobs, add_session, as_json, get_job
from rwkv_daemon.store.queries.recipes.rewriting import RightSamples, rewritings_of, right_samples
from rwkv_daemon.workers.crash_points import crash_point
from rwkv_data.definition.errors import DataError
from rwkv_data.writers.writer_rule import WriterRule
from rwkvctl import __version__
from rwkvctl.protocol.endpoints import WRITER, path_of
from rwkvctl.protocol.errors import RefusedError
from rwkvctl.protocol.recipes import RewriteView
from rwkvctl.protocol.requests import Selection
from rwkvctl.protocol.states import Action, Reason
from rwkvctl.text.quantities import several

CONFIGURED = "rewriting"
"""The part of a job's configuration that says what it rewrites, and by which rule."""


KEYED = ("job", "generation_key", "grade_key", "rule")
"""What of it enters the generation key. The job does, as its samples are what the lineage names."""


@dataclass(frozen=True, slots=True)
class PlannedRewriting:
    """What would become of a source: a new job, or one that is there already (`job`)."""

    source: JobRow
    right: RightSamples
    action: Action
    reason: Reason
    detail: str = ""
    job: str = ""
    new: NewJob | None = None

    def view(self, queued: str) -> RewriteView:
        """Return it as clients see it; `queued` is the job that it has become, if it has."""
        return RewriteView(
            source=self.source.name, action=self.action, reason=self.reason, detail=self.detail,
            job=self.job or queued, right=self.right.samples, samples=self.source.total,
        )  # fmt: skip


async def planned(work: NodeWork, catalogue: NodeCatalogue, source: JobRow, rule: WriterRule) -> PlannedRewriting:
    """Return what a rewriting of a job by a rule would be. Raises RefusedError if the job cannot be rewritten."""
    fact = rewritable(work.records, catalogue, source)
    right = await right_samples(work.records.store, source.id, source.grade_key)
    if not right.samples:
        raise RefusedError("nothing-right", f"No sample of {source.name} is right: there is nothing to rewrite.")
    writer = catalogue.endpoints.writer
    what = of_source(source, rule.label)
    for known in await rewritings_of(work.records.store, source.id):
        if is_of(known, source, rule) and (not writer or known.weights_sha256 in {"", writer.config.identity}):
            return there_already(source, right, known)
    waits = why_it_waits(catalogue, writer, fact, source.rows_sha256, disk_low=work.waiting.disk_low)
    action, (reason, detail) = ("hold", waits) if waits else ("run", ("run", ""))
    new = new_job(source, fact, what, writer, waits)
    return PlannedRewriting(source, right, action, reason, detail, new=new)  # type: ignore[arg-type]  # of two literals


def rewritable(records: Records, catalogue: NodeCatalogue, source: JobRow) -> KindFact:
    """Return how a job is graded now. Raises RefusedError with the reason if it cannot be rewritten."""
    if source.source_job is not None:
        raise RefusedError("is-rewriting", f"{source.name} is a rewriting itself: rewrite j{source.source_job}.")
    if source.state != "done":
        raise RefusedError("not-done", f"{source.name} is {source.state}; it can be rewritten when it is done.")
    if second_names.is_same_work(source):
        raise RefusedError("same-work", f"{source.name} has no completions of its own: it {source.detail}.")
    try:
        benchmark = catalogue.benchmarks.get(source.benchmark)
        kind = catalogue.benchmarks.kind_of(source.benchmark, source.kind)
        settings = msgspec.json.decode(source.settings.encode(), type=dict[str, str])
        fact = contents.kind_fact(catalogue.benchmarks, benchmark, kind, settings)
    except (DataError, SelectionError) as error:
        raise RefusedError("no-such-kind", f"{source.name}: {error}") from error
    if problem := why_no_rows(source.name, kind):
        raise RefusedError("not-a-conversation", f"{problem}.")
    if fact.rows_sha256 != source.rows_sha256:
        raise RefusedError(
            "other-rows", f"The rows of {source.benchmark} are not those that {source.name} asked.",
            f"`rwkvctl data prepare {source.benchmark}` with the same source brings them back.",
        )  # fmt: skip
    if not records.folder(source.id).path.is_dir():
        raise RefusedError("no-completions", f"The completions of {source.name} are not on this node.")
    return fact


def why_not(records: Records, catalogue: NodeCatalogue, source: JobRow) -> str:
    """Return why a job cannot be rewritten; empty if it can."""
    try:
        rewritable(records, catalogue, source)
    except RefusedError as error:
        return str(error).rstrip(".")
    return ""


def there_already(source: JobRow, right: RightSamples, known: JobRow) -> PlannedRewriting:
    """Return a rewriting that is there already: it goes on if it was stopped or has failed."""
    if known.state == "done":
        return PlannedRewriting(source, right, "skip", "done", f"{known.name} is the rewriting", known.name)
    if known.state in OPEN:
        return PlannedRewriting(source, right, "skip", "queued", f"{known.name} is {known.state}", known.name)
    detail = f"{known.name} has {known.done} of {known.total} samples"
    return PlannedRewriting(source, right, "resume", "resume", detail, known.name)


def of_source(source: JobRow, rule: str) -> dict[str, Any]:
    """Return what the configuration of a rewriting says of its source and its rule (`thought-solution/1`)."""
    return {
        "rule": rule, "job": source.name, "model": source.model, "generation_key": source.generation_key,
        "grade_key": source.grade_key,
    }  # fmt: skip


def is_of(job: JobRow, source: JobRow, rule: WriterRule) -> bool:
    """Whether a job rewrites a source as that is graded now, by this version of a rule."""
    return what_of(job) == of_source(source, rule.label)


def what_of(job: JobRow) -> dict[str, Any]:
    """Return what a rewriting rewrites and by which rule, as `of_source` said it."""
    found = msgspec.json.decode(job.configuration.encode(), type=dict[str, Any]).get(CONFIGURED)
    return found if isinstance(found, dict) else {}


def keys(what: Mapping[str, Any], fact: KindFact, writer: RemoteModel | None) -> dict[str, str]:
    """Return what identifies a rewriting by a writer: all empty while there is no writer."""
    if writer is None:
        return {"weights_sha256": "", "generation_key": "", "grade_key": ""}
    identity = writer.config.identity
    generation = work_keys.digest(CONFIGURED, *(what[name] for name in KEYED), identity)
    graded = work_keys.grade_key(generation, fact.grader, fact.grader_version, fact.grading)
    return {"weights_sha256": identity, "generation_key": generation, "grade_key": graded}


def grading(fact: KindFact) -> dict[str, str]:
    """Return the columns that say how a job is graded."""
    return {
        "grader": fact.grader, "grader_version": fact.grader_version, "grading": as_json(dict(fact.grading)),
    }  # fmt: skip


def why_it_waits(
    catalogue: NodeCatalogue, writer: RemoteModel | None, fact: KindFact, rows_sha256: str, *, disk_low: bool
) -> tuple[Reason, str] | None:
    """Return (reason, detail) if a rewriting cannot begin now; None if it can."""
    if writer is None:
        return "writer-not-configured", ""
    if fact.rows_sha256 != rows_sha256:
        return "data-missing", f"its rows are not there, or were replaced: rwkvctl data prepare {fact.benchmark}"
    if fact.judged and not catalogue.benchmarks.judge:
        return "judge-not-configured", ""
    return ("disk-low", "") if disk_low else None


def new_job(
    source: JobRow,
    fact: KindFact,
    what: Mapping[str, Any],
    writer: RemoteModel | None,
    waits: tuple[Reason, str] | None,
) -> NewJob:
    """Return a rewriting as a new job."""
    configuration = msgspec.json.decode(source.configuration.encode(), type=dict[str, Any])
    reason, detail = waits or ("", "")
    return NewJob(
        model=WRITER,
        weights_path=path_of(WRITER),
        benchmark=source.benchmark,
        kind=source.kind,
        state="held" if waits else "queued",
        reason=reason,
        detail=detail,
        priority=source.priority,
        settings=source.settings,
        configuration=as_json(configuration | {CONFIGURED: dict(what)}),
        benchmark_version=source.benchmark_version,
        rows_sha256=source.rows_sha256,
        seed=source.seed,
        row_limit=source.row_limit,
        numerics="chat",
        repeats=source.repeats,
        stages=source.stages,
        total=source.total,
        run_log_dir="",
        group_name=source.group_name,
        source_job=source.id,
        **grading(fact),
        **keys(what, fact, writer),
    )


async def queue(work: NodeWork, plans: Sequence[PlannedRewriting]) -> list[str]:
    """Queue rewritings as one session, and let those go on that were stopped; returns the name of each job."""
    new = [plan.new for plan in plans if plan.new is not None]
    goes_on = [job for plan in plans if plan.action == "resume" and (job := await by_name(work, plan.job)) is not None]
    session = f"{datetime.now(UTC):%Y%m%d_%H%M%S}_{secrets.token_hex(2)}"
    selection = Selection(models=(WRITER,), disable_checker=True)
    crash_point("before-dispatch-commit")
    async with work.records.change() as change:
        fresh = iter(list[str]())
        if new:
            versions = (__version__, source_commit())
            selected = msgspec.json.encode(selection).decode()
            await add_session(change.db, session, selected, work.records.hostname, versions)
            fresh = iter([f"j{number}" for number in await add_jobs(change.db, session, new)])
        for job in goes_on:
            await resume_in(work.waiting, work.running, work.engines, change, job)
        names = [next(fresh) if plan.new is not None else plan.job for plan in plans]
        text = f"{several(len(new), 'rewriting')} queued, {len(goes_on):,} resumed"
        await change.note("session", session=session if new else "", text=text, data={"jobs": names})
    crash_point("after-dispatch-commit")
    return names


async def by_name(work: NodeWork, name: str) -> JobRow | None:
    return await get_job(work.records.store, int(name[1:]))
