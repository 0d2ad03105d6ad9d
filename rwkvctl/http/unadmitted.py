"""TCP connections of which no request has been admitted yet: limited in number and in time.

Anyone who reaches the port can open connections, and one behind TLS takes a third of a megabyte before it has sent a
byte. When too many are open, the oldest connection of the address that has the most is closed, so a flood from one
address displaces only its own.
"""

import asyncio
import contextlib
import logging
from collections import defaultdict
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from typing import Final

MOST_UNADMITTED: Final = 128
TIMEOUT_S: Final = 40.0
"""For TLS, the head of the first request, and a refusal if that is the answer."""
SAID_AGAIN: Final = 1000

log = logging.getLogger("rwkvctl")


@dataclass(slots=True)
class UnadmittedConnections:
    """The connections that are not admitted yet: at most `most`, at most half of them from one address."""

    most: int = MOST_UNADMITTED
    standing: defaultdict[Hashable, dict[asyncio.Task[None], None]] = field(default_factory=lambda: defaultdict(dict))
    count: int = 0
    sent_away: int = 0

    @contextlib.contextmanager
    def waiting(self, who: Hashable) -> Iterator[None]:
        """Count the current task as a connection of `who` while the block runs; the task is cancelled when it is
        displaced or TIMEOUT_S is over."""
        task = asyncio.current_task()
        assert task is not None
        if len(self.standing.get(who, ())) >= max(1, self.most // 2):
            self.send_away(who)
        elif self.count >= self.most:
            self.send_away(max(self.standing, key=lambda one: len(self.standing[one])))
        self.standing[who][task] = None
        self.count += 1
        timer = asyncio.get_running_loop().call_later(TIMEOUT_S, task.cancel)
        try:
            yield
        finally:
            timer.cancel()
            self.remove(who, task)

    def send_away(self, who: Hashable) -> None:
        """Cancel the oldest connection of an address and free its place at once."""
        task = next(iter(self.standing[who]))
        self.remove(who, task)
        task.cancel()
        if self.sent_away % SAID_AGAIN == 0:
            log.warning(
                "too many TCP connections without an admitted request (%s has the most): the oldest are closed", who
            )
        self.sent_away += 1

    def remove(self, who: Hashable, task: asyncio.Task[None]) -> None:
        """Stop counting a connection; do nothing if it is not counted."""
        if task not in self.standing.get(who, ()):
            return
        del self.standing[who][task]
        self.count -= 1
        if not self.standing[who]:
            del self.standing[who]
