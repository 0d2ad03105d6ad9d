"""Clients on other machines: TLS, tokens, and what the command line says where something about them is wrong."""

import asyncio
import contextlib
import itertools
import json
import os
import re
import resource
import shutil
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from waiting import LIMIT_S, wait_for

from rwkv_daemon.api import rate_limits, tls_tokens
from rwkv_daemon.host import socket_folder
from rwkvctl.cli import main as cli
from rwkvctl.cli.client import Client, client_of
from rwkvctl.cli.remote import remote as named
from rwkvctl.http import server as httpd
from rwkvctl.http import unadmitted
from rwkvctl.http.listeners import bind_tcp
from rwkvctl.protocol.errors import ConfigError, Exit, RefusedError, RwkvctlError, UnreachableError
from rwkvctl.protocol.replies import InfoReply
from rwkvctl.protocol.requests import InfoRequest
from rwkvctl.settings.config import load
from rwkvctl.tui.daemon.client import Link

VIEWER, OPERATOR, HASTY = "v" * 32, "o" * 32, "h" * 32


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A self-signed certificate for 127.0.0.1; its key lies beside it."""
    if shutil.which("openssl") is None:
        pytest.skip("needs openssl: not installed")
    return made(tmp_path_factory.mktemp("tls") / "cert.pem")


def made(path: Path) -> Path:
    command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=node"
    names = ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(path.with_suffix(".key")), "-out", str(path)]
    subprocess.run([*command.split(), *names], check=True, capture_output=True)
    path.with_suffix(".key").chmod(0o600)
    return path


@dataclass
class Remote:
    """A daemon that listens on TCP too, and how to ask it there."""

    node: Any
    port: int
    certificate: Path
    folder: Path

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}"

    def token(self, text: str) -> Path:
        path = self.folder / f"token-{text[:1]}"
        path.write_text(f"{text}\n")
        path.chmod(0o600)
        return path

    def environment(self, text: str, **changed: str) -> dict[str, str]:
        """Of a client on another machine."""
        names = {
            "RWKVCTL_SOCKET": self.url,
            "RWKVCTL_CLIENT_TOKEN_FILE": str(self.token(text)),
            "RWKVCTL_CLIENT_CA_FILE": str(self.certificate),
            "HOME": str(self.folder),
            "PATH": os.environ["PATH"],
        }
        return names | changed

    def client(self, text: str) -> Client:
        return client_of(load({}, self.environment(text)), tries=1)

    def cli(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "rwkvctl.cli", *words],
            env=self.environment(OPERATOR), capture_output=True, text=True, timeout=LIMIT_S, check=False,
        )  # fmt: skip


def tcp_port(pid: int) -> int:
    """Where a process listens on TCP: the kernel chose the port, so that nobody can have taken it before."""
    own: set[str] = set()
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # closed since it was listed
            own.add(str(entry.readlink()))
    lines = [line.split() for line in Path(f"/proc/{pid}/net/tcp").read_text().splitlines()[1:]]
    (port,) = [int(line[1].partition(":")[2], 16) for line in lines if line[3] == "0A" and f"socket:[{line[9]}]" in own]
    return port


@contextlib.contextmanager
def closed_port() -> Iterator[int]:
    """A port at which nobody listens, and nobody else will."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield int(held.getsockname()[1])


TOKENS = f"# role name token\nviewer dashboard {VIEWER}\noperator ci {OPERATOR}\nviewer hasty {HASTY}\n"


def tokens_file(folder: Path) -> Path:
    path = folder / "tokens"
    path.write_text(TOKENS)
    path.chmod(0o600)
    return path


@pytest.fixture(scope="module")
def remote(module_node: Callable[..., Any], certificate: Path, tmp_path_factory: pytest.TempPathFactory) -> Remote:
    """A daemon that all tests ask; they leave it as it was."""
    return tls_node(module_node, certificate, tmp_path_factory.mktemp("client"))


def tls_node(make_node: Callable[..., Any], certificate: Path, folder: Path, **settings: str) -> Remote:
    node = make_node(
        listen_tcp="127.0.0.1:0", tls_cert=str(certificate), tls_key=str(certificate.with_suffix(".key")),
        tokens_file=str(tokens_file(folder)), **settings,
    ).start()  # fmt: skip
    return Remote(node, tcp_port(node.daemon.pid), certificate, folder)


# -- tokens and roles


def test_each_token_has_its_role_and_its_name_in_the_audit_trail(remote: Remote) -> None:
    viewer, operator = remote.client(VIEWER), remote.client(OPERATOR)
    before = len(operator.get("/v1/audit").value["items"])
    assert viewer.get("/v1/status").value["schema"] == "rwkvctl.status/1"
    with pytest.raises(RefusedError, match="dashboard is a viewer here, and `stop` needs an operator") as caught:
        viewer.post("/v1/stop", {"jobs": ["j1"]})
    assert (caught.value.code, caught.value.exit_code) == ("role", Exit.REFUSED)
    assert operator.post("/v1/stop", {"jobs": ["j1"]}).value["schema"] == "rwkvctl.changed/1"
    with pytest.raises(RefusedError, match="needs an admin"):
        operator.post("/v1/reload", {})
    every = operator.get("/v1/audit").value["items"]
    items = every[: len(every) - before]
    found = [(item["user"], item["uid"], item["verb"], item["outcome"]) for item in items]
    assert found == [
        ("ci", -1, "reload", "refused: role"),
        ("ci", -1, "stop", "unchanged"),
        ("dashboard", -1, "stop", "refused: role"),
    ]


def test_streams_come_over_tls_too(remote: Remote) -> None:
    lines = remote.client(VIEWER).stream("/v1/events", LIMIT_S, since=0, follow=False)
    assert all(json.loads(line)["kind"] for line in lines)


def test_a_token_counts_as_long_as_its_line_is_there(remote: Remote) -> None:
    operator = remote.client(OPERATOR)
    assert operator.get("/v1/info")
    path = remote.folder / "tokens"
    try:
        path.write_text(f"viewer dashboard {VIEWER}\n")
        with pytest.raises(RefusedError, match="not valid for this daemon"):
            operator.get("/v1/info")
        assert remote.client(VIEWER).get("/v1/info")
        path.chmod(0o644)
        path.write_text(f"viewer dashboard {VIEWER}\nviewer other {OPERATOR}\n")
        with pytest.raises(RefusedError, match="not valid for this daemon"):
            remote.client(VIEWER).get("/v1/info")
        assert "no client is accepted over TCP" in remote.node.log()
        assert remote.node.api.get("/v1/info"), "the Unix socket needs no token"
    finally:
        tokens_file(remote.folder)
    assert operator.get("/v1/info")


def test_a_stranger_is_refused_before_the_body_is_read(remote: Remote) -> None:
    context = ssl.create_default_context(cafile=remote.certificate)
    for header in (b"", b"authorization: Bearer wrong\r\n", b"authorization: Basic dTpw\r\n"):
        with (
            socket.create_connection(("127.0.0.1", remote.port), LIMIT_S) as plain,
            context.wrap_socket(plain, server_hostname="127.0.0.1") as link,
        ):
            link.sendall(b"POST /v1/stop HTTP/1.1\r\nhost: x\r\n" + header + b"content-length: 5000000\r\n\r\n")
            answer = b""
            while data := link.recv(65536):
                answer += data
        assert answer.startswith(b"HTTP/1.1 401 ")
        assert json.loads(answer.partition(b"\r\n\r\n")[2])["code"] == "token"


def test_who_asks_too_often_waits(new_node: Callable[..., Any], certificate: Path, tmp_path: Path) -> None:
    remote = tls_node(new_node, certificate, tmp_path, requests_per_s="2")
    client = remote.client(HASTY)

    def flood() -> None:
        for _ in range(500):
            client.get("/v1/info")

    with pytest.raises(RefusedError, match="hasty sends more than 2 requests a second") as caught:
        flood()
    assert caught.value.code == "too-many-requests"
    assert remote.client(OPERATOR).get("/v1/info"), "others are not meant"


# -- TLS


def test_nothing_older_than_tls_1_2_and_nothing_plain(remote: Remote) -> None:
    with socket.create_connection(("127.0.0.1", remote.port), LIMIT_S) as plain:
        plain.sendall(b"GET /v1/info HTTP/1.1\r\nhost: x\r\n\r\n")
        assert not plain.recv(1000).startswith(b"HTTP")
    old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    old.load_verify_locations(remote.certificate)
    old.set_ciphers("DEFAULT:@SECLEVEL=0")
    with pytest.warns(DeprecationWarning, match="TLSv1"):
        old.minimum_version, old.maximum_version = ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1
    with socket.create_connection(("127.0.0.1", remote.port), LIMIT_S) as plain, pytest.raises((ssl.SSLError, OSError)):
        old.wrap_socket(plain, server_hostname="127.0.0.1")
    assert remote.client(VIEWER).get("/v1/info")


def test_handshakes_that_never_come_hold_nobody_up(remote: Remote) -> None:
    with contextlib.ExitStack() as stack:
        for _ in range(50):
            stack.enter_context(socket.create_connection(("127.0.0.1", remote.port), LIMIT_S))
        assert remote.client(VIEWER).get("/v1/info")


# -- strangers that say nothing, little, or too much


def resident_bytes(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def files(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


def client_hello() -> bytes:
    """What a client of TLS says first."""
    context = ssl.create_default_context()
    sent = ssl.MemoryBIO()
    with contextlib.suppress(ssl.SSLWantReadError):
        context.wrap_bio(ssl.MemoryBIO(), sent, server_hostname="node").do_handshake()
    return sent.read()


def silent(remote: Remote, source: str) -> socket.socket:
    return socket.create_connection(("127.0.0.1", remote.port), LIMIT_S, source_address=(source, 0))


def halting(remote: Remote, source: str) -> socket.socket:
    """One that sends the half of its first message."""
    found = silent(remote, source)
    found.sendall(HELLO[: len(HELLO) // 2])
    return found


def shaken(remote: Remote, source: str) -> socket.socket:
    """One that has finished TLS and goes no further."""
    context = ssl.create_default_context(cafile=remote.certificate)
    return context.wrap_socket(silent(remote, source), server_hostname="127.0.0.1")


def trickling(remote: Remote, source: str) -> socket.socket:
    """One that has begun a request and never comes to its end."""
    found = shaken(remote, source)
    found.sendall(b"GET /v1/info HTTP/1.1\r\nx: " + bytes(32 * 1024).replace(b"\0", b"y"))
    return found


HELLO = client_hello()
CROWDS: dict[str, tuple[Callable[[Remote, str], socket.socket], int]] = {
    "silent": (silent, 8000), "halting": (halting, 4000), "shaken": (shaken, 300), "trickling": (trickling, 300),
}  # fmt: skip
MOST_BYTES = 256 * 1024 * 1024
"""What a crowd may take, with the room that the allocator keeps and what is collected late: forty crowds in a row
settled at 115 MiB on a quiet machine, twenty at 155 MiB with four times as many processes as cores beside them."""
GROWTH_BYTES = 2 * 1024 * 1024
"""Of 2,000 connections, a kilobyte each."""
CROWDS_IN_A_ROW = 20
"""Of what each one leaves, some is room that the allocator keeps, and some is collected a few crowds later."""


@pytest.mark.parametrize("kind", CROWDS)
@pytest.mark.parametrize("addresses", [1, 200])
def test_a_crowd_of_strangers_takes_little_memory_and_gives_it_back(remote: Remote, kind: str, addresses: int) -> None:
    come, most = CROWDS[kind]
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = min(most // (1 if addresses == 1 else 2), soft // 2)
    pid = remote.node.daemon.pid
    files_before, before = files(pid), resident_bytes(pid)

    def a_crowd(size: int) -> int:
        """What the daemon takes when such a crowd has come and gone."""
        with contextlib.ExitStack() as stack:
            for number in range(size):
                with contextlib.suppress(ConnectionError, ssl.SSLError):  # it was pushed out while it spoke
                    stack.enter_context(contextlib.closing(come(remote, f"127.0.{number % addresses}.9")))
            assert remote.client(VIEWER).get("/v1/info"), "who has a token is let in beside them"
            assert resident_bytes(pid) - before < MOST_BYTES
            assert files(pid) - files_before <= unadmitted.MOST_UNADMITTED + 16
        wait_for(lambda: files(pid) <= files_before + 4, "they are gone")
        return resident_bytes(pid)

    kept = itertools.chain([a_crowd(most)], (a_crowd(most // 2) for _ in range(CROWDS_IN_A_ROW)))
    growth = (after - before for before, after in pairwise(kept))
    assert any(more < GROWTH_BYTES for more in growth), "sooner or later a crowd finds the room that others left"


def test_who_has_a_token_has_a_share_of_the_connections(remote: Remote) -> None:
    most = rate_limits.share(rate_limits.connections_over_tls(rate_limits.open_files()), followers=0).connections
    ask = f"GET /v1/info HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {VIEWER}\r\n\r\n".encode()
    with contextlib.ExitStack() as stack:

        def answered(source: str) -> bytes:
            link = stack.enter_context(contextlib.closing(shaken(remote, source)))
            link.sendall(ask)
            return link.recv(12)

        found = [answered("127.0.0.7") for _ in range(most)]
        assert {text[9:10] for text in found} <= {b"2", b"4"}, "let in, or told that they ask too often"
        assert answered("127.0.0.7") == b"HTTP/1.1 503"
        assert answered("127.0.0.8") != b"HTTP/1.1 503", "another address has its own"


async def test_a_handshake_that_never_comes_is_given_up(certificate: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(httpd, "HANDSHAKE_TIMEOUT_S", 0.1)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, certificate.with_suffix(".key"))

    async def nobody(_: httpd.Request) -> httpd.Response:
        raise AssertionError("a request without TLS")

    server, listener = httpd.Server(nobody), bind_tcp("127.0.0.1", 0)
    accepting = await server.start(listener, tls=context)
    reader, writer = await asyncio.open_connection(*listener.getsockname())
    async with asyncio.timeout(LIMIT_S):
        assert await reader.read() == b""
    writer.close()
    accepting.close()
    await server.close()


# -- what the command line says


def test_the_command_line_asks_another_machine(remote: Remote) -> None:
    found = remote.cli("status", "--json")
    assert (found.returncode, json.loads(found.stdout)["schema"]) == (Exit.OK, "rwkvctl.status/1")
    assert remote.cli("stop", "j1").returncode == Exit.NOT_FOUND


async def test_the_console_asks_another_machine(remote: Remote) -> None:
    link = Link(named(load({}, remote.environment(VIEWER))))
    reply = None
    while reply is None:
        try:
            reply = await link.ask(InfoRequest(), InfoReply)
        except RefusedError as error:
            if error.code != "too-many-requests":  # other tests have asked as the same user
                raise
            await asyncio.sleep(0.5)
    assert reply.pid == remote.node.daemon.pid


WRONG = [
    ({"RWKVCTL_CLIENT_TOKEN_FILE": ""}, Exit.USAGE, "requires a token: name the file"),
    ({"RWKVCTL_CLIENT_TOKEN_FILE": "/no/such"}, Exit.USAGE, "client_token_file /no/such cannot be read"),
    ({"RWKVCTL_CLIENT_TOKEN_FILE": "{open}"}, Exit.USAGE, "can be read or written by everybody; run `chmod 600"),
    ({"RWKVCTL_CLIENT_TOKEN_FILE": "{wrong}"}, Exit.REFUSED, "This token is not valid for this daemon."),
    ({"RWKVCTL_CLIENT_CA_FILE": ""}, Exit.REFUSED, "is not verified as your daemon"),
    ({"RWKVCTL_CLIENT_CA_FILE": "{other}"}, Exit.REFUSED, "Set client_ca_file to its certificate"),
    ({"RWKVCTL_CLIENT_CA_FILE": "{wrong}"}, Exit.USAGE, "is not a PEM certificate"),
    ({"RWKVCTL_SOCKET": "https://localhost:{port}"}, Exit.REFUSED, "a name or address that is in it"),
    ({"RWKVCTL_SOCKET": "https://127.0.0.1:{closed}"}, Exit.UNREACHABLE, "No daemon answers on 127.0.0.1:"),
    ({"RWKVCTL_SOCKET": "https://127.0.0.1:{plain}"}, Exit.UNREACHABLE, "The TLS handshake with"),
    ({"RWKVCTL_SOCKET": "https://127.0.0.1"}, Exit.USAGE, "https://HOST:PORT"),
]


def greet(plain: socket.socket) -> None:
    """What a server of another protocol says to who comes."""
    link, _ = plain.accept()
    link.sendall(b"220 mail.example ESMTP\r\n")
    link.close()


@pytest.mark.parametrize(("changed", "code", "says"), WRONG)
def test_what_is_wrong_is_one_sentence_with_its_exit_code(
    remote: Remote, certificate: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str], changed: dict[str, str], code: int, says: str,
) -> None:  # fmt: skip
    for_all = tmp_path / "open"
    for_all.write_text(OPERATOR)
    for_all.chmod(0o644)
    with socket.create_server(("127.0.0.1", 0)) as plain, closed_port() as closed:
        places = {
            "open": for_all, "wrong": remote.token("wrong-" * 5), "other": certificate.with_name("other.pem"),
            "port": remote.port, "closed": closed, "plain": plain.getsockname()[1],
        }  # fmt: skip
        if "{other}" in changed.values():
            made(certificate.with_name("other.pem"))
        speaks = threading.Thread(target=greet, args=(plain,))
        if "{plain}" in changed.get("RWKVCTL_SOCKET", ""):
            speaks.start()
        for name in [name for name in os.environ if name.startswith("RWKVCTL_")]:
            monkeypatch.delenv(name)
        for name, text in (remote.environment(OPERATOR) | changed).items():
            monkeypatch.setenv(name, text.format(**places))
        found = cli.main(["status"])
        if speaks.ident is not None:
            speaks.join()
    errors = capsys.readouterr().err
    assert (found, says in errors, errors.count("\n")) == (code, True, 1), errors
    assert OPERATOR not in errors


# -- what is refused at start


def test_a_daemon_that_may_not_listen_says_so_and_ends(
    new_node: Callable[..., Any], certificate: Path, tmp_path: Path
) -> None:
    node = new_node(listen_tcp="127.0.0.1:0", tls_cert=str(certificate), tokens_file=str(tokens_file(tmp_path))).start()
    assert node.daemon.wait(LIMIT_S) == Exit.USAGE
    assert "only TLS, and only to those who have a token: set tls_key" in node.log()


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("tls_cert", "", "only TLS, and only to those who have a token: set tls_cert"),
        ("tls_key", "", "set tls_key"),
        ("tokens_file", "", "set tokens_file"),
        ("listen_tcp", "7000", "listen_tcp must be HOST:PORT"),
        ("tls_cert", "/etc/passwd", "no certificate with its key in PEM"),
        ("tls_key", "{open}", "chmod 600"),
        ("tokens_file", "/dev/null", "can be read or written by everybody"),
        ("tokens_file", "credential:tokens", "LoadCredential=tokens:FILE"),
    ],
)
def test_a_door_that_cannot_be_opened_is_no_door(
    certificate: Path, tmp_path: Path, name: str, value: str, says: str
) -> None:
    key = certificate.with_suffix(".key")
    shutil.copy(key, tmp_path / "open.key")
    (tmp_path / "open.key").chmod(0o644)
    wanted = {
        "listen_tcp": "127.0.0.1:0", "tls_cert": str(certificate), "tls_key": str(key),
        "tokens_file": str(tokens_file(tmp_path)),
    } | {name: value.format(open=tmp_path / "open.key")}  # fmt: skip
    environment = {f"RWKVCTL_{one.upper()}": text for one, text in wanted.items()}
    with pytest.raises(ConfigError, match=re.escape(says)) as refused:
        tls_tokens.listener(load({"home": str(tmp_path)}, environment | {"HOME": str(tmp_path)}).settings)
    assert refused.value.exit_code == Exit.USAGE


def test_the_daemon_does_not_listen_on_what_is_for_clients(tmp_path: Path) -> None:
    environment = {"HOME": str(tmp_path), "RWKVCTL_SOCKET": "https://127.0.0.1:7000"}
    with pytest.raises(ConfigError, match="https:// is for clients"):
        socket_folder.make_folder(load({"home": str(tmp_path)}, environment))


def test_errors_of_the_client_are_ours(certificate: Path, tmp_path: Path) -> None:
    with closed_port() as port, pytest.raises(UnreachableError, match="No daemon answers"):
        Remote(None, port, certificate, tmp_path).client(VIEWER).get("/v1/info")
    assert issubclass(UnreachableError, RwkvctlError)
