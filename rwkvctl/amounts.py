"""Amounts as people say them, for the command line and for the programs below it."""

from collections.abc import Sequence
from typing import Final

LEFT: Final = (0x00, 0x40, 0x44, 0x46, 0x47)
RIGHT: Final = (0x00, 0x80, 0xA0, 0xB0, 0xB8)


def size(value: float | None) -> str:
    """Bytes as people say them."""
    if value is None:
        return "–"
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(value) < 1024:
            return f"{value:.0f} {unit}" if unit in {"B", "KiB"} else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} TiB"


def duration(seconds: float | None) -> str:
    """`8s`, `4m24s`, `2h41m`, `3d04h`."""
    if seconds is None:
        return "–"
    whole = max(0, round(seconds))
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02d}s"
    if whole < 86400:
        return f"{whole // 3600}h{whole % 3600 // 60:02d}m"
    return f"{whole // 86400}d{whole % 86400 // 3600:02d}h"


def bar(share: float, width: int) -> str:
    """A bar that is readable without colour: `━━━╸┄┄`."""
    halves = round(min(1.0, max(0.0, share)) * width * 2)
    return ("━" * (halves // 2) + "╸" * (halves % 2)).ljust(width, "┄")


def spark(values: Sequence[float], width: int) -> str:
    """The newest values, two to a cell, each between 0 and 1."""
    newest = [0.0] * (2 * width) + list(values[-2 * width :])
    levels = [min(4, max(0, int(value * 4 + 0.5))) for value in newest[-2 * width :]]
    return "".join(chr(0x2800 | LEFT[a] | RIGHT[b]) for a, b in zip(levels[::2], levels[1::2], strict=True))
