"""Back-pressure: while an earlier frame is still on its way to the terminal no other is sent behind it.

Textual queues up to thirty writes and then blocks. On a slow line that makes the screen seconds old. Held frames are
not lost: when the queue is empty the newest state is drawn.
"""

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from textual.driver import Driver

LOOK_S: Final = 0.02
"""How often a held frame looks whether the line is free."""


class FrameThrottle:
    """Knows whether a frame is held back."""

    def __init__(self) -> None:
        self.held = False

    def must_wait(self, driver: "Driver | None") -> bool:
        """Return whether a frame must not be sent now; the throttle remembers that one is due."""
        if waiting(driver):
            self.held = True
        return self.held

    def may_go(self, driver: "Driver | None") -> bool:
        """Return whether a held frame may go now, which it then must."""
        if self.held and not waiting(driver):
            self.held = False
            return True
        return False


def waiting(driver: "Driver | None") -> int:
    """Writes that the terminal has not taken yet. Textual's writer is private, and absent where no terminal is."""
    writer = getattr(driver, "_writer_thread", None)
    return int(writer._queue.qsize()) if writer is not None else 0
