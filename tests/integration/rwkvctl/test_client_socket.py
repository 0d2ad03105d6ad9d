"""The CLI's HTTP client against a socket that answers byte by byte what the test says."""

import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from waiting import LIMIT_S

from rwkvctl.cli import client as client_module
from rwkvctl.cli.client import Client
from rwkvctl.cli.completion import candidates
from rwkvctl.http.response import CutError
from rwkvctl.protocol.errors import Exit, RefusedError, UnreachableError, VersionSkewError

HEAD = b"HTTP/1.1 200 OK\r\nrwkvctl-protocol: 1\r\n"


class Scripted:
    """A listening socket that gives each connection the next of its answers and keeps what it was asked."""

    def __init__(self, path: Path, answers: list[bytes]) -> None:
        self.asked: list[bytes] = []
        self.answers = answers
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(str(path))
        self.listener.listen()
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()

    def serve(self) -> None:
        for answer in self.answers:
            link, _ = self.listener.accept()
            with link:
                self.asked.append(link.recv(65536))
                for place in range(0, len(answer), 7):
                    link.sendall(answer[place : place + 7])

    def close(self) -> None:
        self.thread.join(LIMIT_S)
        self.listener.close()


@pytest.fixture
def scripted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[object]:
    monkeypatch.setattr(client_module, "PAUSE_S", 0.001)
    made: list[Scripted] = []

    def make(*answers: bytes) -> tuple[Client, Scripted]:
        made.append(Scripted(tmp_path / "d.sock", list(answers)))
        return Client(str(tmp_path / "d.sock"), timeout_s=LIMIT_S), made[0]

    yield make
    for one in made:
        one.close()


def whole(value: object) -> bytes:
    raw = json.dumps(value).encode()
    return HEAD + b"content-length: %d\r\n\r\n" % len(raw) + raw


def chunked(raw: bytes, size: int = 5) -> bytes:
    pieces = [raw[place : place + size] for place in range(0, len(raw), size)]
    return (
        HEAD
        + b"transfer-encoding: chunked\r\n\r\n"
        + b"".join(b"%x\r\n%s\r\n" % (len(p), p) for p in pieces)
        + b"0\r\n\r\n"
    )


def test_content_length(scripted) -> None:
    client, server = scripted(whole({"a": 1}))
    assert client.get("/v1/status", session="s 1", limit=3).value == {"a": 1}
    assert server.asked[0].startswith(b"GET /v1/status?session=s+1&limit=3 HTTP/1.1\r\n")
    assert b"rwkvctl-protocol: 1\r\n" in server.asked[0]


def test_chunked_reply_keeps_its_bytes(scripted) -> None:
    client, _ = scripted(chunked(b'{"b": "\xc3\xa9"}'))
    answer = client.get("/v1/x")
    assert answer.raw == b'{"b": "\xc3\xa9"}'
    assert answer.value == {"b": "é"}


def test_stream_gives_lines(scripted) -> None:
    client, _ = scripted(chunked(b'{"n":1}\n{"n":2}\n\n', 3))
    assert list(client.stream("/v1/events", LIMIT_S, since=-1)) == [b'{"n":1}', b'{"n":2}']


def test_cut_stream_says_so(scripted) -> None:
    client, _ = scripted(chunked(b'{"n":1}\n{"n":2}\n', 8)[:-12])
    with pytest.raises(CutError):
        list(client.stream("/v1/events", LIMIT_S))


def test_change_is_repeated_with_the_same_id(scripted) -> None:
    client, server = scripted(b"", HEAD + b"content-length: 50\r\n\r\n{", whole({"ok": True}))
    assert client.post("/v1/stop", {"jobs": ["j1"], "request_id": "abc"}).value == {"ok": True}
    server.thread.join(LIMIT_S)
    assert len(server.asked) == 3
    assert len(set(server.asked)) == 1
    assert b'"request_id": "abc"' in server.asked[0]


def test_gives_up_with_a_sentence(scripted) -> None:
    client, _ = scripted(b"", b"", b"", b"")
    with pytest.raises(UnreachableError, match="cut the connection, 4 times"):
        client.get("/v1/status")


def test_silence_times_out(tmp_path: Path) -> None:
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(tmp_path / "d.sock"))
    listener.listen()
    with pytest.raises(UnreachableError, match=r"silent for 0\.05 s"):
        Client(str(tmp_path / "d.sock"), 0.05, tries=1).get("/v1/status")
    listener.close()


def test_no_daemon_says_how_to_start_one(tmp_path: Path) -> None:
    with pytest.raises(UnreachableError, match=r"rwkvctl daemon.*systemctl start rwkvctl") as caught:
        Client(str(tmp_path / "none.sock")).get("/v1/status")
    assert caught.value.exit_code is Exit.UNREACHABLE


def test_stale_socket_file_is_no_daemon(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(tmp_path / "d.sock"))
    with pytest.raises(UnreachableError, match="start one"):
        Client(str(tmp_path / "d.sock")).get("/v1/status")


def test_too_long_a_path_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises((UnreachableError, OSError)) as caught:
        Client(str(tmp_path / ("x" * 120))).get("/v1/status")
    assert isinstance(caught.value, UnreachableError)


def test_refusal_carries_code_and_exit(scripted) -> None:
    raw = json.dumps(
        {"schema": "rwkvctl.error/1", "code": "no-such-job", "detail": "No j9.", "hint": "See jobs.", "exit_code": 4}
    )
    client, _ = scripted(whole(json.loads(raw)).replace(b"200 OK", b"404 Not Found"))
    with pytest.raises(RefusedError, match=r"No j9\. See jobs\.") as caught:
        client.get("/v1/jobs/j9")
    assert (caught.value.code, caught.value.exit_code) == ("no-such-job", Exit.NOT_FOUND)


@pytest.mark.parametrize("version", ["0", "2", "99"])
def test_other_protocol_is_exit_7(scripted, version: str) -> None:
    client, _ = scripted(whole({}).replace(b"protocol: 1", b"protocol: " + version.encode()))
    with pytest.raises(VersionSkewError, match=f"speaks protocol {version}") as caught:
        client.get("/v1/status")
    assert caught.value.exit_code is Exit.VERSION_SKEW


@pytest.mark.parametrize("answer", [b"SSH-2.0-OpenSSH\r\n", b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"])
def test_something_else_on_the_socket(scripted, answer: bytes) -> None:
    client, _ = scripted(answer)
    with pytest.raises(VersionSkewError):
        client.get("/v1/status")


def test_completion_is_silent_without_a_daemon(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert candidates(["--socket", "x"]) == []
    assert candidates(["samples", "--socket", str(tmp_path / "none.sock"), ""]) == []
    assert capsys.readouterr() == ("", "")
