"""What is known of the parts of a mix before its rows are made: whether they are there, how many, and of which form."""

import asyncio
import functools
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from rwkv_daemon.changes.records import Records
from rwkv_daemon.store import RecipeRow
from rwkv_daemon.store.queries.recipes.stored_recipes import get_recipe
from rwkv_data.definition.errors import DataError
from rwkv_data.recipes.foreign import row_sets
from rwkv_data.recipes.mixing.mix import Mix, MixPart
from rwkv_data.recipes.recipe_file import PairRules, recipe_of
from rwkvctl.protocol.recipes import MixPartView, PartState

NO_SOURCES: Final = "[]"
"""The jobs of a recipe that has none, as the store holds them."""
KEPT: Final = 128
"""Texts of mixes that are not parsed again: lists and looks read them often."""
ENDED: Final = {"failed": "has failed", "stopped": "is stopped"}
THERE: Final = {"done", "kept"}
FORMS: Final = {False: "rows with one answer", True: "pairs"}


def mix_of(recipe: RecipeRow) -> Mix | None:
    """Return what a stored recipe mixes; None if it samples, or if an earlier version has stored it and it cannot be
    read."""
    return _mix_of(recipe.text) if recipe.sources == NO_SOURCES else None


@functools.lru_cache(KEPT)
def _mix_of(text: str) -> Mix | None:
    try:
        found = recipe_of(text)
    except DataError:
        return None
    return found if isinstance(found, Mix) else None


async def views(records: Records, mix: Mix) -> tuple[MixPartView, ...]:
    """Return the parts of a mix, each with the problem that keeps it from being mixed."""
    found = list[MixPartView]()
    for part in mix.parts:
        if part.is_recipe:
            found.append(await of_recipe(records, part))
        else:
            found.append(await asyncio.to_thread(of_rows, records.config.data_dir, part))
    return tuple(found)


def problems_of(parts: Sequence[MixPartView]) -> tuple[str, ...]:
    """Return why a mix cannot be made, a sentence for each reason; empty if it can."""
    said = [part.problem for part in parts if part.problem]
    formed = [part for part in parts if part.pairs is not None and not part.problem]
    others = [part for part in formed if part.pairs != formed[0].pairs]
    if others:
        one, other = formed[0], others[0]
        forms = f"{one.name} has {FORMS[bool(one.pairs)]}, and {other.name} has {FORMS[bool(other.pairs)]}"
        said.append(f"{forms}: one file cannot hold both")
    return tuple(said)


def may_come(part: MixPartView) -> bool:
    """Whether a part that has a problem may lose it again: a recipe that is resumed, rows that are kept anew."""
    return part.state in ENDED or (part.state == "missing" and bool(row_sets.NAME.fullmatch(part.name)))


def why_it_waits(parts: Sequence[MixPartView]) -> str:
    """Return which recipes are not done, or what to do with a part that does not come by itself; empty if all are
    there."""
    todo = [part.problem for part in parts if may_come(part)]
    todo += [f"{part.name} is paused: `rwkvctl recipe resume {part.name}`" for part in parts if part.state == "paused"]
    waits = [part.name for part in parts if part.state not in THERE]
    return todo[0] if todo else f"waits for {' and '.join(waits)}" if waits else ""


async def of_recipe(records: Records, part: MixPart) -> MixPartView:
    """Return another recipe as a part."""
    recipe = await get_recipe(records.store, int(part.name[1:]))
    if recipe is None:
        return view(part, "missing", problem=f"there is no recipe {part.name}")
    try:
        said = recipe_of(recipe.text)
    except DataError as error:  # an earlier version has stored it
        return view(part, recipe.state, problem=f"{part.name} cannot be read by this version: {error}")
    if isinstance(said, Mix):
        names = " and ".join(one.name for one in said.parts)
        return view(part, recipe.state, problem=f"{part.name} is a mix itself: name {names} instead")
    problem = ""
    if recipe.state in ENDED:
        problem = f"{part.name} {ENDED[recipe.state]}: `rwkvctl recipe resume {part.name}`"
    elif recipe.state == "done" and not recipe.rows:
        problem = f"{part.name} has made no rows"
    return view(part, recipe.state, recipe.rows, isinstance(said.taking, PairRules), problem)


def of_rows(data_dir: Path, part: MixPart) -> MixPartView:
    """Return rows of others as a part."""
    found = row_sets.row_set(data_dir, part.name)
    if found is None:
        return view(part, "missing", problem=row_sets.missing(part.name))
    return view(part, "kept", found.rows, found.pairs)


def view(part: MixPart, state: PartState, rows: int = 0, pairs: bool | None = None, problem: str = "") -> MixPartView:
    """Return a part with what is known of it."""
    return MixPartView(
        name=part.name, state=state, rows=rows, pairs=pairs, weight=part.weight, limit=part.limit, problem=problem
    )
