"""Jobs that are paused with their recipe: those that only it waits for.

Such a job says `r3 is paused`, so it is told from one that an operator has paused. It goes on as soon as a recipe that
is not paused waits for it, or no paused one does any more, whatever came between: that follows from what is stored, and
is settled after each change of a recipe, and at every look at recipes while one is paused with jobs. A held job keeps
its reason, but is not released while only paused recipes wait for it.
"""

import contextlib
import re
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from rwkv_daemon.changes.change import Change
from rwkv_daemon.jobs import pause_resume, stop_intents
from rwkv_daemon.judge.judges import Judges
from rwkv_daemon.recipes.row_order import sources_of
from rwkv_daemon.rules.lifecycle import allows
from rwkv_daemon.scheduling.node_work import NodeWork
from rwkv_daemon.store import JobRow, RecipeRow
from rwkv_daemon.store.queries.jobs import MovedMeanwhileError, jobs_by_id, update_job
from rwkv_daemon.store.queries.recipes.stored_recipes import paused_with_recipes, recipes_in

ASIDE: Final = re.compile(r"r[0-9]+ is paused")
AT_ONCE: Final = 200
JobChange = Callable[[Change, JobRow], Awaitable[bool]]
"""Changes one job in the caller's transaction, and returns whether it did."""


def why_aside(recipe: str) -> str:
    """Return what the jobs say that are paused with a recipe (`r3`)."""
    return f"{recipe} is paused"


def paused_with(job: JobRow) -> str:
    """Return what a job says that is paused with a recipe, or is about to be; empty for any other."""
    said = job.detail if job.state == "paused" else job.wanted_why if job.wanted == "pause" else ""
    return said if job.state != "stopping" and ASIDE.fullmatch(said) else ""


def as_operators(why: str) -> str:
    """Return an operator's reason for a pause so that it is never taken for that of a recipe."""
    return f"{why}." if ASIDE.fullmatch(why) else why


def awaited(recipe: RecipeRow) -> list[int]:
    """Return the jobs that a recipe waits for."""
    return [source.job for source in sources_of(recipe) if not source.grade_key]


async def put_aside(work: NodeWork, judges: Judges, recipe: RecipeRow) -> list[int]:
    """Pause the jobs that only this recipe waits for, each at a point where nothing is lost; returns those."""

    async def pause_one(change: Change, job: JobRow) -> bool:
        is_free = not job.wanted and allows(job.state, "pause")
        if is_free:
            await pause_resume.put_aside_in(judges, change, job, "pause", "", why_aside(recipe.called))
        return is_free

    others = [one for one in await recipes_in(work.records.store, ("waiting",)) if one.id != recipe.id]
    shared = {number for one in others for number in awaited(one)}
    return await _each(work, [number for number in awaited(recipe) if number not in shared], pause_one)


async def settle(work: NodeWork) -> None:
    """Let those jobs go on that are paused with a recipe and no longer have to be."""
    store, aside = work.records.store, defaultdict[int, list[str]](list)
    needed = {number for one in await recipes_in(store, ("waiting",)) for number in awaited(one)}
    for recipe in await recipes_in(store, ("paused",)):
        for number in awaited(recipe):
            if number not in needed:
                aside[number].append(why_aside(recipe.called))
    if work.waiting.of_paused_recipes != aside.keys():
        work.waiting.of_paused_recipes = frozenset(aside)
        work.waiting.held_scan.surroundings, work.waiting.look_at_held = (), True

    async def let_go(change: Change, job: JobRow) -> bool:
        return await _let_go(work, change, job, aside.get(job.id, ()))

    paused = await paused_with_recipes(store)
    await _each(work, [number for number, said in paused.items() if said not in aside.get(number, ())], let_go)


async def _let_go(work: NodeWork, change: Change, job: JobRow, reasons: Sequence[str]) -> bool:
    """Let a job go on, unless it is to stay paused for one of these reasons."""
    said = paused_with(job)
    if not said or said in reasons:
        return False
    if reasons:  # the recipe with which it was paused does not hold it any more
        await say_why(change, job, reasons[0])
    else:
        await pause_resume.resume_in(work.waiting, work.running, work.engines, change, job)
    return True


async def say_why(change: Change, job: JobRow, why: str) -> None:
    """Store another reason why a job is paused, or is about to be."""
    column = "detail" if job.state == "paused" else "wanted_why"
    await update_job(change.db, job.id, **{column: why})
    await change.note("job.wanted", job=job.name, session=job.session, text=f"{job.name} is paused: {why}")


async def _each(work: NodeWork, numbers: Sequence[int], change_one: JobChange) -> list[int]:
    """Change jobs, some hundreds in a transaction; returns those that were changed."""
    done = list[int]()
    for first in range(0, len(numbers), AT_ONCE):
        async with work.records.owner:
            done += await _all_of(work, numbers[first : first + AT_ONCE], change_one)
            await stop_intents.apply(work.records, work.waiting.pauses, work.running)
    return done


async def _all_of(work: NodeWork, numbers: Sequence[int], change_one: JobChange) -> list[int]:
    """Change some jobs in one transaction; if the judge has finished one of them meanwhile, repeat it with the jobs as
    they are now."""
    while True:
        jobs = await jobs_by_id(work.records.store, numbers)
        with contextlib.suppress(MovedMeanwhileError):
            async with work.records.change() as change:
                return [job.id for job in jobs if await change_one(change, job)]
