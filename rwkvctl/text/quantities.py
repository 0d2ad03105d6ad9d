"""Amounts as people say them, for the command line and for the programs below it."""

from collections.abc import Sequence
from typing import Final, Self

LEFT: Final = (0x00, 0x40, 0x44, 0x46, 0x47)
RIGHT: Final = (0x00, 0x80, 0xA0, 0xB0, 0xB8)


class Amount(str):
    """A number as people read it. `plain` is what a program reads in its place: no unit, no separators, a share as a
    fraction of 1."""

    __slots__ = ("plain",)
    plain: str

    def __new__(cls, text: str, value: float | None) -> Self:
        made = super().__new__(cls, text)
        whole = value is not None and float(value).is_integer()
        made.plain = "" if value is None else str(int(value)) if whole else f"{value:.10g}"
        return made


def plain(text: str) -> str:
    """What a program reads in the place of a cell's text."""
    if isinstance(text, Amount):
        return text.plain
    return "" if text == "–" else text


def count(value: float | None) -> str:
    """Return a number rounded to a whole one with thousands separators: `1,319`; a dash if it is unknown."""
    return "–" if value is None else Amount(f"{value:,.0f}", round(value))


def percent(value: float | None, digits: int = 1) -> str:
    """Return a fraction as a percentage without the percent sign."""
    return "–" if value is None else Amount(f"{100 * value:.{digits}f}", value)


def size(value: float | None) -> str:
    """Return a number of bytes in binary units: `1.5 GiB`; a dash if it is unknown."""
    return "–" if value is None else Amount(size_in_words(value), round(value))


def size_in_words(value: float) -> str:
    """Return a number of bytes in binary units: `977 KiB`, `1.5 GiB`."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(value) < 1024:
            return f"{value:.0f} {unit}" if unit in {"B", "KiB"} else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} TiB"


def duration(seconds: float | None) -> str:
    """Return seconds in at most two units: `8s`, `4m24s`, `2h41m`, `3d04h`; `–` if they are unknown."""
    return "–" if seconds is None else Amount(duration_in_words(max(0, round(seconds))), round(max(0.0, seconds), 3))


def duration_in_words(whole: int) -> str:
    """Return whole seconds in at most two units: `4m24s`."""
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02d}s"
    if whole < 86400:
        return f"{whole // 3600}h{whole % 3600 // 60:02d}m"
    return f"{whole // 86400}d{whole % 86400 // 3600:02d}h"


def money(value: float) -> str:
    """Return an amount of money, below 1 with more digits: `1,261.20`, `0.0134`."""
    return f"{value:,.2f}" if value >= 1 else f"{value:.4f}"


def several(number: int, what: str) -> str:
    """Return a number with its noun, in the plural unless it is 1: `1 job`, `1,319 jobs`."""
    return f"{number:,} {what}{'s' * (number != 1)}"


def all_done(eta_s: float | None, unknown: int) -> str:
    """Return in how long all jobs will be done, or why there is no ETA: `unknown` of them have no history. Empty if
    there are none."""
    if unknown:
        return f"no ETA: {several(unknown, 'job')} {'has' if unknown == 1 else 'have'} no history"
    return f"all done in {duration(eta_s)}" if eta_s else ""


def bar(share: float, width: int) -> str:
    """A bar that is readable without colour: `━━━╸┄┄`."""
    halves = round(min(1.0, max(0.0, share)) * width * 2)
    return ("━" * (halves // 2) + "╸" * (halves % 2)).ljust(width, "┄")


def spark(values: Sequence[float], width: int) -> str:
    """Draw the newest values, two per cell, each between 0 and 1."""
    newest = [0.0] * (2 * width) + list(values[-2 * width :])
    levels = [min(4, max(0, int(value * 4 + 0.5))) for value in newest[-2 * width :]]
    return "".join(chr(0x2800 | LEFT[a] | RIGHT[b]) for a, b in zip(levels[::2], levels[1::2], strict=True))
