"""Small pictures in cells of 2 x 4 dots: a spark of one row, and a line with intervals over several. Pure but `Chart`.

Scales are fixed by the caller, never stretched to the data: 97 % that does not move is a flat line near the top.
"""

import math
from collections.abc import Sequence
from typing import Final, NamedTuple

from textual.strip import Strip
from textual.widget import Widget

from rwkvctl.text import quantities
from rwkvctl.text.quantities import bar
from rwkvctl.tui.widgets.strips import Pieces, ruled, strip, theme_of

spark = quantities.spark
DOTS: Final = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))
"""Bits of a Braille cell by row and column of its dots."""


class Point(NamedTuple):
    """A value with its interval and a label under the axis."""

    value: float
    low: float | None = None
    high: float | None = None
    label: str = ""


def gauge(share: float, width: int, warn_above: float = 2.0) -> tuple[str, str]:
    """Return a bar and its role, which warns above a share."""
    return bar(share, width), "warn" if share > warn_above else "info"


class Canvas:
    """Dots in cells; the role drawn last into a cell colours it."""

    def __init__(self, width: int, height: int) -> None:
        self.width, self.height = width, height
        self._dots = [[0] * width for _ in range(height)]
        self._roles = [[""] * width for _ in range(height)]

    def dot(self, x: int, y: int, role: str) -> None:
        """Set a dot; dots outside the canvas are ignored."""
        if 0 <= x < 2 * self.width and 0 <= y < 4 * self.height:
            self._dots[y // 4][x // 2] |= DOTS[y % 4][x % 2]
            self._roles[y // 4][x // 2] = role

    def line(self, start: tuple[int, int], end: tuple[int, int], role: str) -> None:
        """Draw a straight line of dots from start to end, both included."""
        steps = max(abs(end[0] - start[0]), abs(end[1] - start[1]), 1)
        for step in range(steps + 1):
            part = step / steps
            x, y = (round(a + (b - a) * part) for a, b in zip(start, end, strict=True))
            self.dot(x, y, role)

    def rows(self) -> list[list[tuple[str, str]]]:
        """Return the canvas as lines of braille characters, each with its role."""
        return [
            [(chr(0x2800 | dots), role) for dots, role in zip(line, roles, strict=True)]
            for line, roles in zip(self._dots, self._roles, strict=True)
        ]


def ticks(bottom: float, top: float, rows: int) -> list[str]:
    """The values at the rows of a scale, from the top down, with as many digits as tell them apart and say what they
    are."""
    step = (top - bottom) / max(1, rows - 1) or 1.0
    digits = max(0, math.ceil(-math.log10(step)))
    digits += any(not math.isclose(number, round(number, digits), abs_tol=1e-6 * step) for number in (step, top))
    return [f"{top - step * row:.{digits}f}" for row in range(rows)]


def plot(points: Sequence[Point], size: tuple[int, int], scale: tuple[float, float]) -> list[Pieces]:
    """Values in order, joined by a line, each with the whisker of its interval; `scale` is bottom and top."""
    width, height = size
    bottom, top = scale
    labels = ticks(bottom, top, height - 1)
    margin = max(map(len, labels)) + 1
    canvas = Canvas(max(1, width - margin - 1), height - 1)
    tall, wide = 4 * canvas.height - 1, 2 * canvas.width - 1

    def at(place: int, value: float) -> tuple[int, int]:
        x = round(wide * place / (len(points) - 1)) if len(points) > 1 else wide // 2
        share = (value - bottom) / ((top - bottom) or 1.0)
        return x, round(tall * (1 - min(1.0, max(0.0, share))))

    for place, point in enumerate(points):
        if point.low is not None and point.high is not None:
            canvas.line(at(place, point.low), at(place, point.high), "dim")
    for place in range(len(points) - 1):
        canvas.line(at(place, points[place].value), at(place + 1, points[place + 1].value), "info")
    for place, point in enumerate(points):
        canvas.dot(*at(place, point.value), "bold")
    drawn: list[Pieces] = [
        [(f"{label:>{margin}}", "dim"), ("┤", "rule"), *row] for label, row in zip(labels, canvas.rows(), strict=True)
    ]
    return [*drawn, [(" " * margin, ""), ("└", "rule"), (axis(points, canvas.width), "dim")]]


def axis(points: Sequence[Point], width: int) -> str:
    """Return the labels under the points, as far as there is room."""
    line = ["─"] * width
    taken = -1
    for place, point in enumerate(points):
        x = round((width - 1) * place / (len(points) - 1)) if len(points) > 1 else width // 2
        start = min(max(0, x - len(point.label) // 2), width - len(point.label))
        if point.label and start > taken:
            line[start : start + len(point.label)] = point.label
            taken = start + len(point.label)
    return "".join(line)


class Chart(Widget):
    """A plot of points with intervals on a fixed scale, below a title."""

    DEFAULT_CSS = "Chart { height: 8; }"

    def __init__(self, *, id: str) -> None:  # noqa: A002 - Textual's name
        super().__init__(id=id)
        self.title: Pieces = ()
        self.points: list[Point] = []
        self.scale = (0.0, 1.0)
        self.stale = False
        self._lines: list[Pieces] = []

    def show(self, title: Pieces, points: Sequence[Point], scale: tuple[float, float], *, stale: bool = False) -> None:
        """Replace the points; draws only if something differs."""
        if (list(title), list(points), scale, stale) != (list(self.title), self.points, self.scale, self.stale):
            self.title, self.points, self.scale, self.stale = list(title), list(points), scale, stale
            self.refresh()

    def render_line(self, y: int) -> Strip:
        """Draw the title in row 0 and the plot below; row 0 computes the plot for the present size."""
        width, look = self.size.width, theme_of(self)
        if y == 0:
            room = (max(12, width), max(3, self.size.height - 1))
            self._lines = plot(self.points, room, self.scale) if self.points else []
            return ruled(self.title, width, look, stale=self.stale)
        line = self._lines[y - 1] if y <= len(self._lines) else []
        return strip(line, width, look, stale=self.stale)
