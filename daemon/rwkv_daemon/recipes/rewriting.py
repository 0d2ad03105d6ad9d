"""Rewritings: jobs whose completions the writer makes of the right samples of a finished job.

A rewriting asks the same rows as its source and is graded as that is; what it rewrites is fixed by the grade that the
source has when the rewriting is queued. By a rule that splits completions its repeats are variants of a row's shortest
right completion.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from rwkv_daemon.catalogue import contents, second_names
from rwkv_daemon.catalogue.offered import NodeCatalogue
from rwkv_daemon.changes.records import Records
from rwkv_daemon.recipes.asked_problems import why_no_rows
from rwkv_daemon.recipes.writer_jobs import there_already, why_it_waits
from rwkv_daemon.remote.remote_model import RemoteModel
from rwkv_daemon.rules import work_keys
from rwkv_daemon.rules.plan import KindFact, SelectionError
from rwkv_daemon.scheduling.node_work import NodeWork
from rwkv_daemon.store import JobRow, NewJob
from rwkv_daemon.store.queries.jobs import as_json
from rwkv_daemon.store.queries.recipes.rewriting import RightSamples, rewritings_of, right_samples, shortest_of_several
from rwkv_data.definition.errors import DataError
from rwkv_data.recipes.selection.thought_variants import VARIANT_RULES
from rwkv_data.writers.split_rule import SplitRule
from rwkv_data.writers.writer_rule import WriterRule
from rwkvctl.protocol.endpoints import WRITER, path_of
from rwkvctl.protocol.errors import RefusedError
from rwkvctl.protocol.recipes import RewriteView
from rwkvctl.protocol.states import Action, Reason

CONFIGURED = "rewriting"
"""The part of a job's configuration that says what it rewrites, and by which rule."""


KEYED = ("job", "generation_key", "grade_key", "rule")
"""What of it enters the generation key. The job does, as its samples are what the lineage names."""


@dataclass(frozen=True, slots=True)
class PlannedRewriting:
    """What would become of a source: a new job, or one that is there already (`job`). `right`: the samples that are
    rewritten, or split."""

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


async def planned(
    work: NodeWork, catalogue: NodeCatalogue, source: JobRow, rule: WriterRule | SplitRule
) -> PlannedRewriting:
    """Return what a rewriting of a job by a rule would be. Raises RefusedError if the job cannot be rewritten."""
    fact = rewritable(work.records, catalogue, source, rule)
    right = await to_rewrite(work.records, source, rule)
    writer = catalogue.endpoints.writer
    what = of_source(source, rule.label)
    for known in await rewritings_of(work.records.store, source.id):
        if is_of(known, source, rule) and (not writer or known.weights_sha256 in {"", writer.config.identity}):
            return PlannedRewriting(source, right, *there_already(known, "rewriting"), job=known.name)
    waits = why_it_waits(catalogue, writer, fact, source.rows_sha256, disk_low=work.waiting.disk_low, is_graded=True)
    action, (reason, detail) = ("hold", waits) if waits else ("run", ("run", ""))
    new = new_job(source, fact, what, writer, waits)
    if isinstance(rule, SplitRule):
        repeats = len(VARIANT_RULES)
        new = replace(new, repeats=repeats, total=source.total // source.repeats * repeats)
    return PlannedRewriting(source, right, action, reason, detail, new=new)  # type: ignore[arg-type]  # of two literals


async def to_rewrite(records: Records, source: JobRow, rule: WriterRule | SplitRule) -> RightSamples:
    """Return how many samples of a job a rule is for at most, and their tokens. Raises RefusedError if there are
    none."""
    if isinstance(rule, SplitRule):
        shortest = await shortest_of_several(records.store, source.id, source.grade_key)
        if not shortest.samples:
            text = f"No problem of {source.name} has two right samples of different lengths: there is nothing to split."
            raise RefusedError("nothing-to-split", text)
        return shortest
    right = await right_samples(records.store, source.id, source.grade_key)
    if not right.samples:
        raise RefusedError("nothing-right", f"No sample of {source.name} is right: there is nothing to rewrite.")
    return right


def rewritable(records: Records, catalogue: NodeCatalogue, source: JobRow, rule: WriterRule | SplitRule) -> KindFact:
    """Return how a job is graded now. Raises RefusedError with the reason if it cannot be rewritten."""
    if source.has_variants:
        text = f"{source.name} holds shorter variants of the samples of j{source.source_job}: name that job."
        raise RefusedError("has-variants", text)
    if source.source_job is not None and not isinstance(rule, SplitRule):
        raise RefusedError("is-rewriting", f"{source.name} is a rewriting itself: rewrite j{source.source_job}.")
    if source.labels_rows:
        raise RefusedError("is-labelling", f"{source.name} labels rows: it has no answers to rewrite.")
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


def why_not(records: Records, catalogue: NodeCatalogue, source: JobRow, rule: WriterRule | SplitRule) -> str:
    """Return why a job cannot be rewritten by a rule; empty if it can."""
    try:
        rewritable(records, catalogue, source, rule)
    except RefusedError as error:
        return str(error).rstrip(".")
    return ""


def of_source(source: JobRow, rule: str) -> dict[str, Any]:
    """Return what the configuration of a rewriting says of its source and its rule (`thought-solution/1`)."""
    return {
        "rule": rule, "job": source.name, "model": source.model, "generation_key": source.generation_key,
        "grade_key": source.grade_key,
    }  # fmt: skip


def is_of(job: JobRow, source: JobRow, rule: WriterRule | SplitRule) -> bool:
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
