"""Where a harness is installed, and in which state: HOME/harnesses/NAME/LOCK, once for each hash of its lock.

    venv/         the virtual environment; installed: it is complete
    tasks.json    its tasks, written last: with it the installation is ready
    build.log     what the build said; build.lock: held while it builds
    in-use        locked by every run, so that no build removes it
    fetched/      the rows that its manifest's `fetch` has fetched, in a folder for each task
    own/          copies of the operator's own tasks, each as a build found it

Beside these, NAME/cache is what all its runs share.
"""

import contextlib
import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from rwkv_daemon.harness.manifest import Harness
from rwkvctl.protocol.training.harnesses import HarnessState
from rwkvctl.settings import process_locks
from rwkvctl.settings.config import Config

LOCK_DIGITS: Final = 12
TAIL_BYTES: Final = 4096
MOST_OWN_BYTES: Final = 256 * 1024 * 1024


class TaskList(Struct, frozen=True, kw_only=True):
    """The tasks of an installed harness. `own` are those that the folder of own tasks may change: all that the manifest
    does not mark as shipped. `own_sha256` is the hash of that folder when they were listed; a copy is kept."""

    names: tuple[str, ...]
    own: tuple[str, ...]
    own_sha256: str


@dataclass(frozen=True, slots=True)
class Installation:
    """The folder of one harness under one lock. `own` is where the operator's tasks lie, if there are any."""

    folder: Path
    own: Path

    @classmethod
    def of(cls, config: Config, harness: Harness) -> "Installation":
        base = config.harness_installations / harness.name
        return cls(base / harness.lock_sha256[:LOCK_DIGITS], config.harnesses_dir / harness.name)

    @property
    def venv(self) -> Path:
        return self.folder / "venv"

    @property
    def python(self) -> Path:
        return self.venv / "bin" / "python"

    @property
    def log(self) -> Path:
        return self.folder / "build.log"

    @property
    def installed(self) -> Path:
        return self.folder / "installed"

    @property
    def build_lock(self) -> Path:
        return self.folder / "build.lock"

    @property
    def in_use(self) -> Path:
        return self.folder / "in-use"

    @property
    def cache(self) -> Path:
        return self.folder.parent / "cache"

    @property
    def fetched(self) -> Path:
        """What the manifest's `fetch` has fetched. Runs of another lock fetch their own."""
        return self.folder / "fetched"

    def copy_of_own(self, sha256: str) -> Path:
        """Return the copy of the operator's tasks with a hash; one for none is empty. A run sees it, so that a change
        of the tasks changes no run."""
        return self.folder / "own" / (sha256[:LOCK_DIGITS] or "none")

    @property
    def task_file(self) -> Path:
        return self.folder / "tasks.json"

    def tasks(self) -> TaskList | None:
        """Return its tasks; None if it is not ready."""
        try:
            return msgspec.json.decode(self.task_file.read_bytes(), type=TaskList)
        except (OSError, msgspec.MsgspecError):
            return None

    def state(self) -> tuple[HarnessState, str]:
        """Return its state with a sentence for one that is not ready: for a broken one the end of its log."""
        if process_locks.is_held(self.build_lock):
            return "building", last_line(self.log)
        if self.tasks() is not None:
            return "ready", ""
        if self.log.is_file():
            return "broken", last_line(self.log)
        return "not built", ""

    @contextmanager
    def used(self) -> Iterator[None]:
        """Keep the installation from being removed within the block. Raises OSError if it is not there."""
        descriptor = os.open(self.in_use, os.O_RDONLY | os.O_CLOEXEC)
        try:
            process_locks.hold(descriptor, shared=True)
            yield
        finally:
            os.close(descriptor)


def last_line(path: Path) -> str:
    """Return the last line of a log that is not blank; empty if there is none."""
    with contextlib.suppress(OSError), path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - TAIL_BYTES))
        lines = [line for line in file.read().decode(errors="replace").split("\n") if line.strip()]
        return lines[-1].strip() if lines else ""
    return ""


def own_sha256(folder: Path) -> str:
    """Return a hash over the files of the operator's own tasks; empty if there are none. Raises OSError for a folder
    that is too large to be one of tasks, or holds a link to another, whose files would not be seen."""
    every = sorted(folder.rglob("*")) if folder.is_dir() else []
    if linked := next((path for path in every if path.is_symlink() and path.is_dir()), None):
        raise OSError(f"{linked} is a link to a folder: put its files into {folder} themselves")
    found = [(path, path.stat()) for path in every if path.is_file() and "__pycache__" not in path.parts]
    if sum(status.st_size for _, status in found) > MOST_OWN_BYTES:
        raise OSError(f"{folder} holds over {MOST_OWN_BYTES >> 20} MiB: keep rows elsewhere")
    stamps = ((path, one.st_ino, one.st_size, one.st_mtime_ns, one.st_ctime_ns) for path, one in found)
    return _hash_of(folder, tuple(stamps))


@lru_cache(maxsize=16)
def _hash_of(folder: Path, stamps: tuple[tuple[Path, int, int, int, int], ...]) -> str:
    """Return the hash over files; the stamps change when a file does, and the daemon asks often."""
    whole = hashlib.sha256()
    for path, *_ in stamps:
        content = hashlib.sha256(path.read_bytes()).hexdigest()
        whole.update(os.fsencode(f"{path.relative_to(folder)}\0{content}\n"))
    return whole.hexdigest() if stamps else ""
