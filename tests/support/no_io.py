"""What the unit suite may not do: reach the network, start a process, touch a file that is not its own.

An audit hook of the interpreter checks it, and sees what libraries do too. Reading the checkout, the interpreter's own
files and the standard tables of the system is allowed: imports and package data need it.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROCESSES = frozenset(
    {"subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn", "os.exec", "os.system", "os.kill"}
)
SOCKETS = frozenset({"socket.connect", "socket.bind", "socket.getaddrinfo", "socket.gethostbyname", "socket.sendto"})
CHANGES = frozenset(
    {"os.remove", "os.rename", "os.mkdir", "os.rmdir", "os.link", "os.symlink", "os.chmod", "os.chown", "os.truncate",
     "os.utime", "shutil.rmtree", "os.mkfifo"}
)  # fmt: skip
READABLE = tuple(
    str(place)
    for place in (ROOT, Path(sys.prefix).resolve(), Path(sys.base_prefix).resolve(), "/usr/share/zoneinfo", "/dev/null",
                  "/dev/zero", "/dev/urandom", "/etc/mime.types", "/etc/localtime")
)  # fmt: skip
HYPOTHESIS = str(ROOT / ".hypothesis")  # its examples, where a profile keeps them
PLACES = {"os.rename": slice(2), "os.link": slice(2), "os.symlink": slice(1, 2)}  # which arguments are changed
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND

_allowed: tuple[str, ...] = ()  # where the tests' own files lie, while a block forbids all others


class IoError(AssertionError):
    """A unit test did what only an integration test may do."""


@contextmanager
def forbidden(*own: Path) -> Iterator[None]:
    """No I/O within the block but in folders of the test's own."""
    global _allowed  # noqa: PLW0603 - an audit hook cannot be taken out again
    _allowed = (*map(os.path.realpath, own), HYPOTHESIS)
    try:
        yield
    finally:
        _allowed = ()


def _hook(event: str, arguments: tuple[object, ...]) -> None:
    if not _allowed:
        return
    if event in PROCESSES:
        raise IoError(
            f"a unit test may not start or signal a process ({event} {arguments[:1]}): move it to tests/integration"
        )
    if event in SOCKETS:
        raise IoError(f"a unit test may not use the network or a socket ({event}): move it to tests/integration")
    if event in CHANGES and not all(map(_own, arguments[PLACES.get(event, slice(1))])):
        raise IoError(f"a unit test may change files in tmp_path only ({event} {arguments[:2]!r})")
    if event == "open" and not _may_open(*arguments[:3]):
        raise IoError(f"a unit test may open files in tmp_path only, and read the checkout ({arguments[0]!r})")


def _may_open(path: object, _mode: object, flags: object) -> bool:
    if not isinstance(path, (str, bytes)) or _own(path):
        return True
    writes = isinstance(flags, int) and flags & WRITING
    place = os.path.realpath(os.fsdecode(path))
    return (not writes and place.startswith(READABLE)) or place == "/dev/null"


def _own(path: object) -> bool:
    """Whether a path lies where pytest keeps the folders of tests, or is bytecode that an import leaves; a file that is
    open already does."""
    if not isinstance(path, (str, bytes, os.PathLike)):
        return True
    place = os.path.realpath(os.fsdecode(path))
    return place.startswith(_allowed) or "/__pycache__" in place


sys.addaudithook(_hook)
