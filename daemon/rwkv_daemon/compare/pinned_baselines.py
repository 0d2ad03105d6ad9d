"""With which model the scores of each model are compared."""

import re
from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Final, NamedTuple

from rwkv_daemon.store import Store
from rwkv_daemon.store.queries.training.baselines import all_pins

WILD: Final = re.compile(r"[*?]|\[!?\]?[^\]]*\]")
"""What a glob does not say letter by letter."""


class Pin(NamedTuple):
    """The baseline of all models whose names match a pattern. `scored`: it still has a score; otherwise the pin is not
    used."""

    pattern: str
    model: str
    who: str
    created: str
    scored: bool = True

    @property
    def rank(self) -> tuple[bool, int, str, str]:
        """Return the sort key: a whole name before a pattern, more fixed characters before fewer, then the newest."""
        fixed = WILD.sub("", self.pattern)
        return fixed == self.pattern, len(fixed), self.created, self.pattern


async def pins_of(store: Store) -> list[Pin]:
    """Return all pins, the most particular first."""
    found = [Pin(row["pattern"], row["model"], row["who"], row["created"], bool(row["scored"]))
             for row in await all_pins(store)]  # fmt: skip
    return sorted(found, key=lambda pin: pin.rank, reverse=True)


def baseline_of(pins: Sequence[Pin], model: str) -> str:
    """Return the baseline of a model by `pins_of`; empty if none is pinned for it. No model is its own."""
    used = [pin for pin in pins if pin.scored and pin.model != model]
    named = (pin.model for pin in used if pin.pattern == model)
    return next(named, "") or next((pin.model for pin in used if fnmatchcase(model, pin.pattern)), "")


async def pinned_for(store: Store, model: str) -> str:
    """Return the baseline that is pinned for a model; empty if none is."""
    return baseline_of(await pins_of(store), model)
