"""`status --watch`: show the output of a verb repeatedly, redrawn in place on a terminal.

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
from typing import Final, NoReturn

from rwkvctl.cli.client import Answer
from rwkvctl.cli.context import Context
from rwkvctl.cli.render import Terminal, lines_of, paint
from rwkvctl.protocol.errors import UnreachableError
from rwkvctl.text.sanitize import Styled, fit, safe_line, styled

ENTER: Final = Styled("\x1b[?1049h\x1b[?25l\x1b[H\x1b[2J")
LEAVE: Final = Styled("\x1b[?25h\x1b[?1049l")
CLEAR: Final = Styled("\x1b[2J")
REST: Final = Styled("\x1b[K")
BEGIN: Final = Styled("\x1b[?2026h")
END: Final = Styled("\x1b[?2026l")
"""Terminals draw output between BEGIN and END at once (synchronized update)."""
AWAY_S: Final = 1.0
"""Seconds between attempts while the daemon does not answer."""

Fetch = Callable[[], Answer]
Lines = Callable[[Answer], Sequence[Styled]]


class RedrawnLines:
    """Lines that are redrawn in place: only lines that differ from the ones on the screen are written."""

    def __init__(self, terminal: Terminal) -> None:
        self.terminal, self.shown, self.size = terminal, list[Styled](), (0, 0)

    def show(self, lines: Sequence[Styled]) -> None:
        """Show these lines; of those that do not fit only the number is shown."""
        size = (self.terminal.width, self.terminal.height)
        sent = [] if size == self.size else [CLEAR]
        before = self.shown if size == self.size else []
        room = max(1, size[1] - 1)
        if len(lines) > room:
            lines = [*lines[: room - 1], styled(f"… {len(lines) - room + 1} more lines; a taller terminal shows them")]
        for place in range(max(len(lines), len(before))):
            line = lines[place] if place < len(lines) else Styled()
            if place >= len(before) or before[place] != line:
                sent += [Styled(f"\x1b[{place + 1}H"), line, REST]
        self.shown, self.size = list(lines), size
        if sent:
            self.terminal.write(styled(BEGIN, *sent, END))


class AppendedLines:
    """Lines for output that cannot be redrawn: lines that were not among the last ones are written below."""

    def __init__(self, terminal: Terminal) -> None:
        self.terminal, self.shown = terminal, set[str]()

    def show(self, lines: Sequence[Styled]) -> None:
        """Write the lines that were not among the last ones."""
        self.terminal.write(lines_of(line for line in lines if line and line not in self.shown))
        self.shown = set(lines)


def watch(context: Context, look: Fetch, lines: Lines, every_s: float, *, plain: bool = False) -> NoReturn:
    """Show the replies every `every_s` seconds until Ctrl-C. With JSON each reply is a line."""
    if context.as_json:
        for answer in answers(context, look, every_s):
            if answer is not None:
                context.terminal.json(answer.raw.decode(errors="replace"))
    elif context.terminal.is_tty and not plain and context.terminal.environ.get("TERM") != "dumb":
        with taken(context.terminal) as glass:
            draw(context, answers(context, look, every_s), lines, glass)
    else:
        draw(context, answers(context, look, every_s), lines, AppendedLines(context.terminal))
    raise AssertionError


def answers(context: Context, look: Fetch, every_s: float) -> Iterator[Answer | None]:
    """Yield replies, and None when the daemon does not answer. Other errors are raised."""
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


def draw(context: Context, replies: Iterator[Answer | None], lines: Lines, place: RedrawnLines | AppendedLines) -> None:
    """Show replies as they come; while none does, the last one under a line that says so."""
    seen: Sequence[Styled] = []
    at = ""
    for reply in replies:
        if reply is None:
            known = f"below is the state at {at}" if at else f"no daemon answers on {context.config.socket}"
            said = fit(safe_line(f"! reconnecting … {known}"), context.terminal.width)
            place.show([paint(said, "bad", context.terminal.colour), *seen[1:]])
        else:
            seen, at = lines(reply), str(reply.value.get("as_of", ""))[11:19]
            place.show(seen)


@contextmanager
def taken(terminal: Terminal) -> Iterator[RedrawnLines]:
    """Use the terminal's alternate screen; the last lines stay on the normal one afterwards."""
    glass = RedrawnLines(terminal)

    def ended(_number: int, _frame: FrameType | None) -> None:
        sys.exit(128 + signal.SIGTERM)

    before = signal.signal(signal.SIGTERM, ended)
    terminal.write(ENTER)
    try:
        yield glass
    finally:
        signal.signal(signal.SIGTERM, before)
        with suppress(OSError):
            terminal.write(styled(LEAVE, lines_of(glass.shown)))
