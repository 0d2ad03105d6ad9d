"""What the daemon holds in memory of the watched folders: the rows of the store, and since when each file is still."""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

import msgspec

from rwkv_daemon.store import WatchedRow, WatchRow
from rwkv_daemon.store.read_lanes import OwnLock
from rwkv_daemon.training.folders.root_scan import RootFiles
from rwkv_daemon.training.folders.still_files import StillFiles
from rwkvctl.protocol.requests import Selection
from rwkvctl.protocol.training.watches import WatchedView, WatchRules

LEFT_OUT: Final = "left out: "
"""Before what the reason of a checkpoint says of kinds that could not be queued beside others."""


@dataclass(slots=True)
class WatchedFolder:
    """A watch with its checkpoints. By the monotonic clock, `look_at`: when its folder is looked at next, and
    `check_at`: when that is done earlier if a name in it came or went; `retry_at`: by number and identity, when a
    checkpoint that could not be read or queued may be tried again. `found`: what a look found; `is_readable`: the last
    one could read the folder."""

    row: WatchRow
    rules: WatchRules
    selection: Selection
    rows: dict[int, WatchedRow]
    still: StillFiles = field(default_factory=StillFiles)
    look_at: float = 0.0
    check_at: float = 0.0
    found: RootFiles = field(default_factory=RootFiles)
    retry_at: dict[tuple[int, str], float] = field(default_factory=dict)
    is_readable: bool = False
    followed_as_of: int = -1
    """The event after which nothing followed from its checkpoints and their jobs; -1: a look has found more."""

    @classmethod
    def of(cls, row: WatchRow, rows: Iterable[WatchedRow]) -> "WatchedFolder":
        return cls(
            row,
            msgspec.json.decode(row.rules, type=WatchRules),
            msgspec.json.decode(row.selection, type=Selection),
            {one.id: one for one in rows},
        )

    def current(self) -> dict[str, WatchedRow]:
        """Return the newest content of each name."""
        return {one.name: one for one in self.rows.values()}

    def is_there(self, row: WatchedRow) -> bool:
        """Whether the file is there as it was when it became known; one in a folder that cannot be read counts."""
        file = self.found.files.get(row.name)
        return file.identity == row.identity if file is not None else not self.found.is_gone(row.name)

    def holders(self) -> dict[str, WatchedRow]:
        """Return by sha256 the checkpoints that are ready, queued, or were measured: their copies are not."""
        held = (one for one in self.rows.values() if one.state in {"ready", "dispatched", "done"} or one.was_taken_up)
        return {one.sha256: one for one in held if one.sha256}

    def is_as_seen(self, row: WatchedRow) -> bool:
        """Whether the last look has found the file as it was when it became known."""
        file = self.found.files.get(row.name)
        return self.is_readable and file is not None and file.identity == row.identity

    def is_open(self) -> bool:
        """Whether anything may become of a checkpoint by what the others are."""
        states, left_out = {"settling", "ready", "dispatched"}, {"newer", "copy"}
        return any(one.state in states or one.left_out in left_out for one in self.rows.values())

    def in_state(self, *states: str) -> list[WatchedRow]:
        return [one for one in self.rows.values() if one.state in states]


@dataclass(slots=True)
class Watches:
    """The watched folders by number; unless they are `current`, the store is read first. `changing` is held while one
    is looked at, and while an operator changes one; `wake` has them looked at at once. `measured`: the feedback on a
    checkpoint may be due."""

    folders: dict[int, WatchedFolder] = field(default_factory=dict)
    current: bool = False
    changing: OwnLock = field(default_factory=OwnLock)
    wake: asyncio.Event = field(default_factory=asyncio.Event)
    measured: asyncio.Event = field(default_factory=asyncio.Event)
    scans: dict[int, tuple[int, asyncio.Future[RootFiles]]] = field(default_factory=dict)
    """By watch: the inode of the folder, and a scan of it that its file system has not answered yet."""


def watched_view(row: WatchedRow) -> WatchedView:
    """Return a checkpoint of a watched folder as clients see it."""
    return WatchedView(
        id=row.id, name=row.name, state=row.state, left_out=row.left_out, reason=row.reason, step=row.step,
        sha256=row.sha256, model=row.model, session=row.session,
        jobs=tuple(f"j{number}" for number in row.job_numbers), seen=row.seen, ready=row.ready,
        dispatched=row.dispatched, finished=row.finished,
    )  # fmt: skip
