"""`status --watch`: what a verb shows, again and again, in place where a terminal can do that.

Only lines that changed are written, so a slow line is not filled with what is on the glass already. Nothing is asked
before the last lines have gone out. A daemon that is away is waited for; what was shown stays, with a line that says
so.
"""

import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Final, NoReturn, TextIO

from rwkvctl.client import Answer
from rwkvctl.context import Context
from rwkvctl.protocol.errors import UnreachableError
from rwkvctl.render import Terminal, paint
from rwkvctl.safe import fit, safe_line

ENTER: Final = "\x1b[?1049h\x1b[?25l\x1b[H\x1b[2J"
LEAVE: Final = "\x1b[?25h\x1b[?1049l"
AWAY_S: Final = 1.0
"""How often a daemon that is away is asked for."""

Look = Callable[[], Answer]
Lines = Callable[[Answer], Sequence[str]]


class Glass:
    """Lines on a terminal: it is told all of them and writes those that are others by now."""

    def __init__(self, terminal: Terminal) -> None:
        self.terminal, self.shown, self.size = terminal, list[str](), (0, 0)

    def show(self, lines: Sequence[str]) -> None:
        """Make these the lines that are seen; what does not fit is counted."""
        size = (self.terminal.width, self.terminal.height)
        sent = "" if size == self.size else "\x1b[2J"
        before = self.shown if size == self.size else []
        room = max(1, size[1] - 1)
        if len(lines) > room:
            lines = [*lines[: room - 1], f"… {len(lines) - room + 1} lines more; a taller terminal shows them"]
        for place in range(max(len(lines), len(before))):
            line = lines[place] if place < len(lines) else ""
            if place >= len(before) or before[place] != line:
                sent += f"\x1b[{place + 1}H{line}\x1b[K"
        self.shown, self.size = list(lines), size
        if sent:
            self.terminal.write(f"\x1b[?2026h{sent}\x1b[?2026l")


class Paper:
    """Lines where nothing can be redrawn: those that were not among the last ones are written below."""

    def __init__(self, out: TextIO) -> None:
        self.out, self.shown = out, set[str]()

    def show(self, lines: Sequence[str]) -> None:
        """Write what is new."""
        self.out.write("".join(f"{line}\n" for line in lines if line and line not in self.shown))
        self.out.flush()
        self.shown = set(lines)


def watch(context: Context, look: Look, lines: Lines, every_s: float, *, plain: bool = False) -> NoReturn:
    """Show it every so many seconds until Ctrl-C. With JSON each reply is a line."""
    if context.as_json:
        for answer in answers(context, look, every_s):
            if answer is not None:
                context.terminal.json(answer.raw.decode(errors="replace"))
    elif context.terminal.is_tty and not plain and context.terminal.environ.get("TERM") != "dumb":
        with taken(context.terminal) as glass:
            draw(context, answers(context, look, every_s), lines, glass)
    else:
        draw(context, answers(context, look, every_s), lines, Paper(context.terminal.out))
    raise AssertionError


def answers(context: Context, look: Look, every_s: float) -> Iterator[Answer | None]:
    """Replies as they come, None for each that does not. Raises what asking again does not mend."""
    while True:
        begun = time.monotonic()
        try:
            answer = look()
        except (UnreachableError, OSError):
            yield None
            time.sleep(AWAY_S)
            continue
        yield answer
        time.sleep(max(0.0, every_s - (time.monotonic() - begun)))


def draw(context: Context, replies: Iterator[Answer | None], lines: Lines, place: Glass | Paper) -> None:
    """Show replies as they come; while none does, the last one under a line that says so."""
    seen: Sequence[str] = []
    at = ""
    for reply in replies:
        if reply is None:
            known = f"what is below is of {at}" if at else f"nothing answers on {context.config.socket}"
            said = fit(safe_line(f"! reconnecting … {known}"), context.terminal.width)
            place.show([paint(said, "bad", context.terminal.colour), *seen[1:]])
        else:
            seen, at = lines(reply), str(reply.value.get("as_of", ""))[11:19]
            place.show(seen)


@contextmanager
def taken(terminal: Terminal) -> Iterator[Glass]:
    """The terminal's other screen; the last lines stay on the first one when it is given back."""
    glass = Glass(terminal)

    def ended(_number: int, _frame: FrameType | None) -> None:
        sys.exit(128 + signal.SIGTERM)

    before = signal.signal(signal.SIGTERM, ended)
    terminal.write(ENTER)
    try:
        yield glass
    finally:
        signal.signal(signal.SIGTERM, before)
        with suppress(OSError):
            terminal.write(LEAVE + "".join(f"{line}\n" for line in glass.shown))
