"""A cgroup for each worker: limits on memory and processes, and a kill that nothing escapes.

Only if a part of the cgroup v2 tree is ours: from the service manager (`Delegate=yes`, with `DelegateSubgroup=daemon`
so that limits are possible), or by the setting `worker_cgroup`. Otherwise workers are found by the marker in their
environment, and there are no limits. The shim stays outside: it writes the exit record.
"""

import contextlib
import logging
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

log = logging.getLogger("rwkvctl")

SUBGROUP: Final = "daemon"
"""The daemon's own leaf, as the unit names it: limits are set on cgroups beside it."""
WORKERS: Final = "workers"
UNLIMITED: Final = (
    "workers run without %s: it cannot be set below %s (%s). Limits need cgroup v2 with its controllers, and a systemd "
    "from 254 on, whose DelegateSubgroup= gives them to the service"
)
DELEGATED: Final = ("user.delegate", "trusted.delegate")
"""The attribute that systemd sets on a cgroup that it delegates."""


@dataclass(frozen=True, slots=True)
class CgroupLimits:
    """What one worker and all it starts may use; 0: no limit."""

    memory_bytes: int = 0
    pids: int = 0

    def files(self) -> list[tuple[str, str]]:
        """Return (file of the cgroup, what to write there)."""
        wanted = (("memory.max", self.memory_bytes), ("pids.max", self.pids))
        return [(name, str(value)) for name, value in wanted if value]


@dataclass(frozen=True, slots=True)
class Scopes:
    """Where cgroups of workers are made. Without a root there are none, which is no error. `unlimited`: the limits that
    the kernel did not accept, each of which is reported once, not for every worker."""

    root: Path | None = None
    unlimited: set[str] = field(default_factory=set)

    def make(self, name: str, limits: CgroupLimits) -> Path | None:
        """Make a cgroup for one attempt, with the limits that the kernel accepts; None if there can be none."""
        if self.root is None:
            return None
        folder = self.root / name
        try:
            folder.mkdir(exist_ok=True)
        except OSError as error:
            log.warning("no cgroup for a worker: %s cannot be made (%s); it runs without limits", folder, error)
            return None
        for file, value in limits.files():
            try:
                (folder / file).write_text(value, encoding="ascii")
            except OSError as error:
                if file not in self.unlimited:
                    log.warning(UNLIMITED, file, folder.parent, error.strerror)
                self.unlimited.add(file)
        return folder

    def tidy(self) -> None:
        """Remove empty cgroups: of attempts that ended while no daemon ran."""
        if self.root is not None:
            for folder in self.root.iterdir():
                if folder.is_dir():
                    remove(folder)


def open_scopes(setting: str) -> Scopes:
    """Return the tree for workers: the one of the setting (`off`: none), else the one that was delegated to this
    process."""
    if setting == "off":
        return Scopes()
    if setting:
        return prepared(Path(setting))
    own = own_cgroup(read("/proc/self/cgroup"), read("/proc/self/mountinfo"))
    if own is None:
        return Scopes()
    base = own.parent if own.name == SUBGROUP else own
    return prepared(base / WORKERS) if is_delegated(base) else Scopes()


def own_cgroup(membership: str, mounts: str) -> Path | None:
    """Return the folder of our cgroup v2, from /proc/self/cgroup and /proc/self/mountinfo; None if there is none."""
    path = next((line.removeprefix("0::") for line in membership.split("\n") if line.startswith("0::")), None)
    for line in mounts.split("\n"):
        left, _, right = line.partition(" - ")
        if path is not None and right.split(" ")[:1] == ["cgroup2"]:
            root, point = left.split(" ")[3:5]
            inside = path.removeprefix(root) if path.startswith(root) else path
            return Path(unescaped(point)) / inside.lstrip("/")
    return None


def unescaped(text: str) -> str:
    """Decode a path of mountinfo, which has octal escapes for blanks."""
    return text.replace("\\040", " ").replace("\\011", "\t").replace("\\134", "\\")


def is_delegated(folder: Path) -> bool:
    """Whether the service manager delegated this part of the tree to us: by its attribute, or by making us its
    owner."""
    for mark in DELEGATED:
        with contextlib.suppress(OSError):
            return os.getxattr(folder, mark) == b"1"
    with contextlib.suppress(OSError):
        return os.geteuid() != 0 and folder.stat().st_uid == os.geteuid() and os.access(folder, os.W_OK)
    return False


def prepared(root: Path) -> Scopes:
    """Return the root of the workers' cgroups, with the controllers for limits as far as the kernel allows."""
    try:
        root.mkdir(exist_ok=True)
    except OSError as error:
        log.warning("no cgroups for workers: %s cannot be made (%s)", root, error)
        return Scopes()
    for folder in (root.parent, root):
        for controller in ("memory", "pids"):
            with contextlib.suppress(
                OSError
            ):  # no such controller, or a process is in that cgroup: then without limits
                (folder / "cgroup.subtree_control").write_text(f"+{controller}", encoding="ascii")
    return Scopes(root)


def kill(folder: Path) -> bool:
    """SIGKILL everything in a cgroup at once, frozen or not; False if the kernel cannot (before 5.14)."""
    try:
        (folder / "cgroup.kill").write_text("1", encoding="ascii")
    except OSError:
        return False
    return True


def processes(folder: Path) -> list[int]:
    """Return the pids in a cgroup; empty if it does not exist."""
    return [int(line) for line in read(folder / "cgroup.procs").split()]


def remove_for(recorded: str) -> None:
    """Remove the cgroup that a worker's record names, if it names one."""
    if recorded:
        remove(Path(recorded))


def remove(folder: Path) -> None:
    """Remove a cgroup if it is empty; else nothing happens."""
    with contextlib.suppress(OSError):
        folder.rmdir()


def read(path: str | Path) -> str:
    """Return the text of a file of the kernel; empty if it does not exist."""
    try:
        return Path(path).read_bytes().decode(errors="replace")
    except OSError:
        return ""
