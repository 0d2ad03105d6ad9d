"""What a test leaves behind: processes, listening sockets, files in the temporary folder or the checkout."""

import gc
import os
import signal
import socket
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
GRACE_S = 20.0
"""What has been killed takes the kernel a moment to end, and longer under load."""
TOOLS = frozenset(
    {
        ".hypothesis", ".pytest_cache", ".mypy_cache", ".ruff_cache", ".import_linter_cache",
        ".demo", ".stress", ".venv", "build", "demo-checkpoint.pth", "dist",
    }
)  # fmt: skip
"""What test tools make in the checkout, and other targets of make, which may run meanwhile."""


SHARED: list[bytes] = []
"""Words of the command lines of processes that the tests of a module share, and that may start anew in any of them."""


@contextmanager
def shared(words: str) -> Iterator[None]:
    """For a fixture of a module: such processes are no test's own until it ends."""
    SHARED.append(words.encode())
    yield
    SHARED.remove(words.encode())


class Process(NamedTuple):
    """A process that outlived its test."""

    pid: int
    words: str


@dataclass(frozen=True)
class Before:
    """What there was when the test began."""

    pids: frozenset[int]
    sockets: frozenset[int]
    files: frozenset[str]


def look() -> Before:
    """What is there now."""
    return Before(frozenset(pids()), frozenset(sockets()), frozenset(files()))


def left(before: Before, own: Path, shared: Path) -> list[str]:
    """Sentences about what a test left. `own` is its folder, `shared` the one in which all folders lie: processes that
    name another folder belong to a fixture of the module. Processes are ended, so that no other test meets them."""
    found = [f"the process {one.pid} ({one.words})" for one in processes_left(before, own, shared)]
    if listening(before):
        gc.collect()
        found += [f"the listening socket {name}" for name in listening(before)]
    return found + [f"the file {name}" for name in sorted(set(files()) - before.files)]


def processes_left(before: Before, own: Path, shared: Path) -> list[Process]:
    deadline = time.monotonic() + GRACE_S
    while remaining := [one for pid in set(pids()) - before.pids if (one := ours(pid, own, shared))]:
        if time.monotonic() > deadline:
            for one in remaining:
                with suppress(ProcessLookupError):
                    os.kill(one.pid, signal.SIGKILL)
            break
        time.sleep(0.02)
    return remaining


def ours(pid: int, own: Path, shared: Path) -> Process | None:
    """A living process that names the test's folder, or is our child and names no other test's."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        words = Path(f"/proc/{pid}/cmdline").read_bytes()
        named = words + Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return None
    inside = os.fsencode(own) in named
    child = int(status[1]) == os.getpid() and os.fsencode(shared) not in named
    if status[0] == "Z" or not (inside or child) or any(one in words for one in SHARED):
        return None
    return Process(pid, words.replace(b"\0", b" ").decode(errors="replace")[:300])


def pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]  # noqa: PTH208 - a thousand times a minute


def sockets() -> list[int]:
    """Descriptors of this process that are sockets."""
    found = []
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208
        with suppress(OSError):
            if stat.S_ISSOCK(os.fstat(int(name)).st_mode):
                found.append(int(name))
    return found


def listening(before: Before) -> list[str]:
    """The addresses of sockets that have begun to listen."""
    found = []
    for number in set(sockets()) - before.sockets:
        with suppress(OSError), socket.socket(fileno=os.dup(number)) as one:
            if one.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
                found.append(str(one.getsockname()))
    return found


def files() -> list[str]:
    """What lies in our temporary folder and in the checkout."""
    places = (tempfile.gettempdir(), str(ROOT))
    return [f"{place}/{name}" for place in places for name in os.listdir(place) if name not in TOOLS]  # noqa: PTH208
