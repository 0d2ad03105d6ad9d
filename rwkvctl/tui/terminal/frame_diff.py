"""The terminal's screen, cell by cell, and the shortest text that turns it into what should be there.

Textual sends every dirty line from its widget's left edge on, changed or not. Here a cell is sent only if it differs
from the one that was sent last: on a slow line that is a tenth of the bytes, and nothing at all where nothing changed.
`ScreenImage` reads Textual's private update classes; `tests/console/test_console_differ.py` names what it relies on.
"""

from collections.abc import Iterator
from functools import lru_cache
from typing import Final, NamedTuple

from rich.color import ColorSystem
from rich.console import Console
from rich.style import Style
from textual._compositor import ChopsUpdate, LayoutUpdate
from textual.strip import Strip

from rwkvctl.text.sanitize import PLAIN, cell_width

GAP: Final = 3
"""Unchanged cells up to this number are sent again where that is shorter than moving the cursor."""

UNKNOWN: Final = "\0"
"""A cell of which it is not known what the terminal shows."""

Update = ChopsUpdate | LayoutUpdate


class Sgr(NamedTuple):
    """The codes of a style, in the three groups that change independently."""

    attributes: tuple[str, ...] = ()
    foreground: tuple[str, ...] = ()
    background: tuple[str, ...] = ()


PLAINEST: Final = Sgr()


class FrameRow:
    """One line of the terminal: the text and style of each cell."""

    __slots__ = ("styles", "texts")

    def __init__(self, width: int) -> None:
        self.texts: list[str] = [UNKNOWN] * width
        self.styles: list[Sgr] = [PLAINEST] * width


class ScreenImage:
    """The cells that the terminal shows now. A wide character takes two cells; the second has an empty text."""

    def __init__(self) -> None:
        self.rows: dict[int, FrameRow] = {}
        self.width = 0

    def forget(self) -> None:
        """Drop what is known, since another program wrote or the size changed: the next frame is sent whole."""
        self.rows.clear()

    def difference(self, update: Update, console: Console, width: int) -> str:
        """Return the text to send for an update on a terminal of this width; empty if it changes nothing."""
        if width != self.width:
            self.forget()
            self.width = width
        system = console._color_system or ColorSystem.TRUECOLOR
        pen = Pen(width)
        for start, y, strip in placed(update):
            x, row = start, self.rows.get(y)
            if row is None:
                row = self.rows[y] = FrameRow(width)
            for text, style, control in strip:
                if not control:
                    x = draw(row, pen, x, y, text, codes(style, system))
        return pen.finished()


class Pen:
    """The terminal's cursor and style, and the text written so far in this frame."""

    def __init__(self, width: int) -> None:
        self.width = width
        self.out: list[str] = []
        self.style: Sgr | None = None
        self.at = (-1, -1)

    def write(self, row: FrameRow, x: int, y: int, text: str, style: Sgr, width: int) -> None:
        """Write a character at (x, y), after the cursor moves and style changes that it needs."""
        if self.at != (x, y):
            self._move(row, x, y, style)
        if style is not self.style:
            self.out.append(change(self.style, style))
            self.style = style
        self.out.append(text)
        sure = is_sure(text) and x + width < self.width
        self.at = (x + width, y) if sure else (-1, -1)

    def _move(self, row: FrameRow, x: int, y: int, style: Sgr) -> None:
        gap = x - self.at[0]
        if self.at[1] != y or gap < 0:
            self.out.append(f"\x1b[{y + 1};{x + 1}H" if x else f"\x1b[{y + 1}H")
        elif gap <= GAP and style is self.style and is_blank(row, self.at[0], x, style):
            self.out.append("".join(row.texts[self.at[0] : x]))
        else:
            self.out.append(f"\x1b[{gap}C" if gap > 1 else "\x1b[C")

    def finished(self) -> str:
        """Return the text written, with the style reset for other programs on this terminal."""
        return "".join((*self.out, "\x1b[m")) if self.out else ""


def draw(row: FrameRow, pen: Pen, x: int, y: int, text: str, style: Sgr) -> int:
    """Put a text of one style into a row, sending what differs. Returns the column after it."""
    texts, styles = row.texts, row.styles
    if PLAIN.issuperset(text):
        if x + len(text) > pen.width:
            text = text[: pen.width - x]
        for char in text:
            if texts[x] != char or styles[x] is not style:
                if not texts[x] or (x + 1 < pen.width and not texts[x + 1]):
                    uncover(row, x)
                pen.write(row, x, y, char, style, 1)
                texts[x], styles[x] = char, style
            x += 1
        return x
    for cluster, width in clusters(text):
        if x + width > pen.width:
            break
        put(row, pen, x, y, cluster, style, width)
        x += width
    return x


def put(row: FrameRow, pen: Pen, x: int, y: int, text: str, style: Sgr, width: int) -> None:
    """Put one character, with the marks on it, into its one or two cells."""
    covered = width == 1 or row.texts[x + 1] == ""
    if row.texts[x] == text and row.styles[x] is style and covered:
        return
    uncover(row, x)
    if width > 1:
        uncover(row, x + 1)
    pen.write(row, x, y, text, style, width)
    row.texts[x], row.styles[x] = text, style
    if width > 1:
        row.texts[x + 1], row.styles[x + 1] = "", style


def uncover(row: FrameRow, x: int) -> None:
    """Mark the other half of a wide character as unknown when one half is overwritten."""
    if not row.texts[x] and x:
        row.texts[x - 1] = UNKNOWN
    if x + 1 < len(row.texts) and not row.texts[x + 1]:
        row.texts[x + 1] = UNKNOWN


def is_blank(row: FrameRow, start: int, end: int, style: Sgr) -> bool:
    """Return whether these cells can be sent again as they are, in one style."""
    return all(row.styles[x] is style and row.texts[x] in PLAIN for x in range(start, end))


def placed(update: Update) -> Iterator[tuple[int, int, Strip]]:
    """Return the strips of an update with their positions, cropped to the dirty region."""
    if isinstance(update, LayoutUpdate):
        for y, line in enumerate(update.strips, update.region.y):
            x = update.region.x
            for strip in line:
                yield x, y, strip
                x += strip.cell_length
        return
    for y, x1, x2 in update.spans:
        for end, (x, chop) in zip(update.chop_ends[y], update.chops[y].items(), strict=False):
            start, stop = max(x1, x), min(x2, end)
            if chop is not None and start < stop:
                yield start, y, chop.crop(start - x, stop - x)


def clusters(text: str) -> Iterator[tuple[str, int]]:
    """The characters of a text, each with the marks that lie on it, and its width in cells.

    A mark at the very beginning belongs to a cell that was cropped away, and would be drawn into it.
    """
    held, width = "", 0
    for char in text:
        wide = cell_width(char)
        if wide and width:
            yield held, width
            held, width = "", 0
        if wide or width:
            held, width = held + char, width + wide
    if width:
        yield held, width


@lru_cache(4096)
def is_sure(text: str) -> bool:
    """Whether every terminal agrees on this character's width. After any other the cursor is placed anew, so that a
    disagreement stays in its cell."""
    return text in PLAIN or (len(text) == 1 and ("\u3041" <= text <= "\u9fff" or "\uac00" <= text <= "\ud7a3"))


@lru_cache(4096)
def codes(style: Style | None, system: ColorSystem) -> Sgr:
    """The codes of a style. The same style gives the same object, so styles are compared by identity."""
    if style is None:
        return PLAINEST
    found = [code for code in Strip.render_ansi(style.without_color, system).split(";") if code]
    front = style.color.downgrade(system).get_ansi_codes() if style.color else ()
    back = style.bgcolor.downgrade(system).get_ansi_codes(foreground=False) if style.bgcolor else ()
    return kept(Sgr(tuple(found), tuple(front), tuple(back)))


@lru_cache(4096)
def kept(sgr: Sgr) -> Sgr:
    """Return the cached object for these codes, so that styles can be compared by identity."""
    return sgr


@lru_cache(4096)
def change(before: Sgr | None, after: Sgr) -> str:
    """Return the shortest escape sequence from one style to another."""
    whole = [*after.attributes, *after.foreground, *after.background]
    if before is None or set(before.attributes) - set(after.attributes):
        return f"\x1b[{';'.join(['0', *whole])}m"
    new = [code for code in after.attributes if code not in before.attributes]
    if after.foreground != before.foreground:
        new += after.foreground or ("39",)
    if after.background != before.background:
        new += after.background or ("49",)
    short, long = f"\x1b[{';'.join(new)}m", f"\x1b[{';'.join(['0', *whole])}m"
    return "" if not new else min(short, long, key=len)
