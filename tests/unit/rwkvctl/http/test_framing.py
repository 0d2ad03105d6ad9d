"""Where requests end: what is refused, however it is cut into pieces, and what is not."""

import pytest

from rwkvctl.http.framing import Framing, FramingError

HEAD = b"POST / HTTP/1.1\r\nhost: x\r\n"
CHUNKED = HEAD + b"transfer-encoding: chunked\r\n\r\n"
UNCERTAIN = [
    (b"GET / HTTP/1.1\nhost: x\n\n", "CRLF"),
    (b"GET / HTTP/1.1\r\nhost: x\n\r\n", "CRLF"),
    (b"GET / HTTP/1.1\r\nhost: x\r\n\n", "CRLF"),
    (b"GET / HTTP/1.1\r\na: b\rc\r\n\r\n", "CRLF"),
    (HEAD + b"a: b\r\n c\r\n\r\n", "folded"),
    (HEAD + b"a: b\r\n\tcontent-length: 3\r\n\r\n", "folded"),
    (HEAD + b"content-length: 3\r\ntransfer-encoding: chunked\r\n\r\n", "not both"),
    (HEAD + b"Content-Length: 3\r\ncontent-length: 3\r\n\r\nabc", "one Content-Length"),
    (HEAD + b"content-length: 3, 3\r\n\r\nabc", "one Content-Length"),
    (HEAD + b"content-length: +3\r\n\r\nabc", "one Content-Length"),
    (HEAD + b"content-length: ten\r\n\r\n", "one Content-Length"),
    (HEAD + b"content-length: \r\n\r\n", "one Content-Length"),
    (HEAD + b"transfer-encoding: gzip, chunked\r\n\r\n", "only Transfer-Encoding"),
    (HEAD + b"transfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n\r\n", "only Transfer-Encoding"),
    (b"POST / HTTP/1.0\r\ntransfer-encoding: chunked\r\n\r\n", "only Transfer-Encoding"),
    (CHUNKED + b"3;" + b"a" * 5000, "extensions"),
    (CHUNKED + b"3;a=b\r\nabc\r\n0\r\n\r\n", "extensions"),
    (CHUNKED + b"3\nabc\r\n", "extensions"),
    (CHUNKED + b"xyz\r\n", "extensions"),
    (CHUNKED + b"\r\n", "extensions"),
    (CHUNKED + b"-1\r\n", "extensions"),
    (CHUNKED + b"1" * 16 + b"\r\n", "extensions"),
    (CHUNKED + b"3\r\nabc\r\n0\r\n\n", "trailers"),
    (CHUNKED + b"0\r\nhost: y\r\n\r\n", "trailers"),
    (CHUNKED + b"1\r\nX\r\n" * 65, "too many small chunks"),
    (CHUNKED + b"400\r\n" + b"x" * 1024 + b"\r\n" + b"1\r\nX\r\n" * 65, "too many small chunks"),
]
CERTAIN = [
    b"GET / HTTP/1.1\r\nhost: x\r\n\r\n",
    b"GET / HTTP/1.0\r\n\r\n",
    HEAD + b"content-length: 3\r\n\r\n\n\r\n",
    CHUNKED + b"3\r\na\nb\r\n00A\r\n0123\n\r\n 89\r\n0\r\n\r\n",
    CHUNKED + b"0\r\n\r\nGET / HTTP/1.1\n\n",
    CHUNKED + b"1\r\nx\r\n000\r\n\r\n",
    CHUNKED + b"1\r\nX\r\n" * 63 + b"0\r\n\r\n",
    CHUNKED + b"400\r\n%b\r\n" % (b"x" * 1024) * 200 + b"0\r\n\r\n",
]


def see(data: bytes, step: int) -> None:
    framing = Framing()
    for start in range(0, len(data), step):
        framing.see(data[start : start + step])


@pytest.mark.parametrize("step", [1, 2, 3, 7, 100_000])
@pytest.mark.parametrize(("data", "says"), UNCERTAIN)
def test_a_request_whose_end_is_not_certain_is_refused(data: bytes, says: str, step: int) -> None:
    with pytest.raises(FramingError, match=says):
        see(data, step)


@pytest.mark.parametrize("step", [1, 2, 3, 7, 100_000])
@pytest.mark.parametrize("data", CERTAIN)
def test_what_follows_the_standard_is_let_through(data: bytes, step: int) -> None:
    see(data, step)
