"""The formats of files of training rows: how a row is spelled, and what stands around the rows.

A list is a JSON document, a row a line; lines are JSON lines. Parquet is a folder (`parquet_folder`), whose columns are
those of `messages`, or of `trl-preference` for pairs.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Literal

from rwkv_data.definition.errors import RowError, SettingError
from rwkv_data.recipes.files.json_line import json_line
from rwkv_data.recipes.files.messages import messages_row, preference_row
from rwkv_data.recipes.files.rwkv_text import rwkv_row
from rwkv_data.recipes.files.sharegpt import HUMAN_GPT, Roles, sharegpt_pair, sharegpt_row
from rwkv_data.recipes.files.training_row import TrainingRow, check_row

FormatName = Literal["sharegpt", "sharegpt-preference", "messages", "trl-preference", "rwkv", "parquet"]
ENDINGS: Final = {"list": ".json", "lines": ".jsonl", "folder": ""}


@dataclass(frozen=True, slots=True)
class RowFormat:
    """A format; `spell` gives a row as plain values."""

    name: FormatName
    shape: Literal["list", "lines", "folder"]
    pairs: Literal["only", "none", "all or none"]
    spell: Callable[[TrainingRow], dict[str, Any]]

    def line(self, row: TrainingRow) -> bytes:
        """Return a row as it stands in the file (in parquet: as JSON), with a line feed. Raises RowError if the format
        has no place for it."""
        check_row(row)
        if self.pairs != "all or none" and row.is_pair != (self.pairs == "only"):
            found, others = ("two answers", _named(pairs=True)) if row.is_pair else ("one answer", _named(pairs=False))
            raise RowError(f"the row has {found}, which the format {self.name} has no place for; {others} have")
        return json_line(self.spell(row))

    def check_name(self, name: str) -> None:
        """Raise SettingError if a file of this format should not be called so."""
        if name in {"", ".."}:
            raise SettingError("the file or folder to write needs a name of its own")
        ending = ENDINGS[self.shape]
        if ending and not name.endswith(ending):
            raise SettingError(f"readers know a file of the format {self.name} by the ending {ending}, not {name!r}")


def row_format(name: str, roles: str = HUMAN_GPT) -> RowFormat:
    """Return the format of a name. Raises SettingError if there is none, or if it does not have these roles."""
    if roles not in {HUMAN_GPT, "user/assistant"}:
        raise SettingError(f"there are no roles {roles!r}, only {HUMAN_GPT} and user/assistant")
    found = _formats("user/assistant" if roles == "user/assistant" else HUMAN_GPT).get(name)
    if found is None:
        raise SettingError(f"there is no format {name!r}, only {', '.join(_formats(HUMAN_GPT))}")
    if roles != HUMAN_GPT and not name.startswith("sharegpt"):
        raise SettingError(f"the format {name} has names of its own for who speaks; roles belong to sharegpt")
    return found


def _formats(roles: Roles) -> dict[str, RowFormat]:
    found = (
        RowFormat("sharegpt", "list", "none", lambda row: sharegpt_row(row, roles)),
        RowFormat("sharegpt-preference", "list", "only", lambda row: sharegpt_pair(row, roles)),
        RowFormat("messages", "lines", "none", messages_row),
        RowFormat("trl-preference", "lines", "only", preference_row),
        RowFormat("rwkv", "lines", "none", rwkv_row),
        RowFormat(
            "parquet", "folder", "all or none", lambda row: (preference_row if row.is_pair else messages_row)(row)
        ),
    )
    return {one.name: one for one in found}


def _named(*, pairs: bool) -> str:
    return ", ".join(one.name for one in _formats(HUMAN_GPT).values() if one.pairs != ("none" if pairs else "only"))
