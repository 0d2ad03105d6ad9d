"""Whether a SQLite file is on a disk of this machine: write-ahead logging needs memory that all who open it share."""

import re
from pathlib import Path
from typing import Final

from rwkv_daemon.store.interface import StoreDamagedError

MOUNTS: Final = Path("/proc/self/mountinfo")
REMOTE: Final = frozenset({"nfs", "nfs4", "cifs", "smb3", "smbfs", "fuse.sshfs", "fuse.s3fs", "fuse.gcsfuse", "afs"})
"""File systems on another machine. EFS is NFS."""
ESCAPED: Final = re.compile(r"\\([0-7]{3})")  # spaces and the like


def check_local(path: Path, mounts: Path = MOUNTS) -> None:
    """Raise StoreDamagedError if the file would be on a network file system."""
    kind = file_system(mounts.read_bytes().decode(errors="replace"), path.parent.resolve()) if mounts.exists() else ""
    if kind in REMOTE:
        raise StoreDamagedError(
            f"{path} lies on a network file system ({kind}), which loses what SQLite writes. Set RWKVCTL_HOME to a "
            "folder of a local disk, or the setting `store` to a PostgreSQL database."
        )


def file_system(mountinfo: str, folder: Path) -> str:
    """Return the type of the file system that contains a folder; empty if unknown. Of several mounts on one point the
    last counts."""
    found, deepest = "", -1
    for line in mountinfo.split("\n"):
        left, _, right = line.partition(" - ")
        fields, kind = left.split(" "), right.split(" ")[0]
        if len(fields) < 5 or not kind:
            continue
        point = Path(ESCAPED.sub(lambda octal: chr(int(octal[1], 8)), fields[4]))
        if folder.is_relative_to(point) and len(point.parts) >= deepest:
            found, deepest = kind, len(point.parts)
    return found
