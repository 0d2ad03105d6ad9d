"""Files that users have shown to the daemon. Whoever names a checkpoint or results outside its own folders passes an
open descriptor of each file over a socket beside the daemon's, and so proves that they may read it.

The daemon may read more than its users: without a proof it would hash, load and import for them what they may not read,
and tell them what exists. A file is known by device, inode and the time of its last change: a link changed later leads
to no other file, and a later file with the same inode is another one. So a file that is being written cannot be shown.
Root and the daemon's own user need to show nothing.
"""

import asyncio
import contextlib
import json
import os
import socket
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from rwkvctl.http import listeners
from rwkvctl.http.peer_credentials import Peer, peer_of
from rwkvctl.settings import config

KEPT_S: Final = 900.0
"""How long a shown file counts: the operator may be asked for confirmation between showing it and the request."""
MOST_OF_A_USER: Final = 120_000
"""An import reads 50,000 files at most, in as many folders."""
USERS: Final = 100
"""How many users may have shown files. One user may have many uids (a user namespace); others wait then."""
CONNECTIONS, CONNECTIONS_OF_A_USER, AT_ONCE_OF_A_USER = 64, 16, 2
"""Two clients of a user are served at once; the others wait for their turn."""
LONGEST_S: Final = 120.0
"""How long one client may take: 50,000 files take a few seconds."""
LOOK_S: Final = 2.0
PROGRAM: Final = str(Path(__file__).with_name("received_descriptors.py"))

Shown = tuple[int, int, int]
"""Device, inode, and time of the last change in ns."""


@dataclass(slots=True)
class ShownFiles:
    """Until when which files of which user count as shown."""

    clock: Callable[[], float] = time.monotonic
    until: dict[int, dict[Shown, float]] = field(default_factory=dict)

    def take(self, uid: int, file: Shown) -> None:
        """Record a file that a user has shown. If there are too many, the oldest are dropped."""
        if uid not in self.until and len(self.until) >= USERS:
            return
        shown = self.until.setdefault(uid, {})
        shown.pop(file, None)
        shown[file] = self.clock() + KEPT_S
        if len(shown) > MOST_OF_A_USER:
            del shown[next(iter(shown))]

    def may_read(self, uid: int, status: os.stat_result) -> bool:
        """Whether this user has shown the file, or need not show it."""
        return is_trusted(uid) or self.until.get(uid, {}).get(file_of(status), 0.0) > self.clock()

    def all_of(self, uid: int, inodes: str) -> bool:
        """Whether this user has shown all of these files, given as by `inodes_of`; False for none."""
        shown, now = self.until.get(uid, {}), self.clock()
        return bool(inodes) and all(shown.get(file, 0.0) > now for file in spelled_out(inodes))

    def forget_old(self) -> None:
        """Drop what does not count any more."""
        now = self.clock()
        for uid, shown in list(self.until.items()):
            while shown and shown[oldest := next(iter(shown))] <= now:
                del shown[oldest]
            if not shown:
                del self.until[uid]


def is_trusted(uid: int) -> bool:
    """Whether a user can read whatever the daemon can: root and the daemon's own user."""
    return uid in {0, os.geteuid()}


def file_of(status: os.stat_result) -> Shown:
    return status.st_dev, status.st_ino, status.st_ctime_ns


def inodes_of(files: Sequence[Path]) -> str:
    """Return device, inode and change time of files, as a job stores them and
    `rwkv_weights.local.checkpoint_files.is_file` reads them. Raises OSError."""
    return ",".join(":".join(map(str, file_of(file.stat()))) for file in files)


def spelled_out(inodes: str) -> list[Shown]:
    """Parse the text that `inodes_of` made: device, inode and change time (ns) of each file."""
    return [
        (int(device), int(inode), int(changed))
        for device, inode, changed in (one.split(":") for one in inodes.split(","))
    ]


def socket_at(path: Path) -> tuple[int, int]:
    found = path.lstat()
    return found.st_dev, found.st_ino


async def serve(shown: ShownFiles, path: Path, bind: Callable[[Path], socket.socket]) -> None:
    """Receive descriptors on a socket at `path` until cancelled. If its file is removed, the socket is bound again as
    soon as its folder exists, which is not made here."""
    while True:
        while not path.parent.is_dir():
            await asyncio.sleep(LOOK_S)
        with contextlib.closing(bind(path)) as listener:
            bound = socket_at(path)
            taking = listeners.listen(listener, Reception(shown).welcome)
            try:
                while path.exists() and socket_at(path) == bound:
                    await asyncio.sleep(LOOK_S)
                    shown.forget_old()
            finally:
                taking.close()
                with contextlib.suppress(asyncio.CancelledError):
                    await taking.task
                path.unlink(missing_ok=True)


@dataclass(slots=True)
class Reception:
    """The clients that are showing files now."""

    shown: ShownFiles
    of_user: dict[int, int] = field(default_factory=dict)
    turns: dict[int, asyncio.Semaphore] = field(default_factory=dict)
    tasks: set[asyncio.Task[None]] = field(default_factory=set)

    def welcome(self, link: socket.socket) -> None:
        """Receive what one client shows, in a task of its own."""
        peer = peer_of(link)
        full = sum(self.of_user.values()) >= CONNECTIONS
        if peer is None or full or self.of_user.get(peer.uid, 0) >= CONNECTIONS_OF_A_USER:
            link.close()
            return
        self.of_user[peer.uid] = self.of_user.get(peer.uid, 0) + 1
        task = asyncio.ensure_future(self.take_all(link, peer))
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def take_all(self, link: socket.socket, peer: Peer) -> None:
        """Receive everything from one client, once it is its turn."""
        try:
            async with asyncio.timeout(LONGEST_S):
                turn = self.turns.setdefault(peer.uid, asyncio.Semaphore(AT_ONCE_OF_A_USER))
                await turn.acquire()
            try:
                await self.listen_to(link, peer)
            finally:
                turn.release()
        except TimeoutError:
            pass  # other clients of its user hang
        finally:
            link.close()
            self.of_user[peer.uid] -= 1
            if not self.of_user[peer.uid]:
                del self.of_user[peer.uid]
                self.turns.pop(peer.uid, None)

    async def listen_to(self, link: socket.socket, peer: Peer) -> None:
        """Receive everything from one client by a separate process, which may hang. Its user has one turn fewer
        meanwhile; when the daemon ends it is not waited for."""
        with link:
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-I", "-S", PROGRAM, str(link.fileno()), pass_fds=(link.fileno(),),
                stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL,
                env=config.base_environment(),
            )  # fmt: skip
        heard_out = False
        try:
            with contextlib.suppress(OSError, TimeoutError, ValueError):
                async with asyncio.timeout(LONGEST_S):
                    await self.write_down(process, peer.uid)
                    heard_out = True
        finally:
            if not heard_out:  # else it ends by itself; a signal would take its exit from the task that waits for it
                with contextlib.suppress(ProcessLookupError):
                    process.kill()
        await process.wait()

    async def write_down(self, process: asyncio.subprocess.Process, uid: int) -> None:
        """Record each batch, and confirm that it is recorded."""
        assert process.stdout is not None
        assert process.stdin is not None
        while line := await process.stdout.readline():
            for device, inode, changed in json.loads(line):
                self.shown.take(uid, (device, inode, changed))
            process.stdin.write(b"\n")
            await process.stdin.drain()
