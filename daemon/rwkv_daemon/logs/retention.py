"""Keeping all logs of a home within a size: the oldest logs of finished work are removed first."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

SPARED: Final = 0.9
"""Pruning goes on down to this share of the limit, so that it is not needed again at once."""


@dataclass(frozen=True, slots=True)
class LogFile:
    """A log and the bytes it takes on the disk (less than its length if its middle was freed)."""

    path: Path
    changed: float
    bytes: int


def to_remove(files: list[LogFile], most_bytes: int, finished: Callable[[Path], bool]) -> list[Path]:
    """Return the logs to remove so that the rest fits; never a log of work in progress. Pure."""
    total = sum(file.bytes for file in files)
    if total <= most_bytes:
        return []
    chosen = []
    for file in sorted(files, key=lambda file: file.changed):
        if total <= most_bytes * SPARED:
            break
        if finished(file.path):
            chosen.append(file.path)
            total -= file.bytes
    return chosen


def logs_of(runs: Path) -> Iterator[LogFile]:
    """Yield every log with its file of timestamps."""
    for pattern in ("j*/log-*.txt", "j*/log-*.times", "engines/e*/log.txt", "engines/e*/log.times"):
        for path in runs.glob(pattern):
            try:
                found = path.stat()
            except FileNotFoundError:
                continue
            yield LogFile(path, found.st_mtime, found.st_blocks * 512)


def prune(runs: Path, most_bytes: int, finished: Callable[[Path], bool]) -> int:
    """Remove the logs that are too much; returns how many files were removed. Followers are told that the file is
    gone."""
    chosen = to_remove(list(logs_of(runs)), most_bytes, finished)
    for path in chosen:
        path.unlink(missing_ok=True)
    return len(chosen)
