"""The sha256 of checkpoint files, remembered by file identity in HOME/cache/weights-sha256.json.

The same meaning as the daemon's table: a file whose device, inode, size and time are unchanged holds the same bytes.
The daemon has its own; this file serves the verbs, which work without one. It can be deleted at any time.
"""

import fcntl
import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from rwkv_weights.local.checkpoint_files import FileIdentity

NAME: Final = "weights-sha256.json"
FORMAT: Final = 2
LONGEST: Final = 32 * 1024 * 1024

Records = dict[FileIdentity, tuple[str, str]]
"""Identity -> (sha256, the path it had)."""


class Sums:
    """Reads at each question, so that what another process remembered is known here too."""

    def __init__(self, cache_dir: Path) -> None:
        self.path = cache_dir / NAME

    def known(self) -> dict[FileIdentity, str]:
        """Return the remembered sha256 of every file identity; none if the cache is absent or damaged."""
        return {identity: sha256 for identity, (sha256, _) in self._read().items()}

    def of(self, path: Path) -> str:
        """The sha256 of a file as it is now; empty if it is not known. Raises OSError where the file is gone."""
        return self.known().get(FileIdentity.of(path), "")

    def remember(self, path: Path, identity: FileIdentity, sha256: str) -> None:
        """Write it down; records of files that have changed since are left out. Raises OSError."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self._alone():
            records = {i: record for i, record in self._read().items() if not _outdated(i, record[1])}
            self._write(records | {identity: (sha256, str(path.absolute()))})

    def _read(self) -> Records:
        try:
            with self.path.open("rb") as file:
                content = json.loads(file.read(LONGEST))
            return dict(map(_record, content["files"])) if content["format"] == FORMAT else {}
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return {}  # absent or damaged: it is a cache, and what is missing is hashed again

    def _write(self, records: Records) -> None:
        fields = ("device", "inode", "size", "changed_ns")
        files = [
            {field: getattr(identity, field) for field in fields} | {"sha256": sha256, "path": path}
            for identity, (sha256, path) in records.items()
        ]
        with tempfile.NamedTemporaryFile("w", dir=self.path.parent, prefix=f".{NAME}.", delete=False) as file:
            temporary = Path(file.name)
            try:
                json.dump({"format": FORMAT, "files": files}, file, indent=0)
                file.flush()
                os.fsync(file.fileno())
                temporary.replace(self.path)
            except OSError:
                temporary.unlink(missing_ok=True)
                raise

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Hold the lock that lets one process write at a time. It is released when its process ends."""
        descriptor = os.open(self.path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)


def _record(item: Any) -> tuple[FileIdentity, tuple[str, str]]:
    numbers = [item[field] for field in ("device", "inode", "size", "changed_ns")]
    if not all(type(number) is int for number in numbers) or len(item["sha256"]) != 64:
        raise ValueError
    return FileIdentity(*numbers), (item["sha256"], str(item["path"]))


def _outdated(identity: FileIdentity, path: str) -> bool:
    """Return whether another file is now at the path. An absent file is not outdated: its disk may not be mounted at
    the moment."""
    try:
        return FileIdentity.of(Path(path)) != identity
    except (OSError, ValueError):
        return False
