"""A view of long texts: parts with titles, wrapped or not, searchable. The title of the current part stays on top."""

import re
from typing import ClassVar, Final

from textual.binding import Binding, BindingType
from textual.events import Resize
from textual.geometry import Size
from textual.scroll_view import ScrollView
from textual.strip import Strip

from rwkvctl.tui.widgets.strips import Pieces, lit, ruled, strip, theme_of
from rwkvctl.tui.widgets.wrapped_text import INDENT, Page, Part

STEP_COLUMNS: Final = 20
NOTHING: Final = re.compile("(?!)")
"""What is found nowhere."""


class TextView(ScrollView, can_focus=True, inherit_bindings=False):
    """Shows parts; the scroll position is kept when parts of the same names replace them."""

    DEFAULT_CSS = "TextView { height: 1fr; overflow-x: hidden; overflow-y: scroll; scrollbar-size-vertical: 1; }"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1)", "Up", show=False),
        Binding("down,j", "move(1)", "Down", show=False),
        Binding("ctrl+u", "page(-0.5)", "Half a page up", show=False),
        Binding("ctrl+d", "page(0.5)", "Half a page down", show=False),
        Binding("ctrl+b,pageup", "page(-1)", "Page up", show=False),
        Binding("ctrl+f,pagedown", "page(1)", "Page down", show=False),
        Binding("g,home", "top", "Top", show=False),
        Binding("G,end", "bottom", "End", show=False),
        Binding("left", "sideways(-1)", "Scroll left", show=False),
        Binding("right", "sideways(1)", "Scroll right", show=False),
        Binding("greater_than_sign", "part(1)", "Next part", show=False, key_display=">"),
        Binding("less_than_sign", "part(-1)", "Previous part", show=False, key_display="<"),
        Binding("w", "wrap", "Wrap"),
        Binding("n", "hit(1)", "Next match", show=False),
        Binding("N", "hit(-1)", "Previous match", show=False),
    ]

    def __init__(self, *, id: str) -> None:  # noqa: A002 - Textual's name
        super().__init__(id=id)
        self.parts: list[Part] = []
        self.wrap, self.stale, self.left = True, False, 0
        self.text, self.needle = "", NOTHING
        self.hits: list[int] = []
        self._at_hit = self._hit_top = -1
        self._page = Page([], 0)
        self._folded = -1

    # -- what is shown ---------------------------------------------------------------------------------------------

    def show(self, parts: list[Part], *, stale: bool = False, anew: bool = False) -> None:
        """Replace the parts; `anew` begins at the top, else the same part stays in view, at the same row."""
        top, part = self.scroll_offset.y, self._page.part_at(self.scroll_offset.y)
        name = self._page.parts[part].name if self._page.parts else ""
        into = top - self._page.starts[part] if name else 0
        self.stale, self.parts = stale, parts
        self._fold()
        there = next((place for place, one in enumerate(parts) if one.name == name), -1)
        self._stand(0 if anew or there < 0 else self._page.starts[there] + into)

    @property
    def reading(self) -> Part | None:
        """Return the part at the top of the view; None if there are no parts."""
        return self.parts[self._page.part_at(self.scroll_offset.y)] if self.parts else None

    @property
    def body_rows(self) -> int:
        """Number of rows below the title, at least 1."""
        return max(1, self.size.height - 1)

    def _fold(self) -> None:
        width = self.scrollable_size.width - INDENT
        self._folded = width
        self._page = Page(self.parts, width if self.wrap else 0)
        self.virtual_size = Size(self.scrollable_size.width, len(self._page.rows))
        self._find_hits()
        self.refresh()

    def on_resize(self, event: Resize) -> None:
        """Wrap lines for the new width; the part that is read stays on top."""
        if self.scrollable_size.width - INDENT != self._folded:
            self.show(self.parts, stale=self.stale)

    def _stand(self, row: int) -> None:
        self.scroll_to(y=max(0, row), animate=False, force=True, immediate=True)

    # -- drawing ---------------------------------------------------------------------------------------------------

    def render_line(self, y: int) -> Strip:
        """Draw one row: the title of the current part, then its text."""
        width, look = self.scrollable_size.width, theme_of(self)
        row = y + self.scroll_offset.y
        page = self._page
        if not page.rows:
            return strip([], width, look)
        if y == 0:
            return ruled(self._title(page.part_at(row)), width, look, stale=self.stale)
        if row >= len(page.rows):
            return strip([], width, look)
        found = page.pieces(row)
        if page.rows[row].line < 0:
            return ruled(found, width, look, stale=self.stale)
        shown = lit(found, self.needle) if self.text else found
        line = strip([(" " * INDENT, ""), *shown], width + self.left, look, stale=self.stale)
        return line.crop(self.left, self.left + width) if self.left else line

    def _title(self, part: int) -> Pieces:
        """Return a part's title; with the position in a long part, and the search."""
        page, top = self._page, self.scroll_offset.y
        start, end = page.starts[part], page.end_of(part)
        title = list(page.parts[part].title)
        if end - start > self.body_rows:
            title.append((f"  row {max(1, top - start + 1):,} of {end - start - 1:,}", "dim"))
        if self.text:
            found = f"{len(self.hits):,} rows" if self.hits else "none"
            title.append((f"  &{self.text}  {found}", "accent"))
        return title

    # -- search ----------------------------------------------------------------------------------------------------

    def find(self, text: str) -> bool:
        """Go to the next row that contains a text. Returns False if there is none; raises ValueError for a bad
        expression."""
        self.text, self.needle = text.strip(), needle_of(text.strip())
        self._find_hits()
        self.refresh()
        if self.hits:
            self._stand_at_hit(next((row for row in self.hits if row > self.scroll_offset.y), self.hits[0]))
        return bool(self.hits) or not self.text

    def _find_hits(self) -> None:
        if not self.text:
            self.hits = []
            return
        page, found = self._page, dict[int, None]()
        for number, part in enumerate(page.parts):
            for place, line in enumerate(part.lines):
                for match in self.needle.finditer(line.text):
                    found[page.row_of(number, place, match.start())] = None
        self.hits = list(found)

    def _stand_at_hit(self, row: int) -> None:
        """Scroll a hit to the second row, under the title, or lower near the end of the text."""
        self._stand(row - 1)
        self._at_hit, self._hit_top = row, self.scroll_offset.y

    def action_hit(self, by: int) -> None:
        """Go to the next or previous hit."""
        top = self.scroll_offset.y
        at = self._at_hit if top == self._hit_top else top + 1
        after = [row for row in self.hits if row > at] if by > 0 else [row for row in reversed(self.hits) if row < at]
        if after:
            self._stand_at_hit(after[0])

    # -- moving ----------------------------------------------------------------------------------------------------

    def action_move(self, by: int) -> None:
        """Scroll down by so many rows; up if negative."""
        self._stand(self.scroll_offset.y + by)

    def action_page(self, pages: float) -> None:
        """Scroll by pages or fractions of one; up if negative."""
        self.action_move(int(pages * self.body_rows))

    def action_top(self) -> None:
        self._stand(0)

    def action_bottom(self) -> None:
        self._stand(len(self._page.rows))

    def action_part(self, by: int) -> None:
        """Go to the next part, or to the beginning of this one and then to the one before."""
        top = self.scroll_offset.y
        starts = [start for start in self._page.starts if (start > top if by > 0 else start < top)]
        if starts:
            self._stand(starts[0] if by > 0 else starts[-1])

    def stand_at(self, name: str) -> None:
        """Scroll to the first part whose title begins with a text."""
        wanted = (place for place, part in enumerate(self.parts) if part.title and part.title[0][0].startswith(name))
        place = next(wanted, None)
        if place is not None:
            self._stand(self._page.starts[place])

    def action_sideways(self, by: int) -> None:
        """Move to the left or right, where lines are not folded."""
        self.left = 0 if self.wrap else max(0, self.left + by * STEP_COLUMNS)
        self.refresh()

    def action_wrap(self) -> None:
        """Toggle between wrapped and cut long lines."""
        self.wrap, self.left = not self.wrap, 0
        self.show(self.parts, stale=self.stale)


def needle_of(text: str) -> re.Pattern[str]:
    """Return the pattern of a search: the text, in any case unless it has capitals, or the expression after `re:`.
    Raises ValueError with a sentence for the operator."""
    if not text:
        return NOTHING
    try:
        pattern = text[3:] if text.startswith("re:") else re.escape(text)
        return re.compile(pattern, re.IGNORECASE if text == text.lower() else 0)
    except re.error as error:
        raise ValueError(f"{text[3:]} is not a regular expression: {error}") from error
