"""Reading files that a harness has written: regular ones in its own output folder, of bounded size, as JSON."""

import json
import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, Final

from rwkv_daemon.harness.outputs.result import NoResultsError, ResultError
from rwkvctl.settings.folder_trees import files_below

MOST_LINES: Final = 8 * 1024**3
LONGEST_LINE: Final = 256 * 1024**2
LONGEST: Final = 1_000_000
"""Characters that are kept of a prompt or an answer of a harness."""


def only_file(folder: Path, name: re.Pattern[str], what: str) -> Path:
    """Return the one file of a name in a folder. Raises NoResultsError if there is none, ResultError for several."""
    files = files_of(folder, name)
    if not files:
        raise NoResultsError(f"it wrote no {what}")
    if len(files) > 1:
        raise ResultError(f"it wrote {len(files)} files of {what}")
    return files[0]


def files_of(folder: Path, name: re.Pattern[str]) -> list[Path]:
    """Return the regular files of a name in a folder that a harness has written. Links are no files of its own: what is
    behind one may be what only the daemon can read."""
    return sorted(Path(entry.path) for entry in files_below(folder) if name.fullmatch(entry.name) and is_regular(entry))


def is_regular(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_file(follow_symlinks=False)
    except OSError:
        return False


def opened(path: Path, most: int) -> BinaryIO:
    """Open a file that a harness has written. Raises ResultError for one that is not regular, or of over `most`
    bytes."""
    file = os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb")
    status = os.fstat(file.fileno())
    if not stat.S_ISREG(status.st_mode) or status.st_size > most:
        file.close()
        raise ResultError(f"{path.name} is not a regular file of at most {most >> 20:,} MiB")
    return file


def value_in(path: Path, most: int) -> Any:
    """Return the value in a file of JSON of at most `most` bytes. Raises ResultError."""
    with opened(path, most) as file:
        return decoded(file.read(), path.name)


def decoded(content: bytes, name: str) -> Any:
    """Return the value of JSON in the file of this name. Raises ResultError if it is none, or nested too deeply."""
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as error:
        raise ResultError(f"{name} is not JSON ({error})") from error


def lines_of(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the objects in a file of JSON lines. Raises ResultError."""
    with opened(path, MOST_LINES) as file:
        while text := file.readline(LONGEST_LINE):
            if len(text) == LONGEST_LINE:
                raise ResultError(f"{path.name} has a line of over {LONGEST_LINE >> 20} MiB")
            line = decoded(text, path.name)
            if isinstance(line, dict):
                yield line


def cut(text: str) -> str:
    """Return a text without what the store cannot hold, cut to `LONGEST` characters."""
    return text[:LONGEST].encode("utf-8", "replace").decode()
