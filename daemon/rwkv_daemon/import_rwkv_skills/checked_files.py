"""Reading files of other programs: bounded, checked, and with errors that name file and line."""

import hashlib
import os
import stat
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Final

import msgspec

LONGEST_LINE: Final = 32 * 2**20
LARGEST_DOCUMENT: Final = 64 * 2**20
LARGEST_FILE: Final = 16 * 2**30
MOST_LINES: Final = 2_000_000
LARGEST_INDEX: Final = 10_000_000
MOST_REPEATS: Final = 100_000
LONGEST_NAME: Final = 200

Record = dict[str, Any]


def anything(_: os.stat_result) -> bool:
    return True


MAY_READ: Final[ContextVar[Callable[[os.stat_result], bool]]] = ContextVar("may_read", default=anything)
"""Whether the user who asked for the import may read a file: the daemon may read more."""


class BadFileError(Exception):
    """A file is not what it should be. The message begins with its path, and the line if there is one."""


@dataclass(slots=True)
class JsonLines:
    """A JSONL file. `sha256` is set once `records` has reached the end."""

    path: Path
    sha256: str = field(default="", init=False)

    def records(self) -> Iterator[tuple[int, Record]]:
        """Yield (line number, object) for every line that is not blank. Raises BadFileError."""
        digest = hashlib.sha256()
        with opened(self.path) as file:
            for number in range(1, MOST_LINES + 2):
                line = file.readline(LONGEST_LINE + 1)
                if not line:
                    break
                if len(line) > LONGEST_LINE or number > MOST_LINES:
                    raise BadFileError(f"{self.path}:{number}: the line, or the number of lines, is beyond all bounds")
                digest.update(line)
                if line.strip():
                    yield number, record_of(line, f"{self.path}:{number}")
        self.sha256 = digest.hexdigest()


def opened(path: Path) -> BinaryIO:
    """Open a regular file of bounded size for reading. A pipe or a device is refused, not waited for. Raises
    BadFileError, with one and the same sentence for all reasons to users who may not read what the daemon can, as it
    would tell them what exists."""
    try:
        return opened_by_us(path)
    except BadFileError as error:
        if MAY_READ.get() is anything:
            raise
        text = f"{path}: there is no plain file that you may read, of {LARGEST_FILE // 2**30} GiB at most"
        raise BadFileError(text) from error


def opened_by_us(path: Path) -> BinaryIO:
    """Open a file with the daemon's rights, with the reason of each refusal."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise BadFileError(f"{path} is no regular file")
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise BadFileError(f"{path} cannot be read by the daemon: {error.strerror or error}") from error
    status = os.fstat(handle)
    if not stat.S_ISREG(status.st_mode) or status.st_size > LARGEST_FILE:
        os.close(handle)
        raise BadFileError(f"{path} is no regular file, or larger than {LARGEST_FILE // 2**30} GiB")
    if not MAY_READ.get()(status):
        os.close(handle)
        raise BadFileError(f"{path} is not yours to read")
    return os.fdopen(handle, "rb")


def is_hidden(path: Path) -> bool:
    """Whether a path leads to a file that the user may not read, so that its existence must not be told."""
    try:
        return not MAY_READ.get()(path.stat())
    except OSError:
        return MAY_READ.get() is not anything


def record_of(line: bytes, where: str) -> Record:
    """Decode a JSON object. Half a surrogate pair, which the store cannot hold, is an error. Raises BadFileError."""
    try:
        value = msgspec.json.decode(line)
    except (msgspec.MsgspecError, RecursionError, ValueError) as error:
        raise BadFileError(f"{where}: no JSON ({error})") from error
    if not isinstance(value, dict):
        raise BadFileError(f"{where}: no JSON object")
    return value


def document(path: Path) -> tuple[Record, str]:
    """Return a whole JSON file and its sha256. Raises BadFileError."""
    with opened(path) as file:
        content = file.read(LARGEST_DOCUMENT + 1)
    if len(content) > LARGEST_DOCUMENT:
        raise BadFileError(f"{path} is larger than {LARGEST_DOCUMENT // 2**20} MiB")
    return record_of(content, str(path)), hashlib.sha256(content).hexdigest()


def text(record: Record, name: str, where: str) -> str:
    """Return a field that holds text; empty if it is missing. Raises BadFileError if it holds anything else."""
    value = record.get(name)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise BadFileError(f"{where}: {name} is no text")
    return value


def name(value: object) -> str:
    """Return a name of bounded length; empty if it is none."""
    return value.strip()[:LONGEST_NAME] if isinstance(value, str) else ""


def time(value: object) -> str:
    """Return a time as text: a number is one of seconds or milliseconds, which `benchmark_names.moment` understands."""
    return repr(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else name(value)


def place(record: Record, where: str) -> tuple[int, int]:
    """Return (sample_index, repeat_index) of a record. Raises BadFileError if one of them is missing, no integer or out
    of bounds."""
    found = []
    for field_name, most in (("sample_index", LARGEST_INDEX), ("repeat_index", MOST_REPEATS)):
        value = record.get(field_name)
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < most:
            raise BadFileError(f"{where}: {field_name} is no whole number from 0 to {most - 1}")
        found.append(value)
    return found[0], found[1]


def flag(record: Record, name: str, where: str) -> bool:
    """Return a field that is true or false. Raises BadFileError if it is neither."""
    value = record.get(name)
    if not isinstance(value, bool):
        raise BadFileError(f"{where}: {name} is neither true nor false")
    return value


def numbers(value: object) -> dict[str, float]:
    """Return the finite numbers of an object, by name."""
    if not isinstance(value, dict):
        return {}
    return {
        name(key): float(number)
        for key, number in value.items()
        if isinstance(number, (int, float)) and not isinstance(number, bool) and abs(number) < 1e15
    }
