"""Messages on a pipe or socket: four bytes of length, then the bytes. The length is checked before anything is read."""

import os
import struct

_HEAD = struct.Struct(">I")


class BrokenFrameError(Exception):
    """The other side closed, stopped in the middle, or announced more than is allowed."""


def write_frame(descriptor: int, payload: bytes) -> None:
    """Write one message. Raises BrokenFrameError if nobody reads any more."""
    rest = memoryview(_HEAD.pack(len(payload)) + payload)
    try:
        while rest:
            rest = rest[os.write(descriptor, rest) :]
    except OSError as error:
        raise BrokenFrameError(f"nobody reads: {error}") from error


def read_frame(descriptor: int, most: int) -> bytes:
    """Read one message of at most so many bytes. Raises BrokenFrameError."""
    (size,) = _HEAD.unpack(read_exactly(descriptor, _HEAD.size))
    if size > most:
        raise BrokenFrameError(f"a message of {size} bytes, at most {most} are allowed")
    return read_exactly(descriptor, size)


def read_exactly(descriptor: int, size: int) -> bytes:
    """Read exactly `size` bytes. Raises BrokenFrameError if the stream ends before."""
    parts = bytearray()
    while len(parts) < size:
        try:
            part = os.read(descriptor, min(size - len(parts), 1 << 20))
        except OSError as error:
            raise BrokenFrameError(f"cannot read: {error}") from error
        if not part:
            raise BrokenFrameError("the stream ended")
        parts += part
    return bytes(parts)


def read_all(descriptor: int, most: int | None = None) -> bytes:
    """Return a regular file's content from its start, at most `most` bytes, whatever its offset is."""
    size = os.fstat(descriptor).st_size
    wanted = size if most is None else min(size, most)
    parts = bytearray()
    while len(parts) < wanted:
        part = os.pread(descriptor, min(wanted - len(parts), 1 << 20), len(parts))
        if not part:
            break
        parts += part
    return bytes(parts)
