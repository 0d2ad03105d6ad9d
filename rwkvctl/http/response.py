"""One HTTP/1.1 exchange as a client sees it, without I/O: the bytes of a request, and a reader of the response's bytes.

The CLI (blocking sockets), the console, and the requests of daemon and runners to engines (asyncio) use it. All of
`rwkvctl status` takes 42 ms of processor time; importing h11 would add 6 ms, and httpx 59 (`bench/cli_cold_start.py`, 2
cores, 2026-11-26). All of them send each request on a connection of its own, so a reader reads one response; it refuses
what it cannot read.
"""

import re
from collections.abc import Callable, Mapping
from typing import Final

READ_BYTES: Final = 64 * 1024
LONGEST_LINE: Final = 64 * 1024
MOST_LINES: Final = 100
"""Lines of a head, and of trailers."""
STATUS: Final = re.compile(r"[1-5][0-9]{2}")
LENGTH: Final = re.compile(r"[0-9]{1,18}")
CHUNK: Final = re.compile(r"[0-9a-fA-F]{1,15}")


class CutError(ConnectionError):
    """The connection ended before the response was complete, or the response is garbled."""


class NotHttpError(Exception):
    """What answers does not speak HTTP."""


def request_bytes(method: str, target: str, headers: Mapping[str, str], content: bytes = b"") -> bytes:
    """Return a complete HTTP/1.1 request that asks to close the connection after the response. `content` is JSON."""
    fields = {"connection": "close", **headers}
    if method != "GET":
        fields |= {"content-type": "application/json", "content-length": str(len(content))}
    head = [f"{method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in fields.items())]
    return "\r\n".join([*head, "", ""]).encode() + content


class ResponseReader:
    """Reads one response. `status` is 0 and `headers` (names in lower case) incomplete while `in_head` is true; `ended`
    is true when the response is complete."""

    def __init__(self) -> None:
        self.status, self.headers = 0, dict[str, str]()
        self.in_head, self.ended = True, False
        self._unread = bytearray()
        self._lines = self._left = 0
        self._step: Callable[[bytearray], bool] = self._status_line

    def receive(self, data: bytes) -> bytes:
        """Take the next bytes of the connection and return what they hold of the body; `b""` says that the connection
        was closed. Raises CutError and NotHttpError."""
        if not data:
            self._close()
        self._unread += data
        body = bytearray()
        while not self.ended and self._step(body):
            pass
        return bytes(body)

    def _close(self) -> None:
        """A body without a length ends where the connection does; anything else must have ended before."""
        if self._step == self._until_close:
            self.ended = True
        elif not self.ended:
            raise CutError("the reply ended inside its header" if self.in_head else "the reply is incomplete")

    def _line(self) -> str | None:
        """Take a line without its line end; None while it is incomplete."""
        end = self._unread.find(b"\n")
        if end < 0 and len(self._unread) <= LONGEST_LINE:
            return None
        if not 0 <= end <= LONGEST_LINE:
            raise CutError("a line of the reply's header is too long")
        line = self._unread[:end].decode("latin-1").rstrip("\r")
        del self._unread[: end + 1]
        return line

    # Each step reads one part and says whether it got on; where it did not, it waits for more bytes.

    def _status_line(self, _body: bytearray) -> bool:
        line = self._line()
        if line is None:
            return False
        words = line.split(None, 2)
        if len(words) < 2 or not words[0].startswith("HTTP/1.") or not STATUS.fullmatch(words[1]):
            raise NotHttpError
        self.status, self._step = int(words[1]), self._header
        return True

    def _header(self, _body: bytearray) -> bool:
        line = self._field()
        if line:
            name, _, value = line.partition(":")
            self.headers[name.strip().lower()] = value.strip()
        elif line is not None and self.status < 200:  # an interim response of a proxy; the final one follows
            self.headers, self._step = {}, self._status_line
        elif line is not None:
            self.in_head = False
            self._begin_body()
        return line is not None

    def _field(self) -> str | None:
        line = self._line()
        self._lines += line is not None
        if self._lines > MOST_LINES:
            raise CutError("the reply has too many header lines")
        return line

    def _begin_body(self) -> None:
        length = self.headers.get("content-length")
        if "chunked" in self.headers.get("transfer-encoding", "").lower():
            self._step = self._chunk_size
        elif length is None:
            self._step = self._until_close
        elif LENGTH.fullmatch(length):
            self._left, self._step = int(length), self._counted
        else:
            raise CutError("the reply is malformed")

    def _counted(self, body: bytearray) -> bool:
        got = self._take(body)
        self.ended = not self._left
        return got

    def _until_close(self, body: bytearray) -> bool:
        body += self._unread
        self._unread.clear()
        return False

    def _chunk_size(self, _body: bytearray) -> bool:
        """The line before a chunk: a hexadecimal number; extensions are ignored."""
        line = self._line()
        if line is None:
            return False
        digits = line.partition(";")[0].strip()
        if not CHUNK.fullmatch(digits):
            raise CutError("the reply is malformed")
        self._left = int(digits, 16)
        self._step = self._chunk if self._left else self._trailer
        return True

    def _chunk(self, body: bytearray) -> bool:
        got = self._take(body)
        if not self._left:
            self._step = self._chunk_end
        return got

    def _chunk_end(self, _body: bytearray) -> bool:
        line = self._line()
        if line:
            raise CutError("the reply is malformed")
        if line is not None:
            self._step = self._chunk_size
        return line is not None

    def _trailer(self, _body: bytearray) -> bool:
        line = self._field()
        self.ended = line == ""
        return line is not None

    def _take(self, body: bytearray) -> bool:
        """Move what is there of the `_left` bytes to the body; false if nothing is."""
        piece = self._unread[: self._left]
        body += piece
        del self._unread[: len(piece)]
        self._left -= len(piece)
        return bool(piece)
