"""The growing ends of logs, each read once for all followers.

A follower takes pieces at its own pace: from memory while it keeps up, from the file if it has fallen behind. Nobody
waits for it, and nothing is kept for it. The file stays open while it is followed, so that one that is deleted or
renamed is followed to its end. A follower without new text sleeps until there is some.
"""

import asyncio
import os
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from rwkv_daemon.changes.event_bus import Bus
from rwkv_daemon.logs.log_reader import LogPiece, next_data, read_piece
from rwkvctl.protocol.events import Event

LOOK_S: Final = 0.25
KEPT_BYTES: Final = 1024 * 1024
AT_ONCE: Final = 64
"""Pieces of one log that are read in a row, so that a log that grows without end does not delay others."""


@dataclass(slots=True)
class LogTail:
    """The end of one log. `lives`: whether more may come; `concerns`: which events belong to it; the last of them are
    in `said`. `over` is set when no more can come, and all events are in `said`."""

    path: Path
    lives: Callable[[], bool]
    concerns: Callable[[Event], bool]
    followers: int = 0
    descriptor: int = -1
    size: int = 0
    kept: deque[LogPiece] = field(default_factory=deque)
    said: deque[Event] = field(default_factory=lambda: deque(maxlen=200))
    over: bool = False
    announced: tuple[int, bool] = (0, False)
    """(size, whether it is over) as followers were last woken for."""

    turned: asyncio.Event = field(default_factory=asyncio.Event)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def look(self) -> bool:
        """Read what was added since the last call; returns whether anything is new. Called in a thread."""
        with self.lock:
            alive = self.lives()
            if self.descriptor >= 0 or self.open():
                if os.fstat(self.descriptor).st_size < self.size:  # the file was truncated
                    self.kept.clear()
                    self.size = 0
                more = self.take_in()
            else:
                more = False
            before, self.announced = self.announced, (self.size, not alive and not more)
            return before != self.announced

    def take_in(self) -> bool:
        """Keep what was added in memory; returns whether there is still more."""
        for _ in range(AT_ONCE):
            piece = read_piece(self.descriptor, self.size)
            if not piece.data:
                return False
            self.kept.append(piece)
            self.size = piece.end
            while len(self.kept) > 1 and self.size - self.kept[0].start > KEPT_BYTES:
                self.kept.popleft()
        return True

    def open(self) -> bool:
        """Open the file, once it exists; each follower itself reads what it holds by then."""
        try:
            descriptor = os.open(self.path, os.O_RDONLY)
        except FileNotFoundError:
            return False
        self.size = os.fstat(descriptor).st_size  # before the descriptor: `next` looks at both without the lock
        self.descriptor = descriptor
        return True

    def after(self, offset: int) -> LogPiece | None:
        """Return the piece at an offset, if it is in memory."""
        for piece in self.kept:
            if piece.start - piece.dropped <= offset < piece.end:
                skip = max(0, offset - piece.start)
                return LogPiece(piece.start + skip, piece.data[skip:], max(0, piece.start - offset))
        return None

    async def next(self, offset: int) -> LogPiece:
        """Return the piece at an offset; an empty one if there is none yet."""
        if (piece := self.after(offset)) is not None:
            return piece
        if offset == self.size and self.descriptor >= 0:
            return LogPiece(offset, b"")
        return await asyncio.to_thread(self.read, offset)

    def read(self, offset: int) -> LogPiece:
        """Return the piece at an offset from the file; from its beginning if it was truncated. Called in a thread."""
        with self.lock:
            if self.descriptor < 0 and not self.open():
                return LogPiece(offset, b"")
            if offset > os.fstat(self.descriptor).st_size:
                offset = next_data(self.descriptor, 0) or 0
            return read_piece(self.descriptor, offset)

    def close(self) -> None:
        with self.lock:
            if self.descriptor >= 0:
                os.close(self.descriptor)
                self.descriptor = -1


@dataclass(slots=True)
class LogTails:
    """Every log that is followed; followers of the same log share one `LogTail`."""

    followed: dict[Path, LogTail] = field(default_factory=dict)
    wanted: asyncio.Event = field(default_factory=asyncio.Event)

    @contextmanager
    def follow(self, path: Path, lives: Callable[[], bool], concerns: Callable[[Event], bool]) -> Iterator[LogTail]:
        """Yield the shared end of a log."""
        tail = self.followed.setdefault(path, LogTail(path, lives, concerns))
        tail.followers += 1
        self.wanted.set()
        try:
            yield tail
        finally:
            tail.followers -= 1

    async def keep_up(self, bus: Bus) -> None:
        """Look at every followed log four times a second, until cancelled; nothing is done while there is none."""
        while True:
            await self.wanted.wait()
            self.wanted.clear()
            with bus.follow() as queue:
                while self.followed:
                    await self.look(queue)
                    await asyncio.sleep(LOOK_S)

    async def look(self, queue: "asyncio.Queue[Event | None]") -> None:
        """Check every followed log: close those that nobody follows any more, and wake followers of those that have
        grown."""
        tails = list(self.followed.values())
        changed = await asyncio.to_thread(lambda: [tail.look() for tail in tails])
        events = [event for _ in range(queue.qsize()) if (event := queue.get_nowait()) is not None and event.text]
        for tail, new in zip(tails, changed, strict=True):
            told = [event for event in events if tail.concerns(event)]
            tail.said.extend(told)
            tail.over = tail.announced[1]  # set after the last events: a follower that sees it leaves
            if new or told:
                tail.turned.set()
                tail.turned = asyncio.Event()
            if not tail.followers:
                del self.followed[tail.path]
                tail.close()
