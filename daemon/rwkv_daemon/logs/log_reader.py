"""Reading a log by byte offset: pieces of whole characters, the hole where a shim freed the middle, the last lines.

Offsets never change while the file lives, so a reader can continue where it stopped.
"""

import errno
import os
from dataclasses import dataclass
from pathlib import Path

CHUNK_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class LogPiece:
    """Bytes of a log from `start` on. `dropped`: how many bytes before them are missing."""

    start: int
    data: bytes
    dropped: int = 0

    @property
    def end(self) -> int:
        return self.start + len(self.data)


def read_piece(descriptor: int, offset: int) -> LogPiece:
    """Return the next piece of an open log; if the offset lies in the hole, the one after it."""
    start = next_data(descriptor, offset)
    if start is None:
        return LogPiece(offset, b"")
    room = min(CHUNK_BYTES, os.lseek(descriptor, start, os.SEEK_HOLE) - start)
    return LogPiece(start, whole_characters(os.pread(descriptor, room, start)), start - offset)


def next_data(descriptor: int, offset: int) -> int | None:
    """Return where the bytes at or after an offset begin; None at the end of the file."""
    try:
        return os.lseek(descriptor, offset, os.SEEK_DATA)
    except OSError as error:
        if error.errno == errno.ENXIO:
            return None
        raise


def whole_characters(data: bytes) -> bytes:
    """Drop a UTF-8 character that is cut off at the end, unless there is nothing else."""
    for length in range(1, min(4, len(data))):
        lead = data[-length]
        if lead < 0x80:
            break
        if lead >= 0xC0:
            needs = 2 if lead < 0xE0 else 3 if lead < 0xF0 else 4
            return data[:-length] if length < needs else data
    return data


def start_of_tail(path: Path, lines: int) -> int:
    """Return the byte where the last `lines` lines begin; in a log with a hole, at most the newest part."""
    try:
        with path.open("rb") as file:
            return start_of_last(file.fileno(), lines)
    except FileNotFoundError:
        return 0


def start_of_last(descriptor: int, lines: int) -> int:
    """Return the byte where the last `lines` lines begin, read backwards from the end and not beyond a hole."""
    end = os.lseek(descriptor, 0, os.SEEK_END)
    if lines <= 0:
        return end
    position = max(end - 1, 0)  # a line feed that ends the file begins no line
    while position > 0:
        step = min(CHUNK_BYTES, position)
        position -= step
        block = os.pread(descriptor, step, position)
        index = len(block)
        while (index := block.rfind(b"\n", 0, index)) >= 0:
            lines -= 1
            if not lines:
                return position + index + 1
        begins = next_data(descriptor, position)
        if begins is None or begins > position:
            return min(begins or end, end)
    return 0
