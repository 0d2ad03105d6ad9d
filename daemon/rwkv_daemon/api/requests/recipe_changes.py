"""Changes of recipes by an operator: pause, stop, resume, delete."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Final

from rwkv_daemon.api.requests import job_control
from rwkv_daemon.api.requests.recipes import find_recipe, view
from rwkv_daemon.node import Node
from rwkv_daemon.recipes import recipe_pause, recipe_task
from rwkv_daemon.store import RecipeRow, StoreError
from rwkv_daemon.store.queries.recipes.stored_recipes import remove_recipe, update_recipe
from rwkv_daemon.workers.crash_points import crash_point
from rwkvctl.protocol.errors import Exit, RefusedError
from rwkvctl.protocol.recipes import RecipeChange, RecipeReply, RecipeView
from rwkvctl.protocol.states import RecipeState

AT_WORK: Final[frozenset[RecipeState]] = frozenset({"waiting", "making"})
RESUMABLE: Final[frozenset[RecipeState]] = frozenset({"paused", "stopped", "failed"})


async def change(node: Node, request: RecipeChange) -> RecipeReply:
    """Answer `POST /v1/recipes/change`. The reply to a pause comes when the jobs that it pauses have left their
    engines, or at the deadline. Raises RefusedError if the recipe cannot be changed so."""
    if request.action == "delete":
        return RecipeReply(recipe=await delete(node, request.recipe))
    paused: list[int] = []
    async with changing(node):
        recipe = await find_recipe(node.records, request.recipe)
        match request.action:
            case "pause":
                paused = await pause(node, recipe)
            case "stop":
                await set_state(node, recipe, "stopped", AT_WORK | {"paused"})
                node.recipes.end(recipe.id)
            case "resume":
                await set_state(node, recipe, "waiting", RESUMABLE)
        changed = await find_recipe(node.records, recipe.called)
    await job_control.ended(node.running, paused)
    return RecipeReply(recipe=await view(node, changed))


@contextlib.asynccontextmanager
async def changing(node: Node) -> AsyncIterator[None]:
    """Change a recipe in the block; afterwards those jobs go on that were paused with it and no longer have to be."""
    async with node.recipes.looking:
        node.recipes.settled = False
        yield
        with contextlib.suppress(StoreError):  # the change is stored, and the next look settles the jobs
            await recipe_pause.settle(node.work)


async def pause(node: Node, recipe: RecipeRow) -> list[int]:
    """Pause a recipe, and the jobs that only it waits for; returns those. The jobs come first: if the daemon ends in
    between, the next one lets them go on. One that is paused already stays so, and those of its jobs that were resumed
    are paused again."""
    refuse_unless(recipe, AT_WORK | {"paused"})
    paused = await recipe_pause.put_aside(node.work, node.judges, recipe)
    crash_point("recipe-between-pauses")
    if recipe.state != "paused":
        await set_state(node, recipe, "paused", AT_WORK, f"`rwkvctl recipe resume {recipe.called}` takes it up")
        node.recipes.end(recipe.id)
    return paused


async def set_state(
    node: Node, recipe: RecipeRow, state: RecipeState, of: frozenset[RecipeState], detail: str = ""
) -> None:
    """Store another state of a recipe. Raises RefusedError unless it is in one of the states `of`."""
    while recipe.state in of:
        async with node.records.change() as change:
            if await update_recipe(change.db, recipe, state=state, detail=detail, finished=""):
                await recipe_task.note(change, recipe, state, state)
                return
        recipe = await find_recipe(node.records, recipe.called)  # it has gone on meanwhile
    refuse_unless(recipe, of)


def refuse_unless(recipe: RecipeRow, of: frozenset[RecipeState]) -> None:
    """Raise RefusedError unless a recipe is in one of these states."""
    if recipe.state not in of:
        raise RefusedError("recipe-state", f"{recipe.called} is {recipe.state}.", "Nothing was changed.", Exit.REFUSED)


async def delete(node: Node, name: str) -> RecipeView:
    """Delete a recipe with its rows; returns it as it was. Raises RefusedError while it is at work."""
    async with changing(node):
        recipe = await find_recipe(node.records, name)
        if recipe.state in AT_WORK:
            text = f"{recipe.called} is {recipe.state}."
            raise RefusedError("recipe-state", text, f"`rwkvctl recipe stop {recipe.called}` first.", Exit.REFUSED)
        seen = await view(node, recipe)
        async with node.records.change() as change:
            if not await remove_recipe(change.db, recipe):
                text = f"{recipe.called} has changed meanwhile."
                raise RefusedError("recipe-state", text, "Try again.", Exit.REFUSED)
            await recipe_task.note(change, recipe, "deleted", "deleted")
    await asyncio.to_thread(recipe_task.folder_of(node.records, recipe).remove)
    return seen
