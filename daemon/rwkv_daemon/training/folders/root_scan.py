"""The checkpoints in a watched folder, without opening one: names, identities, and marker files."""

import errno
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

from rwkv_daemon.training.folders.still_files import SeenFile
from rwkv_weights.local import inventory
from rwkv_weights.local.checkpoint_files import FileIdentity, signed

SUFFIXES: Final = (".pth", ".safetensors")
DEPTH: Final = 3
"""Folders below the root that are looked into."""
MOST: Final = 100_000
"""Files and folders of one root; a folder of more is no training run's."""
MOST_NS: Final = 2**63 - 1
"""The largest number that the store holds; a file may have any time."""
_SHARD: Final = re.compile(r".*-[0-9]+-of-[0-9]+\.safetensors")


class UnfitRootError(OSError):
    """A root is not what was added, or holds more than a training run leaves."""

    def __init__(self, sentence: str) -> None:
        super().__init__(errno.EINVAL, sentence)


@dataclass(frozen=True, slots=True)
class RootFiles:
    """What is in a root. `files`: the checkpoints by their names below it; `folders`: when a name in each came or went;
    `unread`: the folders that could not be read, and why."""

    files: Mapping[str, SeenFile] = field(default_factory=dict)
    folders: Mapping[str, int] = field(default_factory=dict)
    unread: Mapping[str, str] = field(default_factory=dict)

    def is_gone(self, name: str) -> bool:
        """Whether a checkpoint is not there any more, as far as could be read."""
        return name not in self.files and not any(name.startswith(folder) for folder in self.unread)


@dataclass(slots=True)
class OneFolder:
    """A folder below the root. `name` ends in a slash, unless it is the root's, which is empty; `below`: the folders in
    it; `every_name`: all that is in it, hidden files, too."""

    name: str
    changed_ns: int = 0
    files: dict[str, os.DirEntry[str]] = field(default_factory=dict)
    below: list[str] = field(default_factory=list)
    every_name: set[str] = field(default_factory=set)
    unread: str = ""


def inode_of(root: Path) -> int:
    """Return the inode of a folder as the store has it. Raises OSError."""
    return signed(root.stat().st_ino)


def check_root(root: Path, inode: int) -> None:
    """Raise UnfitRootError unless a root is the folder that was added, and OSError if it cannot be read. An empty mount
    point is another folder than what is mounted there."""
    if Path(os.path.realpath(root)) != root:
        raise UnfitRootError(f"a link leads it to {os.path.realpath(root)}")
    if inode_of(root) != inode:
        raise UnfitRootError(
            "it is another folder than the one that was added: is it not mounted? `watch resume` takes it as it is"
        )


def scan(root: Path, match: Sequence[str], marker: str) -> RootFiles:
    """Return what is in a root. `match`: patterns of the checkpoints' names, or of the last part of them; `marker`:
    what the name of the marker file is, with `{}` for the checkpoint's (empty: there is none). Links are left out: what
    they lead to may be written by others; so are names that cannot be written to a terminal. Raises OSError if the root
    cannot be read."""
    found: dict[str, SeenFile] = {}
    changed: dict[str, int] = {}
    unread: dict[str, str] = {}
    names: set[str] = set()
    for folder in _folders(root):
        changed[folder.name] = folder.changed_ns
        if folder.unread:
            unread[folder.name] = folder.unread
        if marker:
            names.update(f"{folder.name}{name}" for name in folder.every_name)
        found |= _checkpoints(root, folder, match)
    if marker:
        found = {
            name: file._replace(marked=not names.isdisjoint(markers_of(name, marker))) for name, file in found.items()
        }
    return RootFiles(found, changed, unread)


def names_changed(root: Path, folders: Mapping[str, int]) -> bool:
    """Whether a name came or went in a folder since a scan. It opens none; what grows under its name is not seen."""
    for folder, changed_ns in folders.items():
        try:
            if (root / folder).stat().st_mtime_ns != changed_ns:
                return True
        except OSError:
            return True
    return False


def _folders(root: Path) -> Iterator[OneFolder]:
    """Yield the folders of a root. Raises OSError for the root itself; one below it may go while it is read."""
    waiting, room = [("", 0)], MOST
    while waiting:
        name, depth = waiting.pop()
        folder = OneFolder(name)
        try:
            _read(root, folder, room)
        except UnfitRootError:
            raise
        except OSError as error:
            if not name:
                raise
            if not isinstance(error, (FileNotFoundError, NotADirectoryError)):
                folder.unread = error.strerror or str(error)
        room -= len(folder.every_name)
        if depth < DEPTH:
            waiting += [(f"{name}{below}/", depth + 1) for below in folder.below]
        yield folder


def _read(root: Path, folder: OneFolder, room: int) -> None:
    """Read the names in a folder. Raises UnfitRootError if there are more than `room`."""
    folder.changed_ns = (root / folder.name).stat().st_mtime_ns
    with os.scandir(root / folder.name) as entries:
        for entry in entries:
            folder.every_name.add(entry.name)
            if len(folder.every_name) > room:
                raise UnfitRootError(f"it holds more than {MOST:,} files")
            if entry.name.startswith("."):
                continue
            if entry.is_dir(follow_symlinks=False):
                if entry.name.isprintable():
                    folder.below.append(entry.name)
            elif entry.is_file(follow_symlinks=False):
                folder.files[entry.name] = entry


def _checkpoints(root: Path, folder: OneFolder, match: Sequence[str]) -> dict[str, SeenFile]:
    """Return the checkpoints of one folder, which may be one itself."""
    found: dict[str, SeenFile] = {}
    layout = any(name.startswith("model") and ".safetensors" in name for name in folder.files)
    weights = [name for name in folder.files if name.endswith(SUFFIXES) and name.isprintable()]
    tensors = [name for name in weights if name.endswith(".safetensors")]
    if folder.name and layout and tensors:
        name = folder.name.removesuffix("/")
        if _matches(name, match) or any(_matches(f"{folder.name}{one}", match) for one in tensors):
            found |= _of_layout(root, name)
    for name in weights:
        is_part = name in tensors and ((folder.name and layout) or _SHARD.fullmatch(name))
        if not is_part and _matches(f"{folder.name}{name}", match):
            found |= _of_file(f"{folder.name}{name}", folder.files[name])
    return found


def _of_file(name: str, entry: os.DirEntry[str]) -> dict[str, SeenFile]:
    """Return one file by its name; none if it went meanwhile."""
    try:
        found = entry.stat(follow_symlinks=False)
    except OSError:
        return {}
    return {name: SeenFile(of_identity(FileIdentity.from_status(found)), _storable(found.st_mtime_ns))}


def _of_layout(root: Path, name: str) -> dict[str, SeenFile]:
    """Return a folder in the Hugging Face layout by its name, as it is hashed and loaded: hidden files belong to it. A
    folder with links is left out."""
    try:
        found = inventory.at(root / name)
        if any(file.is_symlink() for file in found.files):
            return {}
        modified = max(file.stat().st_mtime_ns for file in found.files)
        return {name: SeenFile(of_identity(found.identity), _storable(modified))}
    except (OSError, ValueError):
        return {}


def _storable(modified_ns: int) -> int:
    return max(-MOST_NS, min(modified_ns, MOST_NS))


def _matches(name: str, match: Sequence[str]) -> bool:
    return not match or any(fnmatchcase(name, one) or fnmatchcase(name.rpartition("/")[2], one) for one in match)


def markers_of(name: str, marker: str) -> tuple[str, ...]:
    """Return the names of the files that mark a checkpoint as complete. `{}/NAME` is a file in its folder, whether it
    is that folder or a file in it."""
    folder, slash, last = name.rpartition("/")
    beside = f"{folder}{slash}{marker.replace('{}', last)}"
    return (
        (f"{folder}{slash}{marker.removeprefix('{}/')}", beside) if marker.startswith("{}/") and folder else (beside,)
    )


def of_identity(identity: FileIdentity) -> str:
    """Return an identity as the store has it."""
    return f"{identity.device}:{identity.inode}:{identity.size}:{identity.changed_ns}"


def identity_key(spelled_identity: str) -> tuple[int, int, int, int]:
    """Return an identity as the key of the sha256 cache."""
    device, inode, size, changed_ns = map(int, spelled_identity.split(":"))
    return device, inode, size, changed_ns
