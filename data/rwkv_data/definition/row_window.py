"""Rows by when they were published: up to a release of the set, and from one day to another.

A model may have seen what is older than its training data, so a window of days decides what a score of contest problems
means. Releases only add rows at the end, so the first N rows of a set are its earlier release.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Final, NamedTuple

from rwkv_data.definition.errors import SettingError
from rwkv_data.definition.row_fields import RowFields, RowsAtHand
from rwkv_data.definition.stage import Row

SETTINGS: Final = ("release", "start_date", "end_date")


class Extent(NamedTuple):
    """How many rows a set has, and what a choice among them can go by: the day of each (YYYY-MM-DD) where they have one
    and it is known, and their fields, None where they were prepared without them."""

    rows: int
    dates: tuple[str, ...] = ()
    fields: RowFields | None = None

    @classmethod
    def of(cls, rows: Sequence[Row]) -> "Extent":
        """Return the extent of rows that are at hand."""
        dates = tuple(str(row["date"]) for row in rows) if rows and "date" in rows[0] else ()
        return cls(len(rows), dates, RowsAtHand(rows))


class Release(NamedTuple):
    """A release of a set: how many rows it has, and the last day on which one of them was published."""

    rows: int
    until: str


@dataclass(frozen=True, slots=True)
class Window:
    """Which rows of a set are asked; an empty field leaves nothing out. Both days belong to the window."""

    releases: Mapping[str, Release]
    release: str = ""
    start_date: str = ""
    end_date: str = ""

    @property
    def leaves_out(self) -> bool:
        """Whether a bound is set, so that rows may be left out."""
        return bool(self.release or self.start_date or self.end_date)

    @property
    def settings(self) -> dict[str, str]:
        """Return the settings of the window with their present values."""
        return {name: getattr(self, name) for name in SETTINGS}

    def with_setting(self, name: str, text: str) -> "Window":
        """Return the window with one setting replaced. Raises SettingError if the value does not fit."""
        if name == "release" and text and text not in self.releases:
            raise SettingError(f"release={text!r} is none of {', '.join(self.releases)}")
        if name != "release" and text and not _is_day(text):
            raise SettingError(f"{name}={text!r} is no day, such as 2024-08-01")
        return Window(self.releases, **(self.settings | {name: text}))

    def problem(self, extent: Extent) -> str:
        """Return why the window cannot be applied to a set; empty if it can."""
        if not self.leaves_out:
            return ""
        if self.end_date and self.start_date > self.end_date:
            return f"start_date={self.start_date} is after end_date={self.end_date}"
        if len(extent.dates) != extent.rows:
            return "its rows were prepared without their days: prepare them again"
        if self.release:
            release = self.releases[self.release]
            if release.rows > extent.rows:
                return f"release {self.release} has {release.rows} rows, and {extent.rows} are prepared"
            if max(extent.dates[: release.rows]) > release.until:
                return f"its first {release.rows} rows are not those of release {self.release}"
        return "" if self.indices(extent) else "none of its rows lies between these days"

    def indices(self, extent: Extent) -> list[int]:
        """Return the indices of the rows in the window, in order."""
        first = self.releases[self.release].rows if self.release else extent.rows
        if not (self.start_date or self.end_date):
            return list(range(min(first, extent.rows)))
        end = self.end_date or "9999"
        return [index for index, day in enumerate(extent.dates[:first]) if self.start_date <= day <= end]


def _is_day(text: str) -> bool:
    try:
        return date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False
