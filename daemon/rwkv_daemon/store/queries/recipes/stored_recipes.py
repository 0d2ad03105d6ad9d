"""Queries about recipes of training data."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from rwkv_daemon.store.interface import Store, Transaction
from rwkv_daemon.store.typed_rows import FromRow, RecipeRow, columns_of
from rwkv_daemon.store.wall_time import now
from rwkvctl.protocol.states import ACTIVE, JobState, Reason, RecipeState

AT_ONCE: Final = 500


async def add_recipe(db: Transaction, name: str, text: str, sources: str) -> RecipeRow:
    """Store a recipe that waits for its sources (as JSON), and return it."""
    row = await db.one(
        "INSERT INTO recipe (name, text, state, sources, created) VALUES (?, ?, 'waiting', ?, ?) RETURNING *",
        (name, text, sources, now()),
    )
    return RecipeRow.of(row)


async def get_recipe(store: Store, number: int) -> RecipeRow | None:
    """Return a recipe by number, or None."""
    row = await store.one("SELECT * FROM recipe WHERE id = ?", (number,))
    return RecipeRow.of(row) if row else None


async def recipes_in(store: Store, states: Sequence[RecipeState]) -> list[RecipeRow]:
    """Return the recipes in these states, oldest first."""
    places = ", ".join("?" * len(states))
    return list(
        map(RecipeRow.of, await store.all(f"SELECT * FROM recipe WHERE state IN ({places}) ORDER BY id", states))
    )


async def newest_recipes(store: Store, before: int, limit: int) -> list[RecipeRow]:
    """Return recipes, newest first, of those before a number (0: all)."""
    sql = "SELECT * FROM recipe WHERE id < ? ORDER BY id DESC LIMIT ?"
    return list(map(RecipeRow.of, await store.all(sql, (before or 2**62, limit))))


class WorkingRecipe(NamedTuple):
    """What an overview says of a recipe that is not over."""

    id: int
    name: str
    state: RecipeState
    detail: str
    created: str


async def working_recipes(store: Store, limit: int) -> list[WorkingRecipe]:
    """Return recipes that are paused, then those that wait or are being made, the newest first, without their files."""
    sql = (
        f"SELECT {', '.join(WorkingRecipe._fields)} FROM recipe "
        "WHERE state IN ('waiting', 'making', 'paused') ORDER BY state = 'paused' DESC, id DESC LIMIT ?"
    )
    return [WorkingRecipe(*row) for row in await store.all(sql, (limit,))]


async def recipe_counts(store: Store) -> dict[str, int]:
    """Return how many recipes there are in each state; a state without one is left out."""
    rows = await store.all("SELECT state, COUNT(*) AS n FROM recipe GROUP BY state")
    return {row["state"]: row["n"] for row in rows}


async def paused_with_recipes(store: Store) -> dict[int, str]:
    """Return the jobs that are paused, or about to be, and say that a recipe is: what each says."""
    states = sorted(ACTIVE - {"stopping"})
    rows = await store.all(
        "SELECT id, detail AS said FROM job WHERE state = 'paused' AND detail LIKE 'r% is paused' UNION ALL "
        f"SELECT id, wanted_why FROM job WHERE state IN ({', '.join('?' * len(states))}) "
        "AND wanted = 'pause' AND wanted_why LIKE 'r% is paused'",
        states,
    )
    return {row["id"]: row["said"] for row in rows}


async def update_recipe(db: Transaction, recipe: RecipeRow, **values: Any) -> bool:
    """Set columns of a recipe if it is still in the state it was read in; returns whether it was."""
    assert values.keys() <= set(columns_of(RecipeRow)), values
    assignments = ", ".join(f"{name} = ?" for name in values)
    sql = f"UPDATE recipe SET {assignments} WHERE id = ? AND state = ?"
    return bool(await db.execute(sql, (*values.values(), recipe.id, recipe.state)))


async def remove_recipe(db: Transaction, recipe: RecipeRow) -> bool:
    """Remove a recipe if it is still in the state it was read in; returns whether it was."""
    return bool(await db.execute("DELETE FROM recipe WHERE id = ? AND state = ?", (recipe.id, recipe.state)))


async def measured_same(store: Store, generation_key: str, grade_key: str) -> int | None:
    """Return the job that has the samples of one that uses another's score; None if it is gone."""
    row = await store.one(
        "SELECT id FROM job WHERE generation_key = ? AND grade_key = ? AND state = 'done' AND reason <> 'done' "
        "ORDER BY id DESC LIMIT 1",
        (generation_key, grade_key),
    )
    return int(row["id"]) if row else None


@dataclass(frozen=True, slots=True)
class SourceJob(FromRow):
    """What a recipe needs to know of a job while it waits for it: thousands are read every second."""

    id: int
    state: JobState
    reason: Reason
    detail: str
    grade_key: str
    generation_key: str

    @property
    def name(self) -> str:
        return f"j{self.id}"


SOURCE_COLUMNS: Final = ", ".join(columns_of(SourceJob))


async def source_jobs(store: Store, numbers: Sequence[int]) -> dict[int, SourceJob]:
    """Return these jobs by number, without deleted ones."""
    found: dict[int, SourceJob] = {}
    for first in range(0, len(numbers), AT_ONCE):
        some = tuple(numbers[first : first + AT_ONCE])
        places = ", ".join("?" * len(some))
        rows = await store.all(f"SELECT {SOURCE_COLUMNS} FROM job WHERE id IN ({places}) AND state <> 'deleted'", some)
        found |= {row["id"]: SourceJob.of(row) for row in rows}
    return found
