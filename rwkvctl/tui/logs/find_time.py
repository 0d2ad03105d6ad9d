"""Where in a log a time of day lies: the search for `@02:58`. Pure."""

import re
from typing import Final

from rwkvctl.tui.logs.lines import DAY_S, stamp_s
from rwkvctl.tui.logs.store import LogStore, Piece

TIME: Final = re.compile(r"@?(\d{1,2}):(\d\d)(?::(\d\d))?")

MIDNIGHT_S: Final = 3600.0
"""A time that is so much later than that of the next line is of the day before."""


def line_at(store: LogStore, text: str) -> int | None:
    """The first line at or after the latest occurrence of a time of day; None if the text is no time, or no line is as
    late. A log that began after that time is shown from its first line."""
    match = TIME.fullmatch(text.strip())
    if not match:
        return None
    wanted = int(match[1]) * 3600 + int(match[2]) * 60 + int(match[3] or 0)
    found, later_s = None, DAY_S
    for piece in store.pieces(store.first, store.end, backward=True):
        times = stamped(piece, store.first)
        if not times:
            continue
        if times[0][1] > times[-1][1] or times[0][1] < wanted <= times[-1][1]:
            times = stamped(piece, store.first, every=True)  # midnight, or the time itself, lies within
        for number, at_s in reversed(times):
            if found is not None and (at_s < wanted or at_s > later_s + MIDNIGHT_S):
                return found
            found, later_s = (number if at_s >= wanted else found), at_s
    return found


def stamped(piece: Piece, first: int, *, every: bool = False) -> list[tuple[int, float]]:
    """Lines of a piece with their times of day: all that have one, or only the first and the last of them."""
    numbers = range(max(piece.first, first), piece.first + len(piece.ends))
    times = ((number, time_of(piece, number)) for number in numbers)
    known = ((number, at_s) for number, at_s in times if at_s is not None)
    if every:
        return list(known)
    ends = [next(known, None)]
    backward = ((number, time_of(piece, number)) for number in reversed(numbers))
    ends.append(next(((number, at_s) for number, at_s in backward if at_s is not None), None))
    return [end for end in ends if end is not None]


def time_of(piece: Piece, number: int) -> float | None:
    """Return the time of day of a line."""
    at_s = stamp_s(piece.line(number)[:40].decode(errors="replace"))
    return None if at_s is None else at_s % DAY_S
