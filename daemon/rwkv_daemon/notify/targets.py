"""The targets of notifications, as the configuration has them now."""

import asyncio
from dataclasses import dataclass, field

from rwkvctl.settings.notify import NotifyTarget


@dataclass(slots=True)
class Notifications:
    """The tables [[notify]]; `changed` is set when they have changed, which was after event number `since`."""

    targets: tuple[NotifyTarget, ...] = ()
    since: int = 0
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def replace(self, targets: tuple[NotifyTarget, ...], since: int) -> None:
        """Use these targets from now on, for events after `since`."""
        self.targets, self.since = targets, since
        self.changed.set()
