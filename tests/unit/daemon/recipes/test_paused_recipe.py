"""What a look at recipes queues and says: not for one that was changed since it was read, and not all at once."""

import asyncio
import contextlib
from types import SimpleNamespace
from typing import Any

import pytest

from rwkv_daemon.recipes import recipe_task
from rwkv_daemon.recipes.row_order import SampleSource, encoded
from rwkv_daemon.store import RecipeRow
from rwkv_daemon.store.queries.recipes.stored_recipes import SourceJob
from rwkv_daemon.store.read_lanes import OwnLock
from rwkv_data.writers import SPLIT_RULE
from rwkvctl.protocol.states import RecipeState


def recipe(state: RecipeState) -> RecipeRow:
    return RecipeRow(
        id=3,
        name="sky.toml",
        text="",
        state=state,
        detail="",
        sources="[]",
        funnel="[]",
        rows=0,
        created="",
        finished="",
    )


@pytest.mark.parametrize("now_is", [recipe("paused"), recipe("stopped"), None])
def test_a_recipe_that_was_changed_has_nothing_queued(
    monkeypatch: pytest.MonkeyPatch, now_is: RecipeRow | None
) -> None:
    async def get_recipe(_store: object, _number: int) -> RecipeRow | None:
        return now_is

    monkeypatch.setattr(recipe_task, "get_recipe", get_recipe)
    monkeypatch.setattr(recipe_task, "get_job", None)  # is not asked for
    node: Any = SimpleNamespace(records=SimpleNamespace(owner=OwnLock(), store=None))
    source = SampleSource(7, grade_key="k")
    found = asyncio.run(recipe_task.derived_of(node, node, recipe("waiting"), source, SPLIT_RULE))
    assert found == SampleSource(7, grade_key=""), "it is waited for again"


def test_what_is_put_off_counts_as_done_at_the_next_look() -> None:
    done = [SampleSource(number, grade_key="k") for number in range(4)]
    assert [one.grade_key for one in recipe_task.later(done, done[2:])] == ["k", "k", "", ""]


def test_a_job_for_which_work_is_queued_later_is_not_said_to_be_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    stored = list[dict[str, Any]]()

    async def first_of_two(*_: object) -> list[SampleSource]:
        return [SampleSource(9, rewrites=1), SampleSource(2)]

    async def update_recipe(_db: object, _recipe: RecipeRow, **columns: Any) -> bool:
        stored.append(columns)
        return True

    monkeypatch.setattr(recipe_task, "rewritten", first_of_two)
    monkeypatch.setattr(recipe_task, "with_variants", first_of_two)
    monkeypatch.setattr(recipe_task, "update_recipe", update_recipe)
    changing = SimpleNamespace(change=lambda: contextlib.nullcontext(SimpleNamespace(db=None)))
    node: Any = SimpleNamespace(records=changing)
    done = {number: SourceJob(number, "done", "run", "", f"k{number}", "g") for number in (1, 2)}
    sources = [SampleSource(1), SampleSource(2)]
    asyncio.run(recipe_task.look_at(node, node, recipe("waiting"), sources, done))
    assert stored == [{"sources": encoded([SampleSource(9, rewrites=1), SampleSource(2)]), "detail": ""}]
