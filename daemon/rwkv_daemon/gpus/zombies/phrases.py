"""Durations and foreign text for use in sentences."""


def span(seconds: float) -> str:
    """Return a duration in words: `45 s`, `12 min`, `3 h`, `5 d`, in the largest unit that fits twice, or once where it
    is exact enough."""
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * length or (unit != "d" and seconds >= length and seconds % length < length / 10):
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


def printable(text: str) -> str:
    """Replace what a terminal or a log would interpret in a name that anybody may have chosen."""
    return "".join(c if c.isprintable() else " " if c in "\n\t" else "?" for c in text)
