"""Timers that go off once.

Textual 8.2 drops such a timer without calling back if its task is held up, just as it starts, for longer than the
timer's delay. On a node with all cores busy the console lost a change of the terminal's size that way, and all later
ones, which wait for the same timer.
"""

from collections.abc import Callable

from textual.message_pump import MessagePump
from textual.timer import Timer


def once(pump: MessagePump, delay_s: float, act: Callable[[], object]) -> Timer:
    """Call `act` once after `delay_s` seconds, or later if the process was held up."""
    return kept(pump.set_timer(delay_s, act))


def kept(timer: Timer) -> Timer:
    """The timer, set to call back even if its time has passed before it started."""
    timer._skip = False
    return timer
