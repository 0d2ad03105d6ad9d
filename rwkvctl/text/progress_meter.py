"""How far a piece of work is, how fast it goes and how long it takes yet, on standard error: a line that is redrawn in
place on a terminal, elsewhere a plain line now and then. Below the command line, for the programs that it becomes, too.
"""

import shutil
import sys
import time
from collections.abc import Callable
from typing import Final, Self, TextIO

from rwkvctl.text.quantities import bar, duration, size
from rwkvctl.text.sanitize import Styled, fit, safe_line, styled

REDRAW_S: Final = 0.2
EVERY_S: Final = 30.0
SELDOM_S: Final = 5.0
"""Where nobody looks: a line for each tenth that is done, but none within 5 s of the last, and one in 30 s at least."""

WINDOW_S: Final = 10.0
"""The rate is that of the last seconds: after a broken connection the mean of all time would lie."""

BAR: Final = 16
START: Final = Styled("\r")
REST: Final = Styled("\x1b[K")


class Rate:
    """Rate of progress per second, over the last seconds."""

    def __init__(self, now: float) -> None:
        self._points: list[tuple[float, int]] = [(now, 0)]

    def at(self, now: float, done: int) -> float:
        """Record the amount done by now and return the rate per second."""
        self._points.append((now, done))
        while len(self._points) > 2 and self._points[1][0] < now - WINDOW_S:
            self._points.pop(0)
        then, before = self._points[0]
        return (done - before) / (now - then) if now > then else 0.0


class Meter:
    """`with Meter() as meter: meter.show("samples", done, total)`; a total of 0 is not known. What was `kept` from
    before counts as done, and says nothing of the rate."""

    def __init__(self, *, in_bytes: bool = False, quiet: bool = False, stream: TextIO | None = None) -> None:
        self.stream, self.in_bytes, self.quiet = stream or sys.stderr, in_bytes, quiet
        self.in_place = self.stream.isatty()
        self._done, self._last, self._told, self._on_screen = 0, 0.0, (time.monotonic(), 0), False
        self._rate = Rate(time.monotonic())
        self._text = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.clear()

    def show(self, text: str, done: int, total: int = 0, kept: int = 0) -> None:
        """Show the progress, at most every REDRAW_S. A smaller `done` than before begins a new piece of work."""
        now = time.monotonic()
        if done < self._done:
            self._rate, self._told = Rate(now), (now, 0)
        self._done = done
        if self.quiet or now - self._last < REDRAW_S:
            return
        self._last = now
        line = self.line(now, text, done, total, kept)
        if self.in_place:
            self._draw(line)
        elif self._is_news(now, done, total):
            self.stream.write(f"{line}\n")
            self.stream.flush()

    def say(self, text: str) -> None:
        """Show what is waited for, without an amount; where lines stay, only what is new."""
        if self.quiet:
            return
        if self.in_place:
            self._draw(safe_line(text))
        elif text != self._text:
            self.stream.write(f"{safe_line(text)}\n")
            self.stream.flush()
        self._text = text

    def _draw(self, line: str) -> None:
        width = shutil.get_terminal_size().columns - 1
        self.stream.write(styled(START, fit(line, width), REST))
        self._on_screen = True
        self.stream.flush()

    def adding(self, text: str, total: int) -> Callable[[int], None]:
        """Return a function that adds to the amount done and shows the progress."""
        done = 0

        def add(more: int) -> None:
            nonlocal done
            done += more
            self.show(text, done, total)

        return add

    def _is_news(self, now: float, done: int, total: int) -> bool:
        """Whether a plain line is due: at a new tenth of the total or after EVERY_S, but not within SELDOM_S of the
        last one."""
        then, before = self._told
        step = 10 * done // total if total else before
        if now - then < SELDOM_S or (step == before and now - then < EVERY_S):
            return False
        self._told = now, step
        return True

    def line(self, now: float, text: str, done: int, total: int, kept: int = 0) -> str:
        """`━━━╸┄┄ 20 %  12.4 GiB of 61.0 GiB  212.0 MiB/s  3m50s left  NAME`; without a total `1,200  300/s  NAME`."""
        rate = self._rate.at(now, done - kept)
        parts = [f"{bar(done / total, BAR)} {100 * done / total:3.0f} %"] if total and self.in_place else []
        parts += [f"{100 * done / total:3.0f} %"] if total and not self.in_place else []
        parts.append(f"{self._said(done)} of {self._said(total)}" if total else self._said(done))
        parts.append(f"{self._said(rate)}/s" if rate else "waiting")
        parts += [f"{duration((total - done) / rate)} left"] if rate and total else []
        return safe_line("  ".join([*parts, text]))

    def _said(self, amount: float) -> str:
        if self.in_bytes:
            return size(amount)
        return f"{amount:.1f}" if 0 < amount < 10 and amount != int(amount) else f"{amount:,.0f}"

    def clear(self) -> None:
        """Erase the meter from the screen so that a line of text can be written."""
        if self._on_screen:
            self.stream.write(styled(START, REST))
            self.stream.flush()
            self._on_screen = False
