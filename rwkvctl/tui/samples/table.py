"""The list of a job's samples: a hundred thousand of them, of which only those near the screen have texts."""

from textual.events import Resize

from rwkvctl.tui.samples.cache import TEXTS_AT_ONCE, SampleBook
from rwkvctl.tui.samples.columns import COLUMNS, SORTED_BY, SUBJECT, SampleRow, SampleRows
from rwkvctl.tui.samples.outline import nearest
from rwkvctl.tui.widgets.strips import Pieces
from rwkvctl.tui.widgets.table import LOADING, VTable
from rwkvctl.tui.widgets.table_rows import Listing


class SampleListing(Listing[SampleRow]):
    """A listing that shows the rows that its book selects, without reading any row to decide."""

    book: SampleBook | None = None

    def arrange(self, *, resort: bool = True) -> None:
        """Take the book's order, or that of a column over what the book shows."""
        self.shown = list(self.book.order) if self.book else []
        for column, descending in reversed(self.sorts):
            self.shown = self._ordered(self.shown, column, descending)
        if self.sorts and self.book:
            self.book.order = self.shown

    def place_of(self, key: str, near: int = 0) -> int:
        """Return the row in which a sample is shown, -1 if it is not; `near` is tried first."""
        place = self.book.outline.place(int(key)) if self.book and key else -1
        if 0 <= near < len(self.shown) and self.shown[near] == place:
            return near
        return self.shown.index(place) if place in self.shown else -1


class SampleTable(VTable[SampleRow]):
    """A table of samples that reports missing texts and filter changes; the screen fetches and filters."""

    class Bare(VTable.Opened):
        """Sent when rows on the screen, or near it, have no texts yet."""

    def __init__(self, *, id: str) -> None:  # noqa: A002 - Textual's name
        super().__init__(COLUMNS, lambda row: str(row.number), id=id, empty=LOADING)
        self.listing: SampleListing = SampleListing(COLUMNS, lambda row: str(row.number))

    def turn_to(self, book: SampleBook, title: str | Pieces, *, stale: bool = False) -> None:
        """Show the present rows of a book."""
        self.listing.book = book
        self.empty = book.problem or (LOADING if book.job and not book.outline.whole else "no samples")
        self._choose_columns(book)
        self.show(title, SampleRows(book), stale=stale)
        self.look()

    def _choose_columns(self, book: SampleBook) -> None:
        """Leave out the column of subjects if there are none."""
        columns = [column for column in COLUMNS if column is not SUBJECT or book.outline.subjects]
        if len(columns) != len(self.listing.columns):
            self.listing.columns = columns
            self.listing.sorts = []
            self._fit()

    def _said(self) -> Pieces:
        """Return the marks for the title; the screen shows how the list is narrowed."""
        return [(f"  {len(self.listing.marks)} marked", "accent")] if self.listing.marks else []

    def look(self) -> None:
        """Draw texts that have come, and ask for those that are missing."""
        self._compare()
        if self.missing():
            self.post_message(self.Bare(self, self.chosen))

    def missing(self) -> list[int]:
        """Return the numbers of samples without texts: those on the screen, then those a page around it."""
        book = self.listing.book
        if book is None:
            return []
        shown, page = self.listing.shown, self.page_rows
        wanted = [*shown[self._top : self._top + page], *shown[self._top + page : self._top + 2 * page]]
        wanted += shown[max(0, self._top - page) : self._top]
        numbers = (book.outline.numbers[place] for place in wanted)
        return [number for number in numbers if number not in book.texts and number not in book.absent][:TEXTS_AT_ONCE]

    def step(self, by: int, *, wrong: bool) -> bool:
        """Go to the next or previous row, or the next wrong one; False if there is none."""
        book = self.listing.book
        if book is None:
            return False
        mask = book.outline.mask("wrong") if wrong else b"\1" * len(book.outline)
        found = nearest(self.listing.shown, self.cursor, by, mask)
        if found >= 0:
            self.move_to(found)
        return found >= 0

    def sort(self, column: int, *, descending: bool | None = None) -> None:
        """Sort by a column whose values are known without texts."""
        field = self.listing.columns[column].field
        if field in SORTED_BY:
            super().sort(column, descending=descending)
        else:
            self.notify_unsortable(field)

    def notify_unsortable(self, field: str) -> None:
        """Say that samples cannot be sorted by this field, and by which fields they can."""
        say = getattr(self.app, "say", None)
        if say is not None:
            say(f"samples cannot be sorted by {field}; sort by {', '.join(sorted(SORTED_BY))}.", "warn")

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        if self.missing():
            self.post_message(self.Bare(self, self.chosen))

    def on_resize(self, event: Resize) -> None:
        """Ask for the texts of rows that the new size shows."""
        super().on_resize(event)
        self.look()
