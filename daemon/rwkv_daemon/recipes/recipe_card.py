"""The card of what a recipe has made: where the rows come from, how they were sampled, and what that took."""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from rwkv_daemon.recipes.rewriting import what_of
from rwkv_daemon.recipes.row_order import RowOrder
from rwkv_daemon.recipes.sampled_problems import Sampled
from rwkv_daemon.remote.server_reply import TokenUsage
from rwkv_daemon.store import JobRow
from rwkv_daemon.store.interface import StoreReader
from rwkv_daemon.store.queries.recipes.graded_samples import tokens_of
from rwkv_daemon.store.queries.verdicts import paid_by, paid_to, payers_known_since
from rwkv_data.definition import row_filter
from rwkv_data.labels.label_file import labels_of
from rwkv_data.recipes.cleaning.checked_benchmarks import CheckedBenchmarks
from rwkv_data.recipes.files.file_card import FileCard, RowSource
from rwkv_data.recipes.funnel import FunnelStage
from rwkv_data.recipes.recipe_file import Recipe
from rwkv_data.recipes.selection.selector import Selector
from rwkvctl import __version__
from rwkvctl.protocol.endpoints import payee
from rwkvctl.text.quantities import money


async def costs(reader: StoreReader, sampled: Sampled) -> dict[str, str]:
    """Return what the recipe has taken: the tokens of each job's samples, and what all of them have paid to whom."""
    jobs = _jobs(sampled)
    found = dict[str, str]()
    for job in jobs:
        if not job.has_variants:  # theirs are those of the variants, not those that the writer was paid for
            prompt, generated = await tokens_of(reader, job.id)
            found[f"tokens of {job.name}"] = f"{prompt:,} of prompts, {generated:,} generated"
    since = await payers_known_since(reader)
    earlier = "" if all(job.queued >= since for job in jobs) else f", and what was paid before {since[:10]}"
    total = paid_to(await paid_by(reader, [job.name for job in jobs]))
    return found | {f"paid to {payee(service)}": f"{price(usage)}{earlier}" for service, usage in total.items()}


def price(usage: TokenUsage) -> str:
    """Return what was paid, in words. A price that is not set is 0."""
    return (
        f"{money(usage.cost)} for {usage.tokens:,} tokens" if usage.cost else f"{usage.tokens:,} tokens, price not set"
    )


def _jobs(sampled: Sampled) -> list[JobRow]:
    """The jobs of the recipe, and behind each rewriting the one that it rewrites."""
    pairs = ((source, source.original) for source in sampled.sources)
    every = [one.job for pair in pairs for one in pair if one is not None]
    return list({job.id: job for job in every}.values())


def card(
    order: RowOrder,
    recipe: Recipe,
    sampled: Sampled,
    costs: Mapping[str, str],
    funnel: Sequence[FunnelStage],
    checked: CheckedBenchmarks,
) -> dict[str, Any]:
    """Return the card as plain values. Nothing of it is a time, so that the same recipe gives the same card."""
    jobs = _jobs(sampled)
    sets = {asked.of.asked[:2]: asked.of for asked in sampled.asked}
    seeds = {f"sampling of {job.name}": job.seed for job in jobs}
    graders = {f"grader of {job.name}": f"{job.grader} {job.grader_version}" for job in jobs}
    found = FileCard(
        title=order.name or "training rows",
        funnel=funnel,
        sources=[RowSource(of.job.benchmark, of.licence, of.job.rows_sha256, of.source) for of in sets.values()],
        sampling={f"{job.name} {job.model}": dict(_sampling(job, Path(order.data_dir))) for job in jobs},
        costs=costs,
        seeds=seeds | _drawn(recipe),
        cleaning=dict(cleaning_of(checked)),
        versions={"rwkvctl": __version__} | graders,
    )  # fmt: skip
    plain: dict[str, Any] = msgspec.to_builtins(found)
    return plain


def _drawn(recipe: Recipe) -> dict[str, int]:
    """The seed by which samples were drawn, if they were."""
    selector = recipe.taking
    return {"selection": selector.seed} if isinstance(selector, Selector) and selector.rule == "k-correct" else {}


def cleaning_of(checked: CheckedBenchmarks) -> Iterator[tuple[str, str]]:
    """Yield each benchmark with how rows were compared with it."""
    for index in checked.indexes:
        have, whole = checked.in_part.get(index.name, (0, 0))
        yield index.name, f"{have:,} of its {whole:,} rows" if whole else "all of its rows"
    yield from ((name, f"not compared: {why}") for name, why in checked.not_checked.items())


def _sampling(job: JobRow, data_dir: Path) -> Iterator[tuple[str, str]]:
    settings = json.loads(job.settings)
    yield "benchmark", f"{job.benchmark} {job.kind}"
    yield from ((name, str(value)) for name, value in settings.items())
    where = row_filter.parse(settings.get("where", ""))
    named = {settings.get("order", ""), *(where.fields if where else ())}
    for one in labels_of(data_dir, job.benchmark, job.rows_sha256) if named != {""} else ():
        if one.name in named:
            yield f"labels {one.name}", f"{one.labels.rule} from {one.labels.source}"
    yield "samples of a problem", str(job.repeats)
    if job.source_job is not None:
        yield "rewrites", f"j{job.source_job} by {what_of(job)['rule']}"
        return
    yield "numerics", job.numerics
    for stage in json.loads(job.configuration)["stages"]:
        yield from ((name, str(value)) for name, value in stage.get("sampling", {}).items() if value not in ([], -1))
