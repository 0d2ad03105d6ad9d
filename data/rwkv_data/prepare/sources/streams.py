"""Binary streams that hostile or damaged files cannot turn into gigabytes of memory or a stack trace."""

import contextlib
import gzip
import io
import lzma
import os
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final

from rwkv_data.definition.errors import PrepareError

if TYPE_CHECKING:
    from _typeshed import SupportsRead, WriteableBuffer

MOST_UNPACKED: Final = 16 << 30
"""Maximum number of bytes that a file may unpack to. The largest real ones (tests of programs) stay below 5 GB."""
MOST_AT_ONCE: Final = 1 << 30
"""Maximum size in bytes of a text that has to be in memory as a whole: a JSON list, a line, a member that is parsed at
once."""

_DAMAGE = (
    EOFError,
    zlib.error,
    lzma.LZMAError,
    zipfile.BadZipFile,
    tarfile.TarError,
    gzip.BadGzipFile,
    NotImplementedError,
    RuntimeError,
)


class Budget:
    """How much may still be unpacked from one file, whatever its headers promise; its members share it."""

    def __init__(self, where: str, most: int = MOST_UNPACKED) -> None:
        self._where, self._left = where, most

    def take(self, count: int) -> None:
        """Take so many unpacked bytes from the budget. Raises PrepareError if it is exceeded."""
        self._left -= count
        if self._left < 0:
            raise PrepareError(f"{self._where} unpacks to more than any set of rows holds")


class _Counted(io.RawIOBase):
    """A stream that takes what it gives from a budget."""

    def __init__(self, stream: "SupportsRead[bytes]", budget: Budget) -> None:
        self._stream, self._budget = stream, budget

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: "WriteableBuffer", /) -> int:
        view = memoryview(buffer).cast("B")
        piece = self._stream.read(len(view))
        self._budget.take(len(piece))
        view[: len(piece)] = piece
        return len(piece)


def unpacked(stream: "SupportsRead[bytes]", budget: Budget) -> io.BufferedReader:
    """Return a packed stream (gzip, a member of an archive) as a buffered one that draws on the budget."""
    return io.BufferedReader(_Counted(stream, budget), 1 << 16)


def identity(found: os.stat_result) -> tuple[int, ...]:
    """Return what is another for a file that was changed or replaced."""
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def changed(path: Path) -> str:
    """Return what is said of a file that is another one than it was."""
    return f"{path} changed while it was read; run this again when nobody writes to it"


def lines(stream: IO[bytes], where: str, most: int = MOST_AT_ONCE) -> Iterator[bytes]:
    r"""Yield lines with their ends. Only \n ends one: texts hold every other character that is called a line end."""
    for number, line in enumerate(iter(lambda: stream.readline(most + 1), b""), 1):
        if len(line) > most:
            raise PrepareError(f"{where}:{number}: a line of more than {most} bytes")
        yield line


def whole(stream: IO[bytes], where: str, most: int = MOST_AT_ONCE) -> bytes:
    """Return the whole content, where it has to be in memory at once."""
    content = stream.read(most + 1)
    if len(content) > most:
        raise PrepareError(f"{where} holds more than {most} bytes in one piece")
    return content


def decoded(content: bytes, where: str) -> str:
    """Decode UTF-8, with or without a byte order mark."""
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise PrepareError(f"{where}: not UTF-8 at byte {error.start}") from None


@contextlib.contextmanager
def readable(where: str) -> Iterator[None]:
    """Turn errors of unpacking and reading into a PrepareError of one sentence."""
    try:
        yield
    except _DAMAGE as error:
        raise PrepareError(
            f"{where} is damaged ({type(error).__name__}: {' '.join(str(error).split())[:200]})"
        ) from None
    except OSError as error:
        raise PrepareError(f"{where} cannot be read: {error.strerror or error}") from None
