"""The clients' reader of responses: the same in whatever pieces, as h11 reads it, and safe from any bytes."""

from contextlib import suppress

import h11
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rwkvctl.http.response import LONGEST_LINE, MOST_LINES, CutError, NotHttpError, ResponseReader, request_bytes

BODIES = st.lists(st.binary(min_size=1, max_size=60), max_size=5)


def written(status: int, headers: list[tuple[str, str]], pieces: list[bytes]) -> bytes:
    """A response as h11 writes one: with a length where a header says so, else in chunks."""
    server = h11.Connection(h11.SERVER)
    server.receive_data(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n")
    server.next_event()
    events = [h11.Response(status_code=status, headers=headers), *(h11.Data(data=piece) for piece in pieces)]
    return b"".join(server.send(event) or b"" for event in [*events, h11.EndOfMessage()])


def read(raw: bytes, size: int) -> tuple[ResponseReader, bytes]:
    """Read a response that comes in pieces of `size` bytes; the connection is closed after the last one."""
    reader, body = ResponseReader(), b""
    for place in range(0, len(raw), size):
        body += reader.receive(raw[place : place + size])
    return reader, body if reader.ended else body + reader.receive(b"")


@given(st.integers(200, 599).filter(lambda status: status not in {204, 304}), BODIES, st.integers(1, 40), st.booleans())
def test_it_reads_what_h11_writes_in_any_pieces(status: int, pieces: list[bytes], size: int, counted: bool) -> None:
    whole = b"".join(pieces)
    headers = [("X-Name", "a b")] + ([("Content-Length", str(len(whole)))] if counted else [])
    reader, body = read(written(status, headers, pieces), size)
    assert (reader.status, body, reader.ended) == (status, whole, True)
    assert reader.headers["x-name"] == "a b"


@given(BODIES, st.integers(1, 40))
def test_a_body_without_a_length_ends_with_the_connection(pieces: list[bytes], size: int) -> None:
    whole = b"".join(pieces)
    assert read(b"HTTP/1.1 200 OK\r\n\r\n" + whole, size)[1] == whole


@given(BODIES, st.booleans(), st.integers(1, 40), st.data())
def test_a_response_that_is_cut_is_never_taken_for_whole(
    pieces: list[bytes], counted: bool, size: int, data: st.DataObject
) -> None:
    whole = b"".join(pieces)
    raw = written(200, [("content-length", str(len(whole)))] if counted else [], pieces)
    end = data.draw(st.integers(1, len(raw) - 1))
    with pytest.raises(CutError):
        read(raw[:end], size)


@given(st.sampled_from([b"", b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"]),
       st.binary(max_size=200), st.integers(1, 40))  # fmt: skip
def test_garbage_never_escapes_as_another_error(begin: bytes, garbage: bytes, size: int) -> None:
    with suppress(CutError, NotHttpError):
        read(begin + garbage, size)


CHUNKED = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    "raw",
    [
        CHUNKED + b"-5\r\nabcde\r\n0\r\n\r\n",
        CHUNKED + b"0x5\r\nabcde\r\n0\r\n\r\n",
        CHUNKED + b"1_0\r\n" + 16 * b"a" + b"\r\n0\r\n\r\n",
        CHUNKED + b"f" * 5000 + b"\r\n",
        CHUNKED + b"2\r\nabc\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: " + b"9" * 5000 + b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\na: " + b"b" * (LONGEST_LINE + 1),
        b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * (MOST_LINES + 1),
        CHUNKED + b"0\r\n" + b"a: b\r\n" * (MOST_LINES + 1),
    ],
    ids=["negative chunk", "0x", "underscore", "endless size", "long chunk", "endless length", "negative length",
         "endless line", "endless head", "endless trailers"],
)  # fmt: skip
def test_what_is_garbled_or_endless_is_refused(raw: bytes) -> None:
    with pytest.raises(CutError):
        ResponseReader().receive(raw)


def test_an_interim_response_is_passed_over() -> None:
    reader, body = read(b"HTTP/1.1 103 Early Hints\r\nlink: a\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok", 3)
    assert (reader.status, reader.headers, body, reader.ended) == (200, {"content-length": "2"}, b"ok", True)


@pytest.mark.parametrize("line", [b"SSH-2.0-OpenSSH", b"HTTP/1.1", b"HTTP/1.1 20", b"HTTP/1.1 9999 OK", b""])
def test_what_speaks_no_http_is_known_from_its_first_line(line: bytes) -> None:
    with pytest.raises(NotHttpError):
        ResponseReader().receive(line + b"\r\n")


def test_h11_reads_the_request() -> None:
    server = h11.Connection(h11.SERVER)
    server.receive_data(request_bytes("POST", "/v1/stop?a=b", {"host": "node"}, b"{}"))
    request, data = server.next_event(), server.next_event()
    assert isinstance(request, h11.Request)
    assert (request.method, request.target) == (b"POST", b"/v1/stop?a=b")
    assert dict(request.headers)[b"connection"] == b"close"
    assert isinstance(data, h11.Data)
    assert bytes(data.data) == b"{}"
    assert isinstance(server.next_event(), h11.EndOfMessage)
