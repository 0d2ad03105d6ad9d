"""What the writer would be asked for a recipe, and about what that costs, before anything is sent."""

from collections.abc import Mapping, Sequence

import msgspec

from rwkv_daemon.catalogue.offered import NodeCatalogue
from rwkv_daemon.planning import endpoint_cost
from rwkv_daemon.recipes import rewriting
from rwkv_daemon.rules.plan import Pair
from rwkv_daemon.scheduling.node_work import NodeWork
from rwkv_daemon.store import JobRow
from rwkv_daemon.store.queries.jobs import get_job
from rwkv_daemon.store.queries.recipes.rewriting import RightSamples
from rwkv_data.recipes.recipe_file import Recipe
from rwkv_data.writers import SPLIT_RULE
from rwkv_data.writers.split_rule import SplitRule
from rwkv_data.writers.writer_rule import WriterRule
from rwkvctl.protocol.errors import RefusedError
from rwkvctl.protocol.views import PaidView

PLANNED = frozenset({"run", "hold", "resume"})
"""Actions of a rewriting for which the writer is asked."""


async def of_writer(
    work: NodeWork, catalogue: NodeCatalogue, recipe: Recipe, jobs: Sequence[JobRow], to_sample: Sequence[Pair]
) -> list[PaidView]:
    """Return what rewriting and splitting would cost: of jobs that are there, and of what is yet to be sampled."""
    paid = []
    if recipe.rewrite is not None:
        paid.append(await of_rewriting(work, catalogue, recipe.rewrite, jobs, to_sample))
    if recipe.needs_variants:
        paid.append(await of_splitting(work, catalogue, recipe, jobs, to_sample))
    return [one for one in paid if one is not None]


async def of_rewriting(
    work: NodeWork, catalogue: NodeCatalogue, rule: WriterRule, jobs: Sequence[JobRow], to_sample: Sequence[Pair]
) -> PaidView | None:
    """Return what rewriting would cost at most: of the right samples of jobs that are done, and of all samples of
    others, as nobody knows how many will be right."""
    right = [await asked_about(work, catalogue, job, rule) for job in jobs if job.state == "done"]
    unknown = sum(job.total for job in jobs if job.state != "done") + sum(pair.row.samples or 0 for pair in to_sample)
    return await endpoint_cost.of_rewriting(work.records, catalogue, right, rule, unknown=unknown)


async def of_splitting(
    work: NodeWork, catalogue: NodeCatalogue, recipe: Recipe, jobs: Sequence[JobRow], to_sample: Sequence[Pair]
) -> PaidView | None:
    """Return about what splitting into thoughts costs: of one completion of each problem that has two right ones; of
    what is yet to be sampled, or to be rewritten first, of every problem, with the longest completion."""
    shortest = [
        longest(catalogue, pair.kind.benchmark, pair.kind.kind, pair.kind.settings, pair.row.samples, pair.kind.repeats)
        for pair in to_sample
    ]
    for job in jobs:
        ready = await rewritten_already(work, catalogue, recipe, job) if job.state == "done" else None
        if ready is None:
            settings = msgspec.json.decode(job.settings.encode(), type=dict[str, str])
            shortest.append(longest(catalogue, job.benchmark, job.kind, settings, job.total, job.repeats))
        else:
            shortest.append(await asked_about(work, catalogue, ready, SPLIT_RULE))
    return await endpoint_cost.of_splitting(work.records, catalogue, shortest)


async def asked_about(
    work: NodeWork, catalogue: NodeCatalogue, job: JobRow, rule: WriterRule | SplitRule
) -> RightSamples:
    """Return the samples of a done job about which the writer would be asked: none if it cannot be rewritten, which the
    problems of the plan say, or if that is there already."""
    try:
        plan = await rewriting.planned(work, catalogue, job, rule)
    except RefusedError:
        return RightSamples(0, 0)
    return plan.right if plan.action in PLANNED else RightSamples(0, 0)


async def rewritten_already(work: NodeWork, catalogue: NodeCatalogue, recipe: Recipe, job: JobRow) -> JobRow | None:
    """Return the job whose completions are split: a done one itself if it is not rewritten first, else its rewriting
    once that is done; None before."""
    if recipe.rewrite is None or job.source_job is not None:
        return job
    try:
        plan = await rewriting.planned(work, catalogue, job, recipe.rewrite)
    except RefusedError:
        return job
    return await get_job(work.records.store, int(plan.job[1:])) if plan.reason == "done" else None


def longest(
    catalogue: NodeCatalogue, benchmark: str, kind: str, settings: Mapping[str, str], samples: int | None, repeats: int
) -> RightSamples:
    """Return one completion for each problem that is asked more than once, as long as it may be."""
    problems = (samples or 0) // repeats if repeats > 1 else 0
    stages = catalogue.benchmarks.kind_of(benchmark, kind).with_known_settings(settings).stages
    return RightSamples(problems, problems * stages[-1].sampling.max_tokens)
