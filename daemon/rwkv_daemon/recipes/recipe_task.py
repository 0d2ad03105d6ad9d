"""What becomes of recipes: they wait until their jobs are done, then a process makes their rows, one recipe at a time.
A recipe that rewrites has a rewriting queued for each job once that is done, and waits for those; one whose pairs are
made of thoughts has the variants of each job made beside it.

A recipe keeps the grade that a job had when it was first done: a job that is graded again later changes none of its
rows. The process ends with the daemon; the next daemon starts it again, and it makes the same rows.
"""

import asyncio
import contextlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec

from rwkv_daemon.catalogue.offered import NodeCatalogue
from rwkv_daemon.changes.change import Change
from rwkv_daemon.changes.records import Records
from rwkv_daemon.host.daemon_log import log
from rwkv_daemon.recipes import mix_parts, rewriting, writer_jobs
from rwkv_daemon.recipes.recipe_folder import RecipeFolder
from rwkv_daemon.recipes.recipe_pause import settle
from rwkv_daemon.recipes.row_order import AGAIN, RowOrder, SampleSource, encoded, sources_of
from rwkv_daemon.scheduling.node_work import NodeWork
from rwkv_daemon.store import RecipeRow, StoreError
from rwkv_daemon.store.location import daemon_name, store_place
from rwkv_daemon.store.queries.jobs import get_job
from rwkv_daemon.store.queries.recipes.stored_recipes import (
    SourceJob,
    get_recipe,
    measured_same,
    recipes_in,
    source_jobs,
    update_recipe,
)
from rwkv_daemon.store.read_lanes import OwnLock
from rwkv_daemon.store.wall_time import now
from rwkv_daemon.workers import tied_process
from rwkv_daemon.workers.crash_points import crash_point
from rwkv_data.recipes.mixing.mix import Mix
from rwkv_data.recipes.recipe_file import Recipe, recipe_of
from rwkv_data.writers import SPLIT_RULE
from rwkv_data.writers.split_rule import SplitRule
from rwkv_data.writers.writer_rule import WriterRule
from rwkvctl.protocol.errors import RefusedError
from rwkvctl.protocol.states import REASONS, RecipeState
from rwkvctl.settings import config

LOOK_S: Final = 1.0
AGAIN_S: Final = 10.0
SHARE: Final = 20
"""A look that takes long is followed by a pause of so many times its length."""
MOST_TRIES: Final = 30
MOST_ERRORS: Final = 8000
LONGEST: Final = 400
"""Characters of what a process says."""

LONGEST_REST_S: Final = 5.0
DERIVED_AT_ONCE: Final = 50
"""Jobs of one recipe for which work is queued at one look: a change by an operator waits until it ends."""


@dataclass(slots=True)
class RecipeWork:
    """The recipe whose rows are being made (0: none is), and what its process says."""

    recipe: int = 0
    says: str = ""
    process: asyncio.subprocess.Process | None = None
    stopped: bool = False
    """Whether an operator has stopped it: then it does not matter how the process ends."""
    tries: dict[int, tuple[int, float]] = field(default_factory=dict)
    """How often each recipe could not be made because something was missing, and when it may be tried again."""
    looking: OwnLock = field(default_factory=OwnLock)
    """Held while work is queued for a recipe, and while an operator changes one: what was queued for a recipe is among
    its sources then."""
    settled: bool = False
    """False after a change by an operator: the jobs that are paused with recipes have to be checked again."""

    def said_of(self, recipe: int) -> str:
        """Return what the process says that makes the rows of this recipe; empty if there is none."""
        return self.says if self.recipe == recipe else ""

    def may_try(self, recipe: int) -> bool:
        """Whether it is not too early to try a recipe again."""
        return time.monotonic() >= self.tries.get(recipe, (0, 0.0))[1]

    def try_again(self, recipe: int) -> bool:
        """Note that a recipe has to wait; returns whether it is worth another try."""
        count = self.tries.get(recipe, (0, 0.0))[0] + 1
        self.tries[recipe] = count, time.monotonic() + AGAIN_S
        return count < MOST_TRIES

    def end(self, recipe: int) -> None:
        """Kill the process if it makes the rows of this recipe."""
        if self.recipe == recipe:
            self.stopped = True
            self.kill()

    def kill(self) -> None:
        """Kill the process if there is one."""
        if self.process is not None and self.process.returncode is None:
            self.process.kill()


def folder_of(records: Records, recipe: RecipeRow) -> RecipeFolder:
    """Return the folder of a recipe."""
    return RecipeFolder(records.config.home / "recipes" / recipe.called)


async def make_forever(node: NodeWork, catalogue: NodeCatalogue, work: RecipeWork) -> None:
    """Take every recipe as far as it can go, until cancelled. While there is too little disk space, no rows are
    made."""
    records, waiting = node.records, node.waiting
    making: asyncio.Task[None] | None = None
    async with asyncio.TaskGroup() as tasks:
        while True:
            began = time.monotonic()
            with contextlib.suppress(StoreError):
                await look_at_all(node, catalogue, work)
                ready = [one for one in await recipes_in(records.store, ("making",)) if work.may_try(one.id)]
                if ready and not waiting.disk_low and (making is None or making.done()):
                    making = tasks.create_task(make(records, work, ready[0]), name=f"rows of {ready[0].called}")
            await asyncio.sleep(min(LONGEST_REST_S, max(LOOK_S, SHARE * (time.monotonic() - began))))


async def look_at_all(node: NodeWork, catalogue: NodeCatalogue, work: RecipeWork) -> None:
    """Note which jobs of waiting recipes are done, and let those go on that no longer have to be paused."""
    records = node.records
    if not work.settled or node.waiting.of_paused_recipes:
        async with work.looking:
            work.settled = False
            await settle(node)
            work.settled = True
    recipes = await recipes_in(records.store, ("waiting",))
    sources = {recipe.id: sources_of(recipe) for recipe in recipes}
    numbers = {source.job for some in sources.values() for source in some if not source.grade_key}
    jobs = await source_jobs(records.store, sorted(numbers)) if numbers else {}
    for recipe in recipes:
        if (mix := mix_parts.mix_of(recipe)) is not None:
            await look_at_mix(records, recipe, mix)
        else:
            async with work.looking:
                await look_at(node, catalogue, recipe, sources[recipe.id], jobs)


async def look_at_mix(records: Records, recipe: RecipeRow, mix: Mix) -> None:
    """Have the rows of a mix made once those of its parts are, or note why it waits."""
    parts = await mix_parts.views(records, mix)
    waits = mix_parts.why_it_waits(parts)
    if problems := mix_parts.problems_of([part for part in parts if not mix_parts.may_come(part)]):
        await change(records, recipe, "failed", detail=problems[0])
    elif not waits:
        await change(records, recipe, "making", detail="")
    elif recipe.detail != waits:
        async with records.change() as changed:
            await update_recipe(changed.db, recipe, detail=waits)


async def look_at(
    node: NodeWork, catalogue: NodeCatalogue, recipe: RecipeRow, sources: Sequence[SampleSource],
    jobs: Mapping[int, SourceJob],
) -> None:  # fmt: skip
    """Note which of a recipe's jobs are done, and have those rewritten and split that are to be; once all are, its rows
    are to be made."""
    records = node.records
    graded = [await with_grade(records, source, jobs.get(source.job)) for source in sources]
    try:
        done = await rewritten(node, catalogue, recipe, sources, graded)
        found = dict.fromkeys(await with_variants(node, catalogue, recipe, sources, done))
    except RefusedError as error:
        await change(records, recipe, "failed", detail=str(error))
        return
    missing = [source.job for source in found if not source.grade_key]
    if not missing:
        await change(records, recipe, "making", sources=encoded(tuple(found)), detail="")
    elif gone := [source.job for source in sources if not source.grade_key and source.job not in jobs]:
        detail = f"j{gone[0]} was deleted before it was done: `rwkvctl undelete j{gone[0]}`, then resume the recipe"
        await change(records, recipe, "failed", sources=encoded(tuple(found)), detail=detail)
    else:
        waiting = [one.job for one in graded if not one.grade_key]
        waits = why_it_waits([jobs[number] for number in waiting if number in jobs])
        columns = {"sources": encoded(tuple(found)), "detail": waits}
        if (recipe.sources, recipe.detail) != (columns["sources"], columns["detail"]):
            async with records.change() as changed:
                await update_recipe(changed.db, recipe, **columns)


async def rewritten(
    node: NodeWork, catalogue: NodeCatalogue, recipe: RecipeRow, before: Sequence[SampleSource],
    graded: Sequence[SampleSource],
) -> list[SampleSource]:  # fmt: skip
    """Return the sources of a recipe that rewrites: in place of each job that is just done, its rewriting, which is
    queued unless it is there already. A job without a right sample stays. Raises RefusedError if one cannot be
    rewritten."""
    just_done = [new for old, new in zip(before, graded, strict=True) if new.grade_key and not old.grade_key]
    to_rewrite = [source for source in just_done if not source.rewrites and not source.variants_of]
    said = recipe_of(recipe.text) if to_rewrite else None
    rule = said.rewrite if isinstance(said, Recipe) else None
    if rule is None:
        return list(graded)
    instead = {one: await derived_of(node, catalogue, recipe, one, rule) for one in to_rewrite[:DERIVED_AT_ONCE]}
    return [instead.get(source, source) for source in later(graded, to_rewrite[DERIVED_AT_ONCE:])]


async def with_variants(
    node: NodeWork, catalogue: NodeCatalogue, recipe: RecipeRow, before: Sequence[SampleSource],
    now_there: Sequence[SampleSource],
) -> list[SampleSource]:  # fmt: skip
    """Return the sources of a recipe whose pairs are made of thoughts: behind all others, for each that is just done
    and is not rewritten first, the job of its variants. Raises RefusedError if one cannot be split."""
    known = {source.job for source in before if source.grade_key}
    just_done = [one for one in now_there if one.grade_key and one.job not in known and not one.variants_of]
    said = recipe_of(recipe.text) if just_done else None
    if not isinstance(said, Recipe) or not said.needs_variants:
        return list(now_there)
    to_split = just_done[:DERIVED_AT_ONCE]
    found = {source: await derived_of(node, catalogue, recipe, source, SPLIT_RULE) for source in to_split}
    again = {source: one for source, one in found.items() if one.job == source.job}
    return [
        *(again.get(source, source) for source in later(now_there, just_done[DERIVED_AT_ONCE:])),
        *(one for source, one in found.items() if source not in again),
    ]


def later(sources: Sequence[SampleSource], these: Sequence[SampleSource]) -> list[SampleSource]:
    """Return the sources, of which these count as done at the next look."""
    put_off = frozenset(these)
    return [msgspec.structs.replace(one, grade_key="") if one in put_off else one for one in sources]


async def derived_of(
    node: NodeWork, catalogue: NodeCatalogue, recipe: RecipeRow, source: SampleSource, rule: WriterRule | SplitRule
) -> SampleSource:
    """Return the job that is made of a job by a rule as a source, or the job itself if there is nothing to be made of
    it, or if it is to be waited for again. Raises RefusedError."""
    async with node.records.owner:
        now_is = await get_recipe(node.records.store, recipe.id)
        if now_is is None or now_is.state != recipe.state:  # an operator has changed it since it was read
            return msgspec.structs.replace(source, grade_key="")
        job = await get_job(node.records.store, source.job)
        if job is None:
            raise RefusedError("no-such-job", f"j{source.job} was deleted before it was rewritten.")
        try:
            plan = await rewriting.planned(node, catalogue, job, rule)
        except RefusedError as error:
            if error.code == "not-done":  # it is being graded again since it was read
                return msgspec.structs.replace(source, grade_key="")
            if error.code not in {"nothing-right", "nothing-to-split"}:
                raise
            return source
        if job.grade_key != source.grade_key:  # it was graded again since it was read
            return msgspec.structs.replace(source, grade_key="")
        (name,) = await writer_jobs.queue(node, [plan], "rewriting")
    node.records.wake.set()
    crash_point("recipe-after-rewriting")
    if isinstance(rule, SplitRule):
        return SampleSource(int(name[1:]), variants_of=source.job)
    return SampleSource(int(name[1:]), rewrites=source.job)


async def with_grade(records: Records, source: SampleSource, job: SourceJob | None) -> SampleSource:
    """Return a source with the grade that counts, if its job is done by now. Of a job that uses another one's score,
    the other has the samples."""
    if source.grade_key or job is None or job.state != "done":
        return source
    if job.reason != "done":
        return msgspec.structs.replace(source, grade_key=job.grade_key)
    other = await measured_same(records.store, job.generation_key, job.grade_key)
    return msgspec.structs.replace(source, job=other, grade_key=job.grade_key) if other is not None else source


def why_it_waits(jobs: Sequence[SourceJob]) -> str:
    """Return which of the jobs does not go on by itself, and what to do; empty if all do."""
    for job in jobs:
        if job.state == "failed":
            return f"{job.name} has failed ({job.detail or job.reason}): `rwkvctl retry {job.name}`"
        if job.state in {"stopped", "paused"}:
            why = f" ({job.detail})" if job.detail else ""
            return f"{job.name} is {job.state}{why}: `rwkvctl resume {job.name}`"
        if job.state == "held":
            why = job.detail or REASONS.get(job.reason, "")
            return f"{job.name} is held: {why}"
        if job.state == "done":
            return f"{job.name} used the score of a job that is gone: dispatch it again with --overwrite"
    return ""


async def change(records: Records, recipe: RecipeRow, state: RecipeState, **columns: object) -> None:
    """Store that a recipe is in another state, unless it is not in the one it was read in any more."""
    finished = now() if state in {"done", "failed"} else ""
    async with records.change() as changed:
        if await update_recipe(changed.db, recipe, state=state, finished=finished, **columns):
            said = f": {columns['detail']}" if columns.get("detail") else ""
            await note(changed, recipe, f"{state}{said}", state)


async def note(change: Change, recipe: RecipeRow, said: str, state: str) -> None:
    """Store an event about a recipe, in the caller's transaction."""
    data = {"recipe": recipe.called, "state": state}
    await change.note("recipe", text=f"{recipe.called} {recipe.name}: {said}", data=data)


async def make(records: Records, work: RecipeWork, recipe: RecipeRow) -> None:
    """Make the rows of a recipe, and store how that ended. If the store does not answer or the disk is full, it is
    tried again, and others have their turn meanwhile."""
    work.recipe, work.says, work.stopped = recipe.id, "begins", False
    folder = folder_of(records, recipe)
    try:
        now_is = await get_recipe(records.store, recipe.id)
        if now_is is None or now_is.state != "making":
            return
        code, errors = await made_by_process(records, work, recipe)
        result = await asyncio.to_thread(folder.result) if code == 0 else None
        if work.stopped:
            log.info("%s: stopped while its rows were made", recipe.called)
        elif result is not None:
            work.tries.pop(recipe.id, None)
            funnel = msgspec.json.encode(result.funnel).decode()
            crash_point("recipe-before-done")
            await change(records, recipe, "done", rows=result.rows, funnel=funnel, detail="")
        elif code != AGAIN or not work.try_again(recipe.id):
            log.warning("%s: its rows cannot be made: %s", recipe.called, errors or code)
            await change(records, recipe, "failed", detail=why_it_failed(code, errors))
    except (StoreError, OSError) as error:
        log.warning("%s: its rows cannot be made now: %s", recipe.called, error)
        work.try_again(recipe.id)
    except Exception as error:  # noqa: BLE001 - logged and said; others are made all the same
        log.exception("%s: its rows cannot be made", recipe.called)
        with contextlib.suppress(StoreError):
            await change(records, recipe, "failed", detail=str(error))
    finally:
        work.recipe, work.says, work.process = 0, "", None
        await asyncio.to_thread(folder.give_up)


def why_it_failed(code: int, errors: str) -> str:
    """Return why the process has not made the rows, in a sentence."""
    if code < 0:
        return f"its process was killed (signal {-code}; perhaps there was no memory left): resume it to try again"
    return errors.rpartition("\n")[2][:LONGEST] or f"its process ended with {code} and made nothing"


async def made_by_process(records: Records, work: RecipeWork, recipe: RecipeRow) -> tuple[int, str]:
    """Return the exit code of the process that makes the rows, and the end of what it says of errors. Raises OSError,
    ConfigError."""
    process = await asyncio.create_subprocess_exec(
        *tied_process.command("rwkv_daemon.recipes.make_rows"),
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        env=environment(),
    )  # fmt: skip
    work.process = process
    if work.stopped:
        work.kill()
    crash_point("recipe-after-start")
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        process.stdin.write(msgspec.json.encode(order_of(records, recipe)))
        process.stdin.close()
        errors = asyncio.ensure_future(end_of(process.stderr))
        while line := await process.stdout.readline():
            work.says = line.decode(errors="replace").strip()[:LONGEST]
        return await process.wait(), await errors
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def end_of(stream: asyncio.StreamReader) -> str:
    """Return the last characters of a stream."""
    end = b""
    while piece := await stream.read(1 << 16):
        end = (end + piece)[-MOST_ERRORS:]
    return end.decode(errors="replace").strip()


def environment() -> dict[str, str]:
    """Return the environment of the process. A crash point of the tests is passed on only if it is one of its own."""
    point = config.marker("RWKVCTL_CRASH_AT")
    own = {"RWKVCTL_CRASH_AT": point} if point.startswith("recipe-rows-") else {}
    return config.base_environment() | {"OMP_NUM_THREADS": "1"} | own


def order_of(records: Records, recipe: RecipeRow) -> RowOrder:
    """Return what the process is told."""
    chosen = records.config
    return RowOrder(
        toml=recipe.text,
        name=recipe.name,
        sources=sources_of(recipe),
        folder=str(folder_of(records, recipe).path),
        runs_dir=str(chosen.runs_dir),
        data_dir=str(chosen.data_dir),
        benchmarks_dir=str(chosen.benchmarks_dir),
        cache_dir=str(chosen.home / "cache"),
        store=str(store_place(chosen)),
        store_name=f"{daemon_name(chosen)} {recipe.called}",
    )
