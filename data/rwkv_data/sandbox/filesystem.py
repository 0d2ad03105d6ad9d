"""The files that a program can see: the interpreter's library, the system's shared libraries, a few devices.

All of it read-only, at the paths it has outside (the interpreter knows them already). There is no /proc, no /sys, no
home, no /etc, no socket, and no program to execute matters, because execve is not among the allowed calls.
"""

import os
import sys
from pathlib import Path

from rwkv_data.sandbox import linux

WORK = "/tmp"  # noqa: S108  # the sandbox's own: a fresh tmpfs for every program
DEVICES = ("null", "zero", "full", "random", "urandom")
# An empty tmpfs is laid over it while the new root is built: it exists everywhere, and nothing below it is wanted.
_STAGING = "/proc"
_READ_ONLY = linux.ATTR_RDONLY | linux.ATTR_NOSUID


def libraries() -> list[Path]:
    """Folders that the interpreter may still read from after its start."""
    system = [Path(name) for name in ("/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/share/zoneinfo")]
    own = [Path(base) / name for base in {sys.base_prefix, sys.base_exec_prefix} for name in ("lib", "lib64")]
    found = [path for path in [*system, *own] if path.is_dir()]
    return [path for path in dict.fromkeys(found) if not any(other in path.parents for other in found)]


def build_root() -> None:
    """Make the small read-only tree the root directory of this mount namespace. Raises OSError."""
    linux.mount("none", "/", flags=linux.MS_REC | linux.MS_PRIVATE)  # nothing done here shows outside
    linux.mount("tmpfs", _STAGING, "tmpfs", linux.MS_NOSUID, "mode=755,size=1m,nr_inodes=1024")
    root = Path(_STAGING)
    for path in libraries():
        _show(path, root)
    (root / "dev").mkdir()
    for name in DEVICES:
        _show_device(Path("/dev") / name, root)
    (root / WORK[1:]).mkdir()
    linux.enter_root(_STAGING)
    linux.protect("/", _READ_ONLY, recursive=True)


def _show(path: Path, root: Path) -> None:
    """Bind a folder at its own path; a symbolic link in its place stays one."""
    target = root / path.relative_to("/")
    target.parent.mkdir(parents=True, exist_ok=True)
    if path.is_symlink():
        target.symlink_to(path.readlink())
        return
    target.mkdir(exist_ok=True)
    linux.mount(str(path), str(target), flags=linux.MS_BIND | linux.MS_REC)
    linux.protect(str(target), _READ_ONLY | linux.ATTR_NODEV, recursive=True)


def _show_device(device: Path, root: Path) -> None:
    if device.is_char_device():
        target = root / "dev" / device.name
        target.touch()
        linux.mount(str(device), str(target), flags=linux.MS_BIND)


def fresh_workspace(size_bytes: int, files: int, uid: int) -> None:
    """Lay an empty tmpfs over the work folder and go there. Needs a mount namespace of one's own."""
    options = f"size={size_bytes},nr_inodes={files},mode=700,uid={uid},gid={uid}"
    linux.mount("tmpfs", WORK, "tmpfs", linux.MS_NOSUID | linux.MS_NODEV | linux.MS_NOEXEC, options)
    os.chdir(WORK)
