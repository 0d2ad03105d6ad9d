"""When a log had which length: the file that the shim writes beside it, once a second while the log grows.

Workers write lines without a time; this file gives the time of each, to the second.
"""

import struct
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from rwkv_daemon.logs.log_reader import LogPiece

ENTRY: Final = struct.Struct("<dQ")


def times_path(log: Path) -> Path:
    """Return the path of a log's timestamps: `log-3.times` for `log-3.txt`."""
    return log.with_suffix(".times")


@dataclass(slots=True)
class LogTimes:
    """The entries of one log that were read so far: at `at[i]` (seconds since 1970) it was `size[i]` bytes long."""

    path: Path
    at: list[float] = field(default_factory=list)
    size: list[int] = field(default_factory=list)

    def read(self) -> None:
        """Read what was added. A log of an older version has no such file."""
        try:
            with self.path.open("rb") as file:
                file.seek(len(self.at) * ENTRY.size)
                data = file.read()
        except FileNotFoundError:
            return
        for at, size in ENTRY.iter_unpack(data[: len(data) // ENTRY.size * ENTRY.size]):
            self.at.append(at)
            self.size.append(size)

    def offset_at(self, moment: float) -> int:
        """Return where the text begins that was written from a time on. The clock may have been set back: the first
        later entry counts."""
        later = next((i for i, at in enumerate(self.at) if at >= moment), len(self.at))
        return self.size[later - 1] if later else 0

    def split(self, piece: LogPiece, now: float) -> Iterator[tuple[LogPiece, str]]:
        """Yield a piece in parts that were written in the same second, each with its time; the newest part was written
        now."""
        start = piece.start
        index = bisect_left(self.size, start + 1)
        while start < piece.end:
            end = min(self.size[index], piece.end) if index < len(self.size) else piece.end
            at = self.at[index] if index < len(self.at) else now
            yield LogPiece(start, piece.data[start - piece.start : end - piece.start]), spelt(at)
            start, index = end, index + 1


def spelt(at: float) -> str:
    """Return seconds since 1970 as RFC 3339 in UTC, to the second."""
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def seconds(text: str) -> float:
    """Return RFC 3339 as seconds since 1970. Raises ValueError."""
    found = datetime.fromisoformat(text)
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()
