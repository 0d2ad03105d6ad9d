"""`rows=A:B`: the rows of a prepared set from index A up to, not including, index B; either may be left out."""

import re
from dataclasses import dataclass

from rwkv_data.definition.errors import SettingError

_FORM = re.compile(r"(\d{0,12}):(\d{0,12})", re.ASCII)


@dataclass(frozen=True, slots=True)
class RowRange:
    """Indices from `first` up to, not including, `last`; None: to the end of the set."""

    first: int = 0
    last: int | None = None

    @property
    def text(self) -> str:
        """Return the range as it enters the generation key: one text, however it was written."""
        return f"{self.first}:{'' if self.last is None else self.last}"

    def within(self, rows: int) -> range:
        """Return the indices of a set of `rows` rows that belong to the range."""
        return range(rows)[self.first : self.last]


def parse(text: str) -> RowRange | None:
    """Return the range that a text means; None if it leaves nothing out. Raises SettingError."""
    if not text.strip():
        return None
    form = _FORM.fullmatch(text.strip())
    if form is None:
        raise SettingError(f"rows={text!r} is no range of rows, such as 0:20000, :100 or 100:")
    first, last = (int(bound) if bound else None for bound in form.groups())
    if last is not None and last <= (first or 0):
        raise SettingError(f"rows={text!r} holds no row: the second number is the first index that is left out")
    return RowRange(first or 0, last) if first or last is not None else None
