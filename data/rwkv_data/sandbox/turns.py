"""Programs of one process take turns where they must: one that the machine disturbed is run again while no other is."""

import contextlib
import threading
from collections.abc import Callable, Iterator

from rwkv_data.sandbox.program import Outcome


class Crowd:
    """Programs of this process's sandboxes run side by side (`shared`), or one while no other does (`alone`)."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._running = 0
        self._alone: int | None = None

    @contextlib.contextmanager
    def shared(self) -> Iterator[None]:
        """Together with others; inside `alone` of the same thread, by oneself."""
        me = threading.get_ident()
        with self._changed:
            self._changed.wait_for(lambda: self._alone in {None, me})
            self._running += 1
        try:
            yield
        finally:
            with self._changed:
                self._running -= 1
                self._changed.notify_all()

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """With none of the others."""
        with self._changed:
            self._changed.wait_for(lambda: self._alone is None)
            self._alone = threading.get_ident()
            self._changed.wait_for(lambda: self._running == 0)
        try:
            yield
        finally:
            with self._changed:
                self._alone = None
                self._changed.notify_all()


EVERYONE = Crowd()


def again_if_disturbed(once: Callable[[], Outcome]) -> Outcome:
    """A program that the machine may have kept from running, or that was killed from outside, runs once more, alone."""
    outcome = once()
    if not outcome.starved and outcome.status != "lost":
        return outcome
    with EVERYONE.alone():
        return once()
