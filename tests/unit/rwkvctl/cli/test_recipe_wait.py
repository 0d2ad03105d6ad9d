"""What `recipe run --wait` does while the recipe is paused, and what is said of recipes in one line."""

from types import SimpleNamespace
from typing import Any

import pytest

from rwkvctl.cli.commands import recipe
from rwkvctl.cli.tables import core_tables, recipe_tables
from rwkvctl.protocol.errors import Exit, RefusedError

PAUSED = {"recipe": "r3", "name": "sky.toml", "state": "paused", "detail": "`rwkvctl recipe resume r3` takes it up"}
DONE = {"recipe": "r3", "name": "sky.toml", "state": "done", "rows": 2}


def context(*items: dict[str, Any]) -> Any:
    """A context whose daemon tells of a recipe so, once each; the last one stays."""
    told, shown = list(items), list[Any]()

    def reply(_route: str) -> SimpleNamespace:
        return SimpleNamespace(value={"recipe": told.pop(0) if len(told) > 1 else told[0]})

    return SimpleNamespace(client=SimpleNamespace(get=reply), show=lambda answer, *_, **__: shown.append(answer))


def test_a_recipe_that_is_paused_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recipe, "LOOK_S", 0)
    assert recipe.follow(context(PAUSED, PAUSED, DONE), "r3", None) == Exit.OK


def test_a_wait_that_ends_meanwhile_says_that_it_is_paused() -> None:
    with pytest.raises(RefusedError, match="the recipe is paused") as found:
        recipe.follow(context(PAUSED), "r3", -1.0)
    assert found.value.exit_code == Exit.TIMEOUT


def test_one_line_says_how_to_go_on() -> None:
    assert recipe.doing(PAUSED) == "paused, `rwkvctl recipe resume r3` takes it up"
    assert recipe_tables.summary(PAUSED) == "r3 sky.toml: paused, `rwkvctl recipe resume r3` takes it up"


@pytest.mark.parametrize(
    ("counts", "words"),
    [
        ({}, ""), ({"done": 7, "failed": 1}, ""), ({"waiting": 1, "done": 7}, "recipes: 1 waiting"),
        ({"paused": 2, "waiting": 23}, "recipes: 23 waiting, 2 paused"),
    ],
)  # fmt: skip
def test_the_headline_counts_recipes(counts: dict[str, int], words: str) -> None:
    assert core_tables.recipes({"recipe_counts": counts}) == words
