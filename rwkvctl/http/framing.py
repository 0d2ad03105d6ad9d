"""Where one request ends and the next begins, read as strictly as the standard allows (RFC 9112).

h11 takes what others may read differently: lines that end in a bare LF, folded headers, two lengths, chunks with
extensions. A request that two programs cut differently can be hidden in another one, so each of these is refused before
h11 sees it. Nobody who asks us sends any of them.
"""

import re
from dataclasses import dataclass, field
from typing import Final

END: Final = b"\r\n\r\n"
BARE: Final = re.compile(rb"(?<!\r)\n|\r(?!\n|\Z)")
FOLDED: Final = re.compile(rb"\r\n[ \t]")
LENGTH: Final = re.compile(rb"\d{1,18}")
CHUNK: Final = re.compile(rb"[0-9a-fA-F]{1,15}")
FEW_CHUNKS, CHUNK_BYTES = 64, 1024
"""Each chunk costs more than its bytes: beyond the first few, there may be one for each KiB of the body."""


class FramingError(ValueError):
    """The end of a request is not certain."""


@dataclass(slots=True)
class Framing:
    """Checks the bytes of one request as they come. `line` is the part of the head, or of a chunk's size line, that is
    not complete yet; `left` counts the bytes of the current chunk that are still to come, with its line end: 0 before a
    size line, None where the body is not chunked."""

    line: bytearray = field(default_factory=bytearray)
    in_head: bool = True
    left: int | None = None
    last: bool = False
    chunks: int = 0
    bytes_in_chunks: int = 0

    def see(self, data: bytes) -> None:
        """Check the next bytes. Raises FramingError. Bytes after the end of the request are not checked."""
        if self.in_head:
            data = self.head(data)
        while data and not self.in_head and self.left is not None:
            data = self.size(data) if self.left == 0 else self.chunk(data)

    def head(self, data: bytes) -> bytes:
        """Check a part of the head; returns the bytes after it."""
        known = len(self.line)
        self.line += data
        end = self.line.find(END, max(0, known - 3))
        whole = bytes(self.line if end < 0 else self.line[: end + len(END)])
        if BARE.search(whole, max(0, known - 2)):
            raise FramingError("the lines of a request must end in CRLF")
        if end < 0:
            return b""
        self.in_head = False
        self.left = 0 if is_chunked(whole) else None
        rest = bytes(self.line[end + len(END) :])
        self.line.clear()
        return rest

    def size(self, data: bytes) -> bytes:
        """Check the size line of a chunk, or the empty line after the last chunk; returns the bytes after it."""
        self.line += data
        line, found, rest = bytes(self.line).partition(b"\r\n")
        if self.last:
            if not END[:2].startswith(bytes(self.line[:2])):
                raise FramingError("a request with chunks must end with the last one: no trailers are taken")
            if found:
                self.left = None
            return b"" if not found else rest
        if not CHUNK.fullmatch(line.removesuffix(b"\r") if not found else line):
            raise FramingError("the size of a chunk must be a hexadecimal number, without extensions")
        if not found:
            return b""
        self.line.clear()
        size = int(line, 16)
        self.chunks += 1
        self.bytes_in_chunks += size
        if self.chunks > FEW_CHUNKS + self.bytes_in_chunks // CHUNK_BYTES:
            raise FramingError("the body comes in too many small chunks")
        self.last = size == 0
        self.left = size + 2 if size else 0
        return rest

    def chunk(self, data: bytes) -> bytes:
        """Skip a part of a chunk; returns the bytes after it."""
        assert self.left is not None
        taken = min(self.left, len(data))
        self.left -= taken
        return data[taken:]


def is_chunked(head: bytes) -> bool:
    """Whether the body comes in chunks. Raises FramingError where that, or its length, is not certain."""
    if FOLDED.search(head):
        raise FramingError("the headers of a request must not be folded")
    first, *lines = head.removesuffix(END).split(b"\r\n")
    fields = [(name.lower(), value.strip(b" \t")) for name, _, value in (line.partition(b":") for line in lines)]
    lengths = [value for name, value in fields if name == b"content-length"]
    codings = [value for name, value in fields if name == b"transfer-encoding"]
    if len(lengths) > 1 or any(not LENGTH.fullmatch(value) for value in lengths):
        raise FramingError("a request has one Content-Length, and that is a number")
    if lengths and codings:
        raise FramingError("a request has a Content-Length or a Transfer-Encoding, not both")
    if codings and (len(codings) > 1 or codings[0].lower() != b"chunked" or not first.endswith(b"HTTP/1.1")):
        raise FramingError("the only Transfer-Encoding is chunked, of HTTP/1.1")
    return bool(codings)
