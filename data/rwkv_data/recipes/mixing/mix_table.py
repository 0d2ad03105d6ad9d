"""The tables [[mix]] of a recipe, as its file spells them."""

import re
from collections.abc import Sequence
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from rwkv_data.definition.errors import SettingError
from rwkv_data.definition.rows import shown
from rwkv_data.recipes.foreign import row_sets
from rwkv_data.recipes.mixing.mix import MixPart
from rwkvctl.protocol.ranges import WHOLE

MOST_PARTS: Final = 20
_RECIPE: Final = re.compile(r"r[1-9][0-9]{0,16}")


class MixTable(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A part of a mix: the rows of a recipe, or those that `rwkvctl data rows` keeps."""

    recipe: str = ""
    rows: str = ""
    limit: Annotated[int, Meta(ge=1, le=WHOLE)] | None = None
    weight: Annotated[float, Meta(gt=0, le=1e6)] | None = None


def parts_of(tables: Sequence[MixTable]) -> tuple[MixPart, ...]:
    """Return the parts of a mix. Raises SettingError."""
    if len(tables) > MOST_PARTS:
        raise SettingError(f"the recipe mixes {len(tables)} parts, and none mixes more than {MOST_PARTS}")
    parts = tuple(_part(number, table) for number, table in enumerate(tables, 1))
    names = [part.name for part in parts]
    if repeated := [name for number, name in enumerate(names) if name in names[:number]]:
        raise SettingError(f"the recipe mixes {shown(repeated[0])} twice")
    return parts


def _part(number: int, table: MixTable) -> MixPart:
    name = table.recipe or table.rows
    if bool(table.recipe) == bool(table.rows):
        raise SettingError(f'[[mix]] {number} needs either recipe = "r3" or rows = "chat"')
    if table.recipe and not _RECIPE.fullmatch(name):
        raise SettingError(f"recipe of [[mix]] {number} is {shown(name)}, not the number of a recipe such as r3")
    if table.rows and not row_sets.NAME.fullmatch(name):
        raise SettingError(f"rows of [[mix]] {number} is {shown(name)}, not a name that `rwkvctl data rows` gives")
    if table.limit is not None and table.weight is not None:
        raise SettingError(
            f"[[mix]] {number} has a limit and a weight: only one of them can say how many rows it gives"
        )
    return MixPart(name, bool(table.recipe), table.limit, table.weight)
