"""What the service leaves besides its units: processes in its control group, folders that systemd made for it, links.

Processes are known by the control group alone, which the service manager put them in: nobody else's is there.
"""

import contextlib
import fcntl
import os
import shutil
import signal
import socket
import stat
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Final

from rwkvctl.settings.folder_trees import remove_tree

UNIT: Final = "rwkvctl.service"
TERM_S: Final = 20.0
KILL_S: Final = 20.0
LOOK_S: Final = 0.1
KINDS: Final = (
    (b"shim.py", ""), (b"rwkv_engine", "engine"), (b"rwkv_daemon.runner", "runner"), (b"rwkv_daemon.gpus", ""),
    (b"rwkv_daemon\0", "daemon"),
)  # fmt: skip
"""What a process is, by a word of its command line, the first that fits. Helpers are not counted beside them."""
MADE: Final = ("run/rwkvctl", "var/cache/rwkvctl")
"""Folders of the system's service that hold nothing an operator wants to keep: sockets, temporary files, caches."""
LOCKS: Final = "run/lock/rwkvctl"
CONFIGURATION: Final = "etc/rwkvctl"
LINKED: Final = (".wants", ".requires")
"""Folders of links by which units are enabled."""


def control_group(known: str, *, user: bool) -> str:
    """The service's control group: what systemd calls it, or where it lies unless somebody moved it."""
    uid = os.geteuid()
    usual = f"/user.slice/user-{uid}.slice/user@{uid}.service/app.slice" if user else "/system.slice"
    return known or f"{usual}/{UNIT}"


def members(group: str) -> list[int]:
    """The processes in a control group and below it."""
    return [int(place.name) for place in Path("/proc").glob("[0-9]*") if is_member(int(place.name), group)]


def is_member(pid: int, group: str) -> bool:
    """Return whether a process is alive in a control group, or below it, in the tree that systemd keeps."""
    try:
        lines = Path(f"/proc/{pid}/cgroup").read_bytes().decode(errors="replace").split("\n")
        ended = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return False
    ours = [line.split(":", 2)[2] for line in lines if line.startswith("0::") or ":name=systemd:" in line]
    return ended not in "ZX" and any(path == group or path.startswith(f"{group}/") for path in ours)


def counted(pids: list[int]) -> str:
    """Return a count of processes in words: `1 daemon, 2 engines`."""
    kinds = Counter(filter(None, map(kind_of, pids)))
    some = [f"{number} {kind}{'' if number == 1 else 's'}" for kind, number in sorted(kinds.items())]
    return ", ".join(some) or f"{len(pids)} processes"


def kind_of(pid: int) -> str:
    """Return the kind of a process of the service by its command line; empty if unknown."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return ""
    return next((kind for word, kind in KINDS if word in words), "")


def end(group: str) -> list[int]:
    """End the processes in a control group, with SIGTERM and then with SIGKILL; return those that survive."""
    for number, limit_s in ((signal.SIGTERM, TERM_S), (signal.SIGKILL, KILL_S)):
        told: set[int] = set()
        deadline = time.monotonic() + limit_s
        while there := members(group):
            for pid in set(there) - told:
                tell(pid, number, group)
            told |= set(there)
            if time.monotonic() > deadline:
                break
            time.sleep(LOOK_S)
    return members(group)


def tell(pid: int, number: signal.Signals, group: str) -> None:
    """Send a signal to a process, unless the pid now belongs to a process outside the group."""
    with contextlib.suppress(ProcessLookupError):
        descriptor = os.pidfd_open(pid)
        try:
            if is_member(pid, group):
                signal.pidfd_send_signal(descriptor, number)
        finally:
            os.close(descriptor)


def links(folder: Path) -> list[Path]:
    """The links by which units of ours are enabled, in a folder of units."""
    names = (UNIT, "rwkvctl.socket")
    found = (path for kind in LINKED for path in folder.glob(f"*{kind}/*"))
    return sorted(path for path in found if path.name in names and path.is_symlink())


def drop_ins(folder: Path) -> list[Path]:
    """Return the operator's drop-ins to our units in a folder of units."""
    return sorted(path for name in (UNIT, "rwkvctl.socket") for path in folder.glob(f"{name}.d/*"))


def remove_folder(folder: Path) -> str:
    """Remove a folder that the service made, with all in it; returns why it is left, empty if it is gone."""
    if folder.is_symlink():
        return f"kept: a link to {folder.readlink()} that was made by hand"
    if answering := [path.name for path in folder.iterdir() if answers(path)]:
        return f"kept: another daemon or engine listens on {', '.join(answering)}"
    remove_tree(folder)
    return ""


def answers(path: Path) -> bool:
    """Return whether a process listens on a Unix socket; true also if its backlog is full or access is denied."""
    if not stat.S_ISSOCK(path.lstat().st_mode):
        return False
    with socket.socket(socket.AF_UNIX) as one:
        one.settimeout(1.0)
        try:
            one.connect(str(path))
        except (ConnectionRefusedError, FileNotFoundError):
            return False
        except OSError:
            return True  # its backlog is full, or we may not: somebody is there
    return True


def remove_locks(folder: Path) -> str:
    """Remove the folder of GPU locks, which all users share, unless one is held; return why it is left, empty if it is
    gone."""
    with contextlib.ExitStack() as held:
        for path in folder.iterdir():
            try:
                descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
                held.callback(os.close, descriptor)
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                held_by_other = isinstance(error, BlockingIOError)
                why = "another daemon on this machine holds it" if held_by_other else error.strerror
                return f"kept: {path.name} in it cannot be locked: {why}"
        shutil.rmtree(folder)
    return ""


def remove_if_empty(folder: Path) -> str:
    """Remove the folder of the configuration if it is empty; return why it is left, empty if it is gone."""
    try:
        folder.rmdir()
    except OSError:
        return "kept: your configuration"
    return ""


def made(root: Path) -> dict[Path, Callable[[Path], str]]:
    """Return the existing folders of the system's service below `root`, each with the function that removes it; that
    returns why a folder is left, empty if it is gone."""
    ways = dict.fromkeys(MADE, remove_folder) | {LOCKS: remove_locks, CONFIGURATION: remove_if_empty}
    return {root / name: way for name, way in ways.items() if (root / name).exists()}
