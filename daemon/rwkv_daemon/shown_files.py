"""Files that users have shown to the daemon: whoever names a checkpoint or results outside its own folders passes an
open descriptor of each file over a socket beside the daemon's, and so proves that they may read it.

The daemon may read more than its users: without a proof it would hash, load and import for them what is not theirs to
read, and tell them what exists. A file is known by device and inode, so that no link leads elsewhere afterwards. Root
and the daemon's own user need to show nothing.
"""

import asyncio
import contextlib
import fcntl
import os
import socket
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from rwkvctl import sockets
from rwkvctl.peers import Peer, peer_of
from rwkvctl.protocol.showing import MOST_AT_ONCE, TAKEN

KEPT_S: Final = 900.0
"""From showing to the request that names the file: an operator may be asked whether they are sure in between."""
MOST_OF_A_USER: Final = 120_000
"""An import looks at 50,000 files at most, in as many folders."""
USERS: Final = 100
"""Who may have shown something lately. A user may have many uids (a namespace of theirs); others then wait."""
CONNECTIONS, CONNECTIONS_OF_A_USER = 32, 2
SILENCE_S: Final = 5.0
LOOK_S: Final = 2.0

Inode = tuple[int, int]


@dataclass(slots=True)
class ShownFiles:
    """Until when which files of which user count as shown."""

    clock: Callable[[], float] = time.monotonic
    until: dict[int, dict[Inode, float]] = field(default_factory=dict)

    def take(self, uid: int, descriptor: int) -> None:
        """Remember what a user shows, if the descriptor is one to read with: one of O_PATH needs no right to the file.
        Of too many the oldest are forgotten."""
        flags = fcntl.fcntl(descriptor, fcntl.F_GETFL)
        if flags & os.O_PATH or flags & os.O_ACCMODE == os.O_WRONLY:
            return
        inode = inode_of(os.fstat(descriptor))
        if uid not in self.until and len(self.until) >= USERS:
            return
        shown = self.until.setdefault(uid, {})
        shown.pop(inode, None)
        shown[inode] = self.clock() + KEPT_S
        if len(shown) > MOST_OF_A_USER:
            del shown[next(iter(shown))]

    def may_read(self, uid: int, status: os.stat_result) -> bool:
        """Whether this user has shown the file, or need not."""
        return is_trusted(uid) or self.until.get(uid, {}).get(inode_of(status), 0.0) > self.clock()

    def all_of(self, uid: int, inodes: str) -> bool:
        """Whether this user has shown all of these files, spelled as by `inodes_of`; there must be one."""
        shown, now = self.until.get(uid, {}), self.clock()
        return bool(inodes) and all(shown.get(inode, 0.0) > now for inode in spelled_out(inodes))

    def forget_old(self) -> None:
        """Free what does not count any more."""
        now = self.clock()
        for uid, shown in list(self.until.items()):
            while shown and shown[oldest := next(iter(shown))] <= now:
                del shown[oldest]
            if not shown:
                del self.until[uid]


def is_trusted(uid: int) -> bool:
    """Whether a user can read whatever the daemon can."""
    return uid in {0, os.geteuid()}


def inode_of(status: os.stat_result) -> Inode:
    return status.st_dev, status.st_ino


def inodes_of(files: Sequence[Path]) -> str:
    """Which files these are, as a job remembers it. Raises OSError."""
    return ",".join(f"{status.st_dev}:{status.st_ino}" for status in (file.stat() for file in files))


def spelled_out(inodes: str) -> list[Inode]:
    """What `inodes_of` has spelled."""
    return [(int(device), int(inode)) for device, _, inode in (one.partition(":") for one in inodes.split(","))]


async def serve(shown: ShownFiles, path: Path, bind: Callable[[Path], socket.socket]) -> None:
    """Take descriptors on a socket at `path` for ever. If somebody removes it, it is made again, as soon as there is
    the folder of the daemon's sockets, which is not made here."""
    while True:
        while not path.parent.is_dir():
            await asyncio.sleep(LOOK_S)
        with contextlib.closing(bind(path)) as listener:
            bound = inode_of(path.lstat())
            taking = sockets.listen(listener, Reception(shown).welcome)
            try:
                while path.exists() and inode_of(path.lstat()) == bound:
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
    tasks: set[asyncio.Task[None]] = field(default_factory=set)

    def welcome(self, link: socket.socket) -> None:
        """Take what one client shows, in a task of its own; a user with several of them has to come again."""
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
        """Batches of descriptors, each acknowledged, until the client has no more or is silent for too long."""
        link.setblocking(False)
        try:
            with link, contextlib.suppress(OSError, TimeoutError):
                while await asyncio.wait_for(self.take_some(link, peer), SILENCE_S):
                    await asyncio.wait_for(asyncio.get_running_loop().sock_sendall(link, TAKEN), SILENCE_S)
        finally:
            self.of_user[peer.uid] -= 1
            if not self.of_user[peer.uid]:
                del self.of_user[peer.uid]

    async def take_some(self, link: socket.socket, peer: Peer) -> bool:
        """One batch; False at the end."""
        await readable(link)
        data, descriptors, _, _ = socket.recv_fds(link, 1, MOST_AT_ONCE, socket.MSG_CMSG_CLOEXEC)
        with contextlib.ExitStack() as held:
            for descriptor in descriptors:
                held.callback(os.close, descriptor)
            for descriptor in descriptors:
                with contextlib.suppress(OSError):  # one that cannot even be asked shows nothing
                    self.shown.take(peer.uid, descriptor)
        return bool(data)


async def readable(link: socket.socket) -> None:
    """Until there is something to receive."""
    loop, ready = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(link, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(link)
