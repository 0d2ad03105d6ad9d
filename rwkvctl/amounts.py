"""Amounts as people say them, for the command line and for the programs below it."""


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
