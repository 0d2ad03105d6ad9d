"""Answers about recipes of training data: what one would do, running it, its funnel and its rows."""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from rwkv_daemon.api.requests import plans
from rwkv_daemon.api.requests.job_control import find_job
from rwkv_daemon.api.requests.recipe_payments import payments
from rwkv_daemon.catalogue.contents import NodeBenchmarks
from rwkv_daemon.catalogue.offered import NodeCatalogue
from rwkv_daemon.changes.records import Records
from rwkv_daemon.node import Node
from rwkv_daemon.planning import forecast_facts, planner, recipe_cost
from rwkv_daemon.recipes import mix_parts, recipe_task, rewriting, row_order
from rwkv_daemon.recipes.asked_problems import why_no_rows
from rwkv_daemon.recipes.recipe_folder import RecipeFolder
from rwkv_daemon.recipes.row_order import SampleSource, sources_of
from rwkv_daemon.rules.page_size import page_size
from rwkv_daemon.rules.plan import Pair, Plan
from rwkv_daemon.store import JobRow, RecipeRow, StoreError, Transaction
from rwkv_daemon.store.queries.jobs import jobs_by_id
from rwkv_daemon.store.queries.recipes.graded_samples import verdicts_of
from rwkv_daemon.store.queries.recipes.stored_recipes import (
    add_recipe,
    get_recipe,
    newest_recipes,
)
from rwkv_data.definition.errors import DataError
from rwkv_data.recipes.mixing.mix import Mix, shares
from rwkv_data.recipes.recipe_file import MOST_JOBS, Recipe, SampleTable, recipe_of
from rwkv_data.writers import SPLIT_RULE
from rwkv_data.writers.split_rule import SplitRule
from rwkv_data.writers.writer_rule import WriterRule
from rwkvctl.protocol.errors import Exit, RefusedError
from rwkvctl.protocol.recipes import (
    MOST_VERDICTS,
    FunnelStageView,
    MixPartView,
    RecipeCheck,
    RecipePlanReply,
    RecipeReply,
    RecipeRequest,
    RecipeRowsReply,
    RecipeRowsRequest,
    RecipeRun,
    RecipeSourceView,
    RecipesReply,
    RecipesRequest,
    RecipeView,
    VerdictsReply,
    VerdictsRequest,
)
from rwkvctl.protocol.requests import Selection
from rwkvctl.text.quantities import several

MOST_BYTES: Final = 8_000_000
"""Bytes of rows in one reply, but for its first row."""
MOST_LISTED: Final = 100
PLANNED: Final = frozenset({"run", "hold", "resume"})
"""Actions of a plan that a dispatch carries out."""
THERE: Final = frozenset({"done", "queued", "held"})
"""Reasons for which a dispatch leaves out work that another job has, or will have."""


@dataclass(frozen=True, slots=True)
class RecipePlan:
    """A recipe, the jobs that it names, and a plan for each of its tables of samples."""

    recipe: Recipe
    named: list[JobRow]
    plans: list[tuple[Selection, Plan]]

    @property
    def pairs(self) -> list[Pair]:
        return [pair for _, plan in self.plans for pair in plan.pairs]


def read_recipe(toml: str) -> Recipe | Mix:
    """Return what a file says. Raises RefusedError if it cannot be read."""
    try:
        return recipe_of(toml)
    except DataError as error:
        raise RefusedError("bad-recipe", f"{error}.", "", Exit.USAGE) from error


async def planned(node: Node, recipe: Recipe) -> RecipePlan:
    """Return what a recipe would sample. Raises RefusedError if it names what does not exist."""
    named = [await find_job(node.records, name) for name in recipe.jobs]
    every = [selection_of(table) for table in recipe.sample]
    return RecipePlan(recipe, named, [(one, await plans.planned(node, one)) for one in every])


def selection_of(table: SampleTable) -> Selection:
    """Return a table of samples as a selection."""
    return Selection(
        models=table.models,
        only_datasets=table.datasets,
        only_jobs=table.kinds,
        limit=table.limit,
        seed=table.seed,
        settings={name: str(value) for name, value in table.settings.items()},
        numerics=table.numerics,
        priority=table.priority,
    )


def twins(pairs: Iterable[Pair]) -> dict[str, Pair]:
    """Return the pairs that a dispatch would run, by their grade keys: others may be the same work."""
    return {pair.grade_key: pair for pair in pairs if pair.grade_key and pair.row.action in PLANNED}


def problems_of(records: Records, catalogue: NodeCatalogue, found: RecipePlan) -> tuple[str, ...]:
    """Return why a recipe cannot be run, a sentence for each reason; empty if it can."""
    said = [f"[[sample]] {number} selects nothing" for number, (_, plan) in enumerate(found.plans, 1) if not plan.pairs]
    count, same = len(found.pairs) + len(found.named), twins(found.pairs)
    if count > MOST_JOBS:
        return (f"the recipe is of {count:,} jobs, and none is of more than {MOST_JOBS:,}",)
    for pair in found.pairs:
        row = pair.row
        kind = catalogue.benchmarks.kind_of(row.benchmark, row.kind)
        said.append(why_no_rows(f"{row.benchmark} of {row.model}", kind))
        there = row.reason in THERE and (row.job or pair.grade_key in same)
        if row.action not in PLANNED and not there:
            said.append(f"{row.model} {row.benchmark} {row.kind}: {row.detail}")
    for job in found.named:
        try:
            kind = catalogue.benchmarks.kind_of(job.benchmark, job.kind)
        except DataError as error:
            said.append(f"{job.name}: {error}")
        else:
            said.append(why_no_rows(job.name, kind))
        if job.labels_rows:
            said.append(f"{job.name} labels rows: it has no answers to train on")
        if job.has_variants:
            said.append(f"{job.name} holds shorter variants of samples: name j{job.source_job}, and fcs in [pairs]")
        elif (rule := first_rule(found.recipe)) is not None and job.state == "done":
            said.append(rewriting.why_not(records, catalogue, job, rule))
    return tuple(dict.fromkeys(filter(None, said)))


def first_rule(recipe: Recipe) -> WriterRule | SplitRule | None:
    """Return the rule by which a job of a recipe is rewritten or split first; None if it is not."""
    return recipe.rewrite or (SPLIT_RULE if recipe.needs_variants else None)


async def check(node: Node, request: RecipeCheck) -> RecipePlanReply:
    """Answer `POST /v1/recipes/check`: what would be sampled, the same work once, and what it costs."""
    recipe = read_recipe(request.toml)
    if isinstance(recipe, Mix):
        return await check_mix(node, recipe)
    found = await planned(node, recipe)
    problems = problems_of(node.records, node.catalogue, found)
    pairs = list({pair.grade_key or id(pair): pair for pair in reversed(found.pairs)}.values())[::-1][:MOST_JOBS]
    whole = Plan(tuple(pairs), 0, 0)
    estimated, ahead = await forecast_facts.with_estimates(node.work, whole, 0)
    there = [pair.row for pair in pairs if pair.row.job and pair.row.action not in {"run", "hold"}]
    numbers = list(dict.fromkeys([*(job.id for job in found.named), *(int(row.job[1:]) for row in there)]))
    jobs = {job.id: job for job in await jobs_by_id(node.records.store, numbers)}
    paid = [one for selection, plan in found.plans for one in await plans.cost_of(node, selection, plan)]
    to_sample = [pair for pair in pairs if not pair.row.job]
    paid += await recipe_cost.of_writer(node.work, node.catalogue, found.recipe, list(jobs.values()), to_sample)
    return RecipePlanReply(
        plan=tuple(pair.row for pair in estimated.pairs),
        sources=tuple(source_view(jobs[number]) for number in numbers if number in jobs),
        paid=tuple(paid),
        problems=problems,
        not_checked=not_checked(node.catalogue.benchmarks),
        eta_s=ahead.ends_s,
        not_estimated=ahead.unknown,
    )


async def check_mix(node: Node, mix: Mix) -> RecipePlanReply:
    """Return which rows would be mixed."""
    parts = await mix_parts.views(node.records, mix)
    without = not_checked(node.catalogue.benchmarks)
    problems = mix_parts.problems_of(parts)
    is_whole = all(part.state in mix_parts.THERE for part in parts)
    most = 0 if problems or not is_whole else sum(shares(mix.parts, [part.rows for part in parts]))
    return RecipePlanReply(parts=parts, most_rows=most, problems=problems, not_checked=without)


def not_checked(benchmarks: NodeBenchmarks) -> tuple[str, ...]:
    """Return the benchmarks with which rows cannot be compared, because theirs are not prepared."""
    every = sorted(benchmarks.all().values(), key=lambda one: one.name)
    return tuple(one.name for one in every if not one.training and benchmarks.manifest(one) is None)


async def run(node: Node, request: RecipeRun) -> RecipeReply:
    """Answer `POST /v1/recipes`: queue what is missing, and store the recipe."""
    recipe = read_recipe(request.toml)
    if isinstance(recipe, Mix):
        return await run_mix(node, request, recipe)
    for table in recipe.sample:
        await plans.valid(planner.try_out_endpoints(node.work, node.catalogue, selection_of(table)))
    async with node.records.owner:
        if node.records.trouble:
            raise StoreError(node.records.trouble)
        found = await planned(node, recipe)
        refuse(problems_of(node.records, node.catalogue, found))
        stored = await queued(node, request, found)
    node.records.wake.set()
    return RecipeReply(recipe=await view(node, stored))


def refuse(problems: Sequence[str]) -> None:
    """Raise RefusedError with the first of the problems, if there is one."""
    if problems:
        more = f" ({len(problems) - 1} more: `rwkvctl recipe check`)" if len(problems) > 1 else ""
        raise RefusedError("recipe-cannot-run", f"{problems[0]}{more}.", "Nothing was queued.", Exit.REFUSED)


async def run_mix(node: Node, request: RecipeRun, mix: Mix) -> RecipeReply:
    """Store a mix: nothing is sampled for it."""
    async with node.records.owner:
        refuse(mix_parts.problems_of(await mix_parts.views(node.records, mix)))
        async with node.records.change() as change:
            stored = await add_recipe(change.db, request.name or "recipe", request.toml, encoded(()))
            await recipe_task.note(change, stored, f"mixes {' and '.join(part.name for part in mix.parts)}", "waiting")
    node.records.wake.set()
    return RecipeReply(recipe=await view(node, stored))


async def queued(node: Node, request: RecipeRun, found: RecipePlan) -> RecipeRow:
    """Dispatch what is missing, a table after the other, as each may select what the one before has queued; the recipe
    is stored with the last dispatch, in its transaction."""
    numbers, stored = [job.id for job in found.named], list[RecipeRow]()
    for place, (selection, _) in enumerate(found.plans, 1):
        plan = await plans.planned(node, selection)
        runs = any(pair.row.action in PLANNED for pair in plan.pairs)

        async def remember(
            db: Transaction, _session: str, new: list[str], plan: Plan = plan, last: bool = place == len(found.plans)
        ) -> None:
            numbers.extend(planner.jobs_of(plan, new))
            if last:
                stored.append(await add_recipe(db, request.name or "recipe", request.toml, encoded(numbers)))

        if runs:
            await planner.dispatch(node.work, node.catalogue, selection, plan, remember)
        else:
            numbers.extend(planner.jobs_of(plan, ()))
    async with node.records.change() as change:
        if not stored:
            stored.append(await add_recipe(change.db, request.name or "recipe", request.toml, encoded(numbers)))
        text = f"waits for {several(len(sources_of(stored[0])), 'job')}"
        await recipe_task.note(change, stored[0], text, "waiting")
    return stored[0]


def encoded(numbers: Iterable[int]) -> str:
    """Return jobs as the store holds the sources of a recipe, each once."""
    return row_order.encoded([SampleSource(number) for number in dict.fromkeys(numbers)])


async def list_recipes(node: Node, request: RecipesRequest) -> RecipesReply:
    """Answer `GET /v1/recipes`: a page of recipes, newest first, at most `MOST_LISTED`, without what single jobs do."""
    limit = min(page_size(request.limit), MOST_LISTED)
    found = await newest_recipes(node.records.store, max(0, request.before), limit)
    return RecipesReply(
        items=tuple(brief_view(node, one) for one in found), next=found[-1].id if len(found) == limit else 0
    )


async def one_recipe(node: Node, request: RecipeRequest) -> RecipeReply:
    """Answer `GET /v1/recipes/{recipe}`: one recipe with its jobs, what they have paid, its file, and its card once its
    rows are made."""
    recipe = await find_recipe(node.records, request.recipe)
    seen = await view(node, recipe)
    result = await asyncio.to_thread(recipe_task.folder_of(node.records, recipe).result)
    card: dict[str, Any] = result.card if result is not None and recipe.state == "done" else {}
    paid = await payments(node, sources_of(recipe))
    return RecipeReply(recipe=msgspec.structs.replace(seen, paid=paid, toml=recipe.text, card=card))


async def find_recipe(records: Records, name: str) -> RecipeRow:
    """Return a recipe by its name (`r3`, or 3). Raises RefusedError if there is none."""
    number = name.removeprefix("r")
    recipe = await get_recipe(records.store, int(number)) if number.isdecimal() and len(number) < 18 else None
    if recipe is None:
        text = f"There is no recipe {name}."
        raise RefusedError("no-such-recipe", text, "`rwkvctl recipe list` lists them.", Exit.NOT_FOUND)
    return recipe


async def view(node: Node, recipe: RecipeRow) -> RecipeView:
    """Return a recipe with its jobs. Until it is done, its funnel is how far sampling is."""
    brief, sources = brief_view(node, recipe), sources_of(recipe)
    if (mix := mix_parts.mix_of(recipe)) is not None:
        parts = await mix_parts.views(node.records, mix)
        return msgspec.structs.replace(brief, parts=parts, funnel=brief.funnel or parts_so_far(parts))
    jobs = {job.id: job for job in await jobs_by_id(node.records.store, [source.job for source in sources])}
    views = tuple(source_view(jobs[one.job], one.grade_key) for one in sources if one.job in jobs)
    return msgspec.structs.replace(brief, sources=views, funnel=brief.funnel or so_far(views))


def brief_view(node: Node, recipe: RecipeRow) -> RecipeView:
    """Return a recipe as lists have it."""
    sources, mix = sources_of(recipe), mix_parts.mix_of(recipe)
    return RecipeView(
        recipe=recipe.called,
        name=recipe.name,
        state=recipe.state,
        detail=node.recipes.said_of(recipe.id) if recipe.state == "making" else recipe.detail,
        rows=recipe.rows,
        funnel=msgspec.json.decode(recipe.funnel, type=tuple[FunnelStageView, ...]),
        jobs=tuple(f"j{source.job}" for source in sources),
        mixes=tuple(part.name for part in mix.parts) if mix is not None else (),
        created=recipe.created,
        finished=recipe.finished,
    )


def parts_so_far(parts: Sequence[MixPartView]) -> tuple[FunnelStageView, ...]:
    """Return the funnel of a mix whose rows are not made: how many are there to be mixed."""
    count = sum(part.rows for part in parts)
    return (FunnelStageView(name="clean", unit="rows", rows_in=count, rows_out=0),)


def so_far(sources: Sequence[RecipeSourceView]) -> tuple[FunnelStageView, ...]:
    """Return the funnel of a recipe whose rows are not made: how far the jobs are that sample, those that rewrite, and
    those that make variants."""
    found = []
    for name, unit in (("sample", "samples"), ("rewrite", "samples"), ("split", "variants")):
        some = [one for one in sources if stage_of(one) == name]
        if some:
            every, done = sum(one.samples for one in some), sum(one.done for one in some)
            found.append(FunnelStageView(name=name, unit=unit, rows_in=every, rows_out=done))
    return tuple(found)


def stage_of(source: RecipeSourceView) -> str:
    """Return the stage of the funnel that a job is."""
    if not source.rewrites:
        return "sample"
    return "split" if source.variants else "rewrite"


def source_view(job: JobRow, grade_key: str = "") -> RecipeSourceView:
    """Return a job whose samples a recipe uses."""
    return RecipeSourceView(
        job=job.name, model=job.model, benchmark=job.benchmark, kind=job.kind, state=job.state, samples=job.total,
        done=job.done, right=job.right_sum, grade_key=grade_key,
        rewrites=f"j{job.source_job}" if job.source_job is not None else "", variants=job.has_variants,
    )  # fmt: skip


async def rows(records: Records, request: RecipeRowsRequest) -> RecipeRowsReply:
    """Answer `GET /v1/recipes/{recipe}/rows`. Raises RefusedError if there are none."""
    recipe = await find_recipe(records, request.recipe)
    if recipe.state != "done":
        hint = f"`rwkvctl recipe show {recipe.called}` says how far it is."
        raise RefusedError("no-rows", f"{recipe.called} has no rows yet: it is {recipe.state}.", hint, Exit.REFUSED)
    folder = recipe_task.folder_of(records, recipe)
    try:
        lines, end, count = await asyncio.to_thread(read, folder, request)
    except OSError as error:
        text = f"The rows of {recipe.called} cannot be read: {error.strerror or error}."
        hint = "`rwkvctl recipe run` makes them again, from the same samples or rows."
        raise RefusedError("rows-gone", text, hint, Exit.REFUSED) from error
    return RecipeRowsReply(items=tuple(map(msgspec.Raw, lines)), next=end if end < count else -1)


def read(folder: RecipeFolder, request: RecipeRowsRequest) -> tuple[list[bytes], int, int]:
    """Return lines, the number of the one after them, and how many there are. Raises OSError."""
    with folder.lines("dropped" if request.dropped else "rows") as found:
        first = max(0, min(request.first, len(found)))
        lines = list(found.some(first, page_size(request.limit), MOST_BYTES))
        return lines, first + len(lines), len(found)


async def verdicts(records: Records, request: VerdictsRequest) -> VerdictsReply:
    """Answer `POST /v1/verdicts`: whether each sample is right under its grade key. Raises RefusedError if more than
    `MOST_VERDICTS` are asked for."""
    if len(request.samples) > MOST_VERDICTS:
        text = f"{len(request.samples):,} samples are asked for, and at most {MOST_VERDICTS:,} can be."
        raise RefusedError("bad-request", text, "", Exit.USAGE)
    places = list(dict.fromkeys((one.job, one.row, one.repeat) for one in request.samples))
    known = await verdicts_of(records.store, places) if places else {}
    values = (known.get((one.job, one.row, one.repeat, one.grade_key)) for one in request.samples)
    return VerdictsReply(right=tuple(None if value is None else value >= 1 for value in values))
