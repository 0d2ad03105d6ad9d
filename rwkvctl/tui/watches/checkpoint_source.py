"""The checkpoints of watched folders as the daemon has them, kept so that going back to a folder shows them at once."""

import time
from collections.abc import Collection
from typing import Any, Final, NamedTuple

from rwkvctl.protocol.states import WatchedState
from rwkvctl.protocol.training.watches import WatchedView, WatchReply, WatchRequest, WatchView
from rwkvctl.tui.daemon.client import Link
from rwkvctl.tui.watches.watch_rows import OPEN, number_in

LISTED: Final = 300
"""Checkpoints of a folder that are read, those of the last steps; of those that are done or parked as many more."""
OLDER: Final[tuple[WatchedState, ...]] = ("parked", "done")
"""States of which also checkpoints of earlier steps are read."""
KEPT: Final = 20
"""Folders whose checkpoints are kept."""
KEPT_S: Final = 20.0
"""For so long checkpoints are not read again, if the numbers of them in each state are what they were and none is
open."""
LONG_AGO: Final = float("-inf")


class KnownCheckpoints(NamedTuple):
    """The checkpoints of a folder, the last step first, as they were when the folder was `seen`; `read` is by the clock
    of `time.monotonic`."""

    seen: WatchView
    items: tuple[WatchedView, ...]
    read: float

    @property
    def is_old(self) -> bool:
        return time.monotonic() - self.read >= KEPT_S

    def holds(self, row: WatchView) -> bool:
        """Whether the checkpoints of a folder are what they were, as far as the folder tells."""
        return self.seen == row and not number_in(row, OPEN) and not self.is_old

    def older(self, row: WatchView, found: Collection[int]) -> list[WatchedView] | None:
        """Return those of `OLDER` that are not among the `found`, by their ids; None if their numbers have changed."""
        if self.is_old or any(self.seen.counts.get(state) != row.counts.get(state) for state in OLDER):
            return None
        return [one for one in self.items if one.state in OLDER and one.id not in found]


class CheckpointSource:
    """Asks for checkpoints, and keeps them by folder in `known`: shown until they are read again."""

    def __init__(self, link: Link) -> None:
        self.link = link
        self.known: dict[str, KnownCheckpoints] = {}

    def expire(self) -> None:
        """Have all that is known read again, whatever the folders tell."""
        self.known = {watch: known._replace(read=LONG_AGO) for watch, known in self.known.items()}

    async def read(self, row: WatchView) -> None:
        """Read the checkpoints of a folder, unless none can have changed since. Raises RwkvctlError."""
        known = self.known.get(row.watch)
        if known and known.holds(row):
            return
        found = {one.id: one for one in await self._page(row.watch)}
        if len(found) < sum(row.counts.values()):
            older = known.older(row, found) if known else None
            if older is None:
                older = [one for state in OLDER for one in await self._page(row.watch, state)]
            found |= {one.id: one for one in older}
        items = sorted(found.values(), key=lambda one: (-1 if one.step is None else one.step, one.id), reverse=True)
        self.known[row.watch] = KnownCheckpoints(row, tuple(items), time.monotonic())
        for old in list(self.known)[: max(0, len(self.known) - KEPT)]:
            del self.known[old]

    async def _page(self, watch: str, state: Any = "") -> tuple[WatchedView, ...]:
        return (await self.link.ask(WatchRequest(watch=watch, state=state, limit=LISTED), WatchReply)).items
