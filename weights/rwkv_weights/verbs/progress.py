"""One line on standard error, redrawn in place on a terminal and absent elsewhere: how far, how fast, how long yet."""

import shutil
import sys
import time
from typing import Final, Self

from rwkv_weights.verbs.output import Output, duration, size
from rwkvctl.safe import fit, safe_line

REDRAW_S: Final = 0.2
WINDOW_S: Final = 10.0
"""The rate is that of the last seconds: after a broken connection the mean of all time would lie."""


class Rate:
    """Bytes per second over the last seconds."""

    def __init__(self, now: float) -> None:
        self._points: list[tuple[float, int]] = [(now, 0)]

    def at(self, now: float, done: int) -> float:
        """Note how much is done by now, and say how fast it goes."""
        self._points.append((now, done))
        while len(self._points) > 2 and self._points[1][0] < now - WINDOW_S:
            self._points.pop(0)
        then, before = self._points[0]
        return (done - before) / (now - then) if now > then else 0.0


class Bar:
    """`with Bar(...) as bar: bar.add(bytes)`. Drawn only on a terminal, for people.

    `kept` bytes of what is done were there before, and say nothing of the rate.
    """

    def __init__(self, text: str, total: int, output: Output) -> None:
        self.text, self.total, self.done, self.kept = text, total, 0, 0
        self._drawn = sys.stderr.isatty() and not output.as_json
        self._last, self._rate = 0.0, Rate(time.monotonic())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.clear()

    def add(self, count: int) -> None:
        """So many bytes more are done."""
        self.done += count
        self.draw()

    def draw(self, text: str = "") -> None:
        """Show how it stands, but not too often."""
        self.text = text or self.text
        now = time.monotonic()
        if self._drawn and now - self._last >= REDRAW_S:
            self._last = now
            width = shutil.get_terminal_size().columns - 1
            sys.stderr.write(f"\r{fit(safe_line(self.line(now)), width)}\x1b[K")
            sys.stderr.flush()

    def line(self, now: float) -> str:
        """`12.4 GiB of 61.0 GiB (20%)  212.0 MiB/s  3m50s left  NAME`."""
        rate = self._rate.at(now, self.done - self.kept)
        share = f"{100 * self.done / self.total:.0f}%" if self.total else "100%"
        left = f"{duration((self.total - self.done) / rate)} left" if rate else "waiting"
        return f"{size(self.done)} of {size(self.total)} ({share})  {size(rate)}/s  {left}  {self.text}"

    def clear(self) -> None:
        """Make room for a line of text."""
        if self._drawn:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
