"""A log that is followed: drawn at most five times a second, paused without loss, searched, filtered, wrapped.

Where the view stands is the number of a line, so nothing that is appended or given up moves it.
"""

import re
from collections.abc import Callable, Iterator
from typing import ClassVar, Final, get_args

from textual.binding import Binding, BindingType
from textual.events import MouseScrollDown, MouseScrollUp, Resize
from textual.geometry import Region
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from rwkvctl.tui.logs.filter import LEVEL_WORDS, LEVELS, Level, LogPlaces
from rwkvctl.tui.logs.find_time import line_at
from rwkvctl.tui.logs.lines import Stamps, needle_of, pieces, stamp_s
from rwkvctl.tui.logs.store import LineTest, LogStore, line_test
from rwkvctl.tui.widgets.strips import Pieces, lit, ruled, strip, theme_of, wrapped

FLUSH_S: Final = 0.2
STEP_LINES: Final = 8192
"""Lines that a filter looks at before keys are served again: a few milliseconds."""


class LogView(Widget, can_focus=True):
    """The lines of a `LogStore`. `feed` takes what a stream brings; keys do the rest."""

    DEFAULT_CSS = "LogView { height: 1fr; }"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "scroll(-1)", "Up", show=False),
        Binding("down,j", "scroll(1)", "Down", show=False),
        Binding("ctrl+u", "page(-0.5)", "Half a page up", show=False),
        Binding("ctrl+d", "page(0.5)", "Half a page down", show=False),
        Binding("ctrl+b,pageup", "page(-1)", "Page up", show=False),
        Binding("ctrl+f,pagedown", "page(1)", "Page down", show=False),
        Binding("left", "sideways(-20)", "Scroll left", show=False),
        Binding("right", "sideways(20)", "Scroll right", show=False),
        Binding("g,home", "top", "Oldest line", show=False),
        Binding("F,G,end", "follow", "Follow"),
        Binding("w", "wrap", "Wrap", show=False),
        Binding("t", "stamps", "Times: absolute, relative, none", show=False),
        Binding("v", "level", "All lines, warnings, errors", show=False),
        Binding("m", "note", "Set a mark", show=False),
        Binding("n", "hit(1)", "Next match", show=False),
        Binding("N", "hit(-1)", "Previous match", show=False),
        Binding("greater_than_sign", "error(1)", "Next error", show=False, key_display=">"),
        Binding("less_than_sign", "error(-1)", "Previous error", show=False, key_display="<"),
    ]

    class Missed(Message):
        """Sent when a search finds no line in its direction."""

        def __init__(self, view: "LogView", what: str) -> None:
            super().__init__()
            self.view, self.what = view, what

    def __init__(self, *, id: str, store: LogStore | None = None, name_of: str = "log") -> None:  # noqa: A002 - Textual's name
        super().__init__(id=id)
        self.store, self.name_of = store if store is not None else LogStore(), name_of
        self.places = LogPlaces(self.store)
        self.follow, self.wrap, self.stale = True, False, False
        self.stamps: Stamps = "absolute"
        self.search: LineTest | None = None
        self.needle: re.Pattern[str] | None = None
        self.top, self.row, self.left = 0, 0, 0
        self.marks = 0
        self._seeking: Iterator[int] = iter(())
        self._sought = ""
        self._drawn_end = 0
        self._lines: list[tuple[int, Pieces]] = []

    def on_mount(self) -> None:
        """Start the timer that draws appended lines, however many come."""
        self.set_interval(FLUSH_S, self.flush)

    # -- content ---------------------------------------------------------------------------------------------------

    def feed(self, text: str) -> int:
        """Take in a piece of the log, which may end within a line. Returns how many lines it completed."""
        return self.store.feed(text)

    def note(self, text: str) -> None:
        """Add a note of the console across the log."""
        self.store.note(text)

    def called(self, name: str) -> None:
        """Set the name in the title, and redraw the title if it is another one."""
        if name != self.name_of:
            self.name_of = name
            self.refresh(Region(0, 0, self.size.width, 1))

    def clear(self) -> None:
        """Remove all lines and follow new ones; the filter stays."""
        self.store.clear()
        self.follow, self.top, self.row = True, self.store.end, 0
        self._filter(self.places.text, self.places.least)

    def flush(self) -> None:
        """Draw what has been appended since; a view that stands still only counts it."""
        if self.store.end == self._drawn_end or held(self):
            return
        self._drawn_end = self.store.end
        self.places.look_on(STEP_LINES)
        if self.follow or len(self._lines) < self.body or self.top < self.places.first:
            self.refresh()
        else:
            self.refresh(Region(0, 0, self.size.width, 1))

    # -- drawing ---------------------------------------------------------------------------------------------------

    @property
    def body(self) -> int:
        """Return the number of rows for lines, below the title; at least 1."""
        return max(1, self.size.height - 1)

    def on_resize(self, event: Resize) -> None:
        """Redraw, since wrapped lines take another number of rows."""
        self.refresh()

    def rows_of(self, place: int) -> list[Pieces]:
        """Return the screen rows of the line at a place: one, or several if it is wrapped or stands for folded
        lines."""
        number = self.places.number(place)
        width = max(1, self.size.width - 1)
        if number in self.store.notes:
            return [[(self.store.notes[number], "title")]]
        found = pieces(self.store.line(number), self.stamps, self._start_s())
        if self.needle is not None:
            found = lit(found, self.needle)
        hidden = self.places.folded(place)
        above: list[Pieces] = (
            [[(f"    ╭ {hidden:,} lines folded that differ only in numbers", "dim")]] if hidden else []
        )
        return above + (wrapped(found, width) if self.wrap else [found])

    def _start_s(self) -> float | None:
        if self.stamps != "relative" or self.store.first == self.store.end:
            return None
        numbers = range(self.store.first, min(self.store.end, self.store.first + 50))
        found = (stamp_s(self.store.line(number).decode(errors="replace")) for number in numbers)
        return next((at_s for at_s in found if at_s is not None), None)

    def _lay_out(self) -> None:
        """Assign lines to screen rows: from the end upwards while following, else from `top` on."""
        self.top = max(self.top, self.places.first)
        lines: list[tuple[int, Pieces]] = []
        if self.follow:
            place = self.places.end
            while place > self.places.first and len(lines) < self.body:
                place -= 1
                lines = [(place, row) for row in self.rows_of(place)] + lines
            extra = max(0, len(lines) - self.body)
            self.top, self.row = place, extra
            lines = lines[extra:]
        else:
            place = self.top
            while place < self.places.end and len(lines) < self.body + self.row:
                lines += [(place, row) for row in self.rows_of(place)]
                place += 1
            lines = lines[self.row :]
        self._lines = lines[: self.body]

    def render_line(self, y: int) -> Strip:
        """Draw one row of the screen; the first row of a frame lays out the others."""
        width, look = self.size.width, theme_of(self)
        if y == 0:
            self._lay_out()
            return ruled(self.said(), width, look, stale=self.stale)
        if y > len(self._lines):
            return strip([], width, look)
        place, row = self._lines[y - 1]
        if self.places.number(place) in self.store.notes:
            return ruled(row, width, look, stale=self.stale)
        if self.left and not self.wrap:
            line = strip([(" ", ""), *row], width + self.left, look, stale=self.stale)
            return line.crop(self.left, self.left + width)
        return strip([(" ", ""), *row], width, look, stale=self.stale)

    def said(self) -> Pieces:
        """Return the title: which part of the log is shown, and how."""
        said = [(self.name_of, "title")]
        if self.follow:
            said.append((" · following", "ok"))
        else:
            last = self._lines[-1][0] + 1 if self._lines else self.places.end
            below = self.places.end - last
            said.append((f" · {below:,} lines below (F follows)" if below else " · frozen", "warn" if below else "dim"))
        places = self.places
        if places.text:
            said.append((f"  /{places.text}", "accent"))
        if places.least:
            said.append(("  errors only" if places.least == "bad" else "  warnings and errors", "accent"))
        if places.scan is not None:
            shown = f"  {len(places.scan.hits):,} of {self.store.end - self.store.first:,}"
            said.append((shown + ("" if places.scan.done else "…"), ""))
        modes = [("folded", places.folds), ("wrapped", self.wrap), (f"times {self.stamps}", self.stamps != "absolute")]
        said += [(f"  {word}", "dim") for word, on in modes if on]
        if self.search is not None:
            said.append((f"  &{self.search.text}", "accent"))
        return said

    # -- filter and search -----------------------------------------------------------------------------------------

    @property
    def filter_text(self) -> str:
        """Return the text of the filter in force; empty if there is none."""
        return self.places.text

    def filter(self, text: str) -> None:
        """Show only lines that match. Raises ValueError with a sentence for the operator."""
        self._filter(text, self.places.least)

    def _filter(self, text: str, least: Level) -> None:
        """Test every line anew; the line at the top stays, or the next one that is shown."""
        kept = self.places.number(self.top)
        self.places.filter(text, least)
        self._look_on(kept)

    def _look_on(self, kept: int) -> None:
        """Test the next lines, and let keys be handled in between."""
        done = self.places.look_on(STEP_LINES)
        if not self.follow:
            self.top, self.row = min(self.places.place(kept), max(self.places.first, self.places.end - 1)), 0
        self.refresh()
        if not done:
            self.call_later(self._look_on, kept)

    def find(self, text: str, *, forward: bool = True) -> None:
        """Go to the next line that matches, and remember the search. Raises ValueError with a sentence."""
        self.search = line_test(text) if text.strip() else None
        self.needle = needle_of(text) if text.strip() else None
        self.refresh()
        if self.search is not None:
            self._go_to(self.search, self.places.number(self.top), forward=forward)

    def _go_to(self, test: LineTest, start: int, *, forward: bool) -> None:
        """Go to the nearest shown line that matches. Keys are handled during the search, and a new search ends this
        one."""
        self._sought = test.text or "an error"
        self._seeking = self.places.seek(test, start, forward=forward)
        self._seek_on(self._seeking)

    def _seek_on(self, seeking: Iterator[int]) -> None:
        if seeking is not self._seeking:
            return
        number = next(seeking, None)
        if number is None:
            self.post_message(self.Missed(self, self._sought))
        elif number < 0:
            self.call_later(self._seek_on, seeking)
        else:
            self._stand_at(self.places.place(number))

    def _stand_at(self, place: int) -> None:
        self.follow, self.top, self.row = (
            False,
            min(max(self.places.first, place), max(self.places.first, self.places.end - 1)),
            0,
        )
        self.refresh()

    def go_to_time(self, text: str) -> bool:
        """Go to the first line at or after a time of day (`02:58`, `02:58:41`). False if it cannot be read or found."""
        number = line_at(self.store, text)
        if number is None:
            return False
        self._stand_at(self.places.place(number))
        return True

    def copied(self) -> str:
        """Return the line at the top, which `y` copies."""
        if not self.places.first <= self.top < self.places.end:
            return ""
        return self.store.line(self.places.number(self.top)).decode(errors="replace")

    # -- keys ------------------------------------------------------------------------------------------------------

    def action_scroll(self, by: int) -> None:
        """Move by rows. Moving up stops following; reaching the end does not start it again by itself."""
        if self.follow and by > 0:
            return
        self.follow = False
        step: Callable[[], bool] = self._down if by > 0 else self._up
        for _ in range(abs(by)):
            if not step():
                break
        self.refresh()

    def _up(self) -> bool:
        if self.row:
            self.row -= 1
        elif self.top > self.places.first:
            self.top -= 1
            self.row = len(self.rows_of(self.top)) - 1
        else:
            return False
        return True

    def _down(self) -> bool:
        if self.top < self.places.end and self.row + 1 < len(self.rows_of(self.top)):
            self.row += 1
        elif self.top + 1 < self.places.end:
            self.top, self.row = self.top + 1, 0
        else:
            return False
        return True

    def action_page(self, pages: float) -> None:
        """Scroll by pages or fractions of one; up if negative."""
        self.action_scroll(int(pages * self.body))

    def action_sideways(self, by: int) -> None:
        """Move to the left or right, where lines are not wrapped."""
        self.left = max(0, self.left + by)
        self.refresh()

    def action_top(self) -> None:
        """Go to the oldest line."""
        self._stand_at(self.places.first)

    def action_follow(self) -> None:
        """Go to the end and stay there."""
        self.follow = True
        self.refresh()

    def action_wrap(self) -> None:
        """Toggle between wrapped and cut long lines."""
        self.wrap, self.left, self.row = not self.wrap, 0, 0
        self.refresh()

    def action_stamps(self) -> None:
        """Switch between times as written, times since the start, and none."""
        kinds = get_args(Stamps)
        self.stamps = kinds[(kinds.index(self.stamps) + 1) % len(kinds)]
        self.refresh()

    def action_level(self) -> None:
        """Switch between all lines, warnings and errors, and errors only."""
        least = LEVELS[(LEVELS.index(self.places.least) + 1) % len(LEVELS)]
        self._filter(self.places.text, least)

    def action_fold(self) -> None:
        """Fold repeated lines into one, or show each again."""
        self.places.folds = not self.places.folds
        self._filter(self.places.text, self.places.least)

    def action_note(self) -> None:
        """Draw a line across the log, to find this moment again."""
        self.marks += 1
        self.store.note(f"mark {self.marks}")
        self.refresh()

    def action_hit(self, by: int) -> None:
        """Go to the next or previous line that was searched for."""
        if self.search is not None:
            self._step_to(self.search, by)

    def action_error(self, by: int) -> None:
        """Go to the next or previous error."""
        self._step_to(LineTest("", expression=re.compile(LEVEL_WORDS["bad"])), by)

    def _step_to(self, test: LineTest, by: int) -> None:
        number = self.places.number(self.top)
        self._go_to(test, number + 1 if by > 0 else number, forward=by > 0)

    def on_mouse_scroll_up(self, event: MouseScrollUp) -> None:
        self.action_scroll(-3)

    def on_mouse_scroll_down(self, event: MouseScrollDown) -> None:
        """Scroll by the wheel; at the end the view follows again."""
        self.action_scroll(3)
        if self._lines and self._lines[-1][0] + 1 >= self.places.end:
            self.action_follow()


def held(widget: Widget) -> bool:
    """Return whether the line to the terminal is too slow for another frame now."""
    throttle = getattr(widget.app, "frame_throttle", None)
    return throttle is not None and throttle.held
