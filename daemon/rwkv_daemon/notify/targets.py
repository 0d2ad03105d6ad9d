"""Who is to be told, as the configuration has it now."""

import asyncio
from dataclasses import dataclass, field

from rwkvctl.settings.notify import NotifyTarget


@dataclass(slots=True)
class Notifications:
    """The tables [[notify]]; `changed` says that they are others now, and `since` after which event they became so."""

    targets: tuple[NotifyTarget, ...] = ()
    since: int = 0
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def replace(self, targets: tuple[NotifyTarget, ...], since: int) -> None:
        """Tell these of what happens after an event."""
        self.targets, self.since = targets, since
        self.changed.set()
