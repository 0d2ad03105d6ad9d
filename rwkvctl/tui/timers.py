"""Timers that go off once.

Textual (8.2) drops such a timer, and never calls back, where its task is held up for longer than its time just as it
starts: on a node whose cores are all taken a change of the terminal's size was lost for good, since further ones wait
for that timer.
"""

from collections.abc import Callable

from textual.message_pump import MessagePump
from textual.timer import Timer


def once(pump: MessagePump, delay_s: float, act: Callable[[], object]) -> Timer:
    """Act after some time, however late that is."""
    return kept(pump.set_timer(delay_s, act))


def kept(timer: Timer) -> Timer:
    """A timer that skips no time it has missed."""
    timer._skip = False
    return timer
