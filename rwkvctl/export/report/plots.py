"""A score over the checkpoints, as an SVG of our own: no library, no style but classes of the page."""

import math
from collections.abc import Sequence
from html import escape
from typing import Final, NamedTuple

from rwkvctl.scoreboard.book import Key
from rwkvctl.scoreboard.matrix import MatrixRow
from rwkvctl.text.sanitize import fit, safe_line

WIDTH: Final = 340
HEIGHT: Final = 170
LEFT: Final = 34
RIGHT: Final = 44
TOP: Final = 8
BOTTOM: Final = 20
NAME_HEIGHT: Final = 10
SERIES: Final = 6
"""Sizes that have a colour of their own; all have their name beside the line."""


class Dot(NamedTuple):
    """A checkpoint's score: its place in time, and its interval where there is one."""

    place: int
    value: float
    low: float
    high: float
    name: str


def dots_of(rows: Sequence[MatrixRow], key: Key) -> dict[float | None, list[Dot]]:
    """The scores of one column by the size of the model, oldest first; a share as a percentage."""
    scored = [(row, row.cells[key].read()) for row in reversed(rows) if key in row.cells]
    known = [(row, read) for row, read in scored if read is not None and read.value is not None]
    found: dict[float | None, list[Dot]] = {}
    for place, (row, read) in enumerate(known):
        factor = 100.0 if read.unit == "share" else 1.0
        value = factor * (read.value or 0.0)
        low, high = (value if end is None else factor * end for end in (read.low, read.high))
        found.setdefault(row.size, []).append(Dot(place, value, low, high, row.name))
    return found


def scale_of(dots: Sequence[Dot]) -> tuple[float, float, float]:
    """Round numbers around all dots and their intervals, and the step between lines."""
    low, high = min(dot.low for dot in dots), max(dot.high for dot in dots)
    span = max(high - low, 1e-6)
    step = 10.0 ** math.floor(math.log10(span))
    step = next(step * times for times in (0.5, 1, 2, 5) if span / (step * times) <= 4)
    bottom = step * math.floor(low / step)
    return bottom, max(step * math.ceil(high / step), bottom + step), step


def sizes_of(rows: Sequence[MatrixRow]) -> list[float | None]:
    """Return every model size, the smallest first; its index is its colour in every plot."""
    return sorted({row.size for row in rows}, key=lambda size: (size is None, size or 0.0))


def plot(rows: Sequence[MatrixRow], key: Key, title: str) -> str:
    """The SVG of one column; empty where no line could be drawn."""
    series = dots_of(rows, key)
    every = [dot for dots in series.values() for dot in dots]
    if len(every) < 2:
        return ""
    low, high, step = scale_of(every)
    lines = max(1, round((high - low) / step))
    parts = [grid(low + step * n, n / lines, step) for n in range(lines + 1)]
    colours = {size: number for number, size in enumerate(sizes_of(rows))}
    heights = apart([height_of(dots[-1].value, low, high) for dots in series.values()])
    parts += [
        line(dots, size_in_words(size), colours[size], (low, high, len(every)), y)
        for (size, dots), y in zip(series.items(), heights, strict=True)
    ]
    label = escape(f"{title} over {len(every)} checkpoints")
    return (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{label}">{"".join(parts)}'
        f'<text class="axis" x="{LEFT}" y="{HEIGHT - 4}">older</text>'
        f'<text class="axis" x="{WIDTH - RIGHT}" y="{HEIGHT - 4}" text-anchor="end">newer</text></svg>'
    )


def height_of(value: float, low: float, high: float) -> float:
    """Return the y coordinate of a value."""
    return HEIGHT - BOTTOM - (value - low) / (high - low) * (HEIGHT - TOP - BOTTOM)


def apart(heights: Sequence[float]) -> list[float]:
    """The heights of names, each as near as can be to its line, so that none covers another."""
    placed = [0.0] * len(heights)
    floor = float(HEIGHT - BOTTOM)
    for place in sorted(range(len(heights)), key=lambda place: -heights[place]):
        placed[place] = min(heights[place], floor)
        floor = placed[place] - NAME_HEIGHT
    lift = max(0.0, TOP - min(placed, default=TOP))
    return [y + lift for y in placed]


def size_in_words(size: float | None) -> str:
    """Return a size in billions of parameters as a label: `1.5b`, or `other` if it is unknown."""
    return fit("other" if size is None else f"{size:g}b", 6)


def legend(rows: Sequence[MatrixRow], key: Key) -> str:
    """Return the legend of a plot: the checkpoints of each line, in the order of the axis; empty if it has no lines."""
    colours = {size: number for number, size in enumerate(sizes_of(rows))}
    entries = "".join(
        f'<li class="s{colours[size] % SERIES}"><b>{escape(size_in_words(size))}</b> {named(dots)}</li>'
        for size, dots in dots_of(rows, key).items()
    )
    return f'<ul class="legend">{entries}</ul>' if entries else ""


def named(dots: Sequence[Dot]) -> str:
    """The first and the last checkpoint of a line, and how many lie between."""
    names = [escape(safe_line(dot.name)) for dot in dots]
    between = f" over {len(dots) - 2} more" if len(dots) > 2 else ""
    return names[0] if len(names) == 1 else f"{names[0]}{between} to {names[-1]}"


def grid(value: float, share: float, step: float) -> str:
    """Return the SVG of one horizontal grid line with its label; `share` is its height as a fraction of the plot."""
    y = HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM)
    digits = max(0, -math.floor(math.log10(step)))
    return (
        f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
        f'<text class="axis" x="{LEFT - 5}" y="{y + 3:.1f}" text-anchor="end">{value:.{digits}f}</text>'
    )


def line(dots: Sequence[Dot], size: str, number: int, scale: tuple[float, float, int], name_y: float) -> str:
    """The line of one size, its intervals, and its name at the end of the axis, beside its last value."""
    low, high, count = scale
    room = WIDTH - LEFT - RIGHT - 16

    def at(value: float) -> float:
        return height_of(value, low, high)

    xs = [LEFT + 8 + room * dot.place / max(1, count - 1) for dot in dots]
    path = " ".join(f"{x:.1f},{at(dot.value):.1f}" for x, dot in zip(xs, dots, strict=True))
    marks = "".join(
        f'<g><title>{escape(safe_line(dot.name))}: {dot.value:.4g} ({dot.low:.4g} to {dot.high:.4g})</title>'
        f'<line class="whisker" x1="{x:.1f}" x2="{x:.1f}" y1="{at(dot.low):.1f}" y2="{at(dot.high):.1f}"/>'
        f'<circle cx="{x:.1f}" cy="{at(dot.value):.1f}" r="2.6"/></g>'
        for x, dot in zip(xs, dots, strict=True)
    )  # fmt: skip
    name = f'<text x="{WIDTH - RIGHT + 2}" y="{name_y + 3:.1f}">{escape(size)}</text>'
    if xs[-1] < WIDTH - RIGHT - 10:  # a line that ends early is led to its name
        ends = f'x1="{xs[-1]:.1f}" x2="{WIDTH - RIGHT}" y1="{at(dots[-1].value):.1f}" y2="{name_y:.1f}"'
        name += f'<line class="lead" {ends}/>'
    return f'<g class="s{number % SERIES}"><polyline points="{path}"/>{marks}{name}</g>'
