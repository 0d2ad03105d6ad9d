"""Who is to be told, as the configuration has it now."""

import asyncio
from dataclasses import dataclass, field

from rwkvctl.notify_config import NotifyTarget


@dataclass(slots=True)
class Notifications:
    """The tables [[notify]]; `changed` says that they are others now."""

    targets: tuple[NotifyTarget, ...] = ()
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def replace(self, targets: tuple[NotifyTarget, ...]) -> None:
        """Tell these from now on."""
        self.targets = targets
        self.changed.set()
