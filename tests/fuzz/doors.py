"""The daemon's doors: the Unix socket, TLS before it is TLS, and what those who have a token say behind it."""

import contextlib
import random
import re
import shutil
import socket
import ssl
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from every_field import extremes
from live_node import LiveNode
from mutate import mutated
from waiting import LIMIT_S, wait_for

MOST_GROWTH_BYTES = 160 * 1024 * 1024
TOKEN = "f" * 32
AUTHORIZATION = b"authorization: Bearer " + TOKEN.encode() + b"\r\n"
GOOD = b"GET /v1/info HTTP/1.1\r\nhost: x\r\n\r\n"
WORDS = (
    b"content-length: 3\r\n",
    b"transfer-encoding: chunked\r\n",
    b"3\r\nabc\r\n0\r\n\r\n",
    b"ffffffffffffffff\r\n",
    b"HTTP/1.0",
    b"expect: 100-continue\r\n",
    b"host: y\r\n",
    b"connection: close\r\n",
    b"upgrade: websocket\r\n",
    b"/v1/",
    b"//",
    b"?",
    b"&",
    b"rwkvctl-protocol: 99\r\n",
    b"GET ",
    b"POST ",
    b"HEAD ",
    GOOD,
)
STREAM = b"application/x-ndjson"
STORE_AWAY = b'"code":"store-trouble"'
GENTLE = ("/v1/reap", "/v1/import", "/v1/reload")
"""What acts on more than the node's own home is not asked."""
SHAPES = [one.bytes for one in extremes() if not one.target.startswith(GENTLE)]


@dataclass
class Doors:
    """A running daemon, and what it must not do."""

    node: LiveNode
    port: int
    context: ssl.SSLContext
    before_bytes: int = 0

    def resident_bytes(self) -> int:
        assert self.node.daemon is not None
        return int(Path(f"/proc/{self.node.daemon.pid}/statm").read_text().split()[1]) * 4096

    def unix(self) -> socket.socket:
        link = socket.socket(socket.AF_UNIX)
        link.settimeout(LIMIT_S)
        link.connect(str(self.node.socket))
        return link

    def tcp(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), LIMIT_S)

    def tls(self) -> ssl.SSLSocket:
        return self.context.wrap_socket(self.tcp(), server_hostname="127.0.0.1")

    def said_by_unix(self, data: bytes) -> bytes:
        """All that the Unix socket says to some data, after which nothing follows."""
        with self.unix() as link:
            return answer(link, data, half_close=True)

    def said_by_tls(self, data: bytes) -> bytes:
        """The first that the TLS door says to some data."""
        with self.tls() as link:
            link.sendall(data)
            return link.recv(65536)


@contextlib.contextmanager
def opened(folder: Path) -> Iterator[Doors]:
    """A daemon that listens on all its doors."""
    certificate = folder / "cert.pem"
    words = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=node"
    names = ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(folder / "key.pem"), "-out", str(certificate)]
    subprocess.run([*words.split(), *names], check=True, capture_output=True)
    (folder / "tokens").write_text(f"admin fuzz {TOKEN}\n")
    for name in ("key.pem", "tokens"):
        (folder / name).chmod(0o600)
    settings = {"listen_tcp": "127.0.0.1:0", "tls_cert": str(certificate), "tls_key": str(folder / "key.pem")}
    settings |= {"tokens_file": str(folder / "tokens"), "requests_per_s": "0"}
    home = folder / "n" / "h"
    home.mkdir(parents=True)
    node = LiveNode(home, {f"RWKVCTL_{name.upper()}": value for name, value in settings.items()}).start()
    try:
        (job,) = node.dispatch(only_datasets=["demo_choice"], limit=2)
        node.wait_for_state(job, "done")
        port = re.search(r"listening on \('127.0.0.1', (\d+)\)", node.log())
        assert port, node.log()
        found = Doors(node, int(port[1]), ssl.create_default_context(cafile=certificate))
        found.before_bytes = found.resident_bytes()
        yield found
    finally:
        node.close()


def requests(draw: random.Random) -> bytes:
    """One request or two, changed."""
    data = mutated(draw, draw.choice(SHAPES), WORDS)
    return data + draw.choice(SHAPES) if draw.random() < 0.2 else data


def answer(link: socket.socket, data: bytes, *, half_close: bool) -> bytes:
    """All that comes back until the daemon closes, or a stream begins: one of events notices only at the next heartbeat
    that nobody hears it. Raises TimeoutError where nothing comes."""
    with contextlib.suppress(BrokenPipeError, ConnectionResetError, ssl.SSLError):
        link.sendall(data)
        if half_close:
            link.shutdown(socket.SHUT_WR)
    said = b""
    with contextlib.suppress(ConnectionResetError, ssl.SSLError):
        while STREAM not in said and (part := link.recv(65536)):
            said += part
    return said


def about_input(ask: Callable[[], bytes]) -> bytes:
    """What comes back of an input. It is asked again while the disk under the daemon's store hangs, as it may beside
    other tests: the daemon says so then, and is right. Raises TimeoutError."""
    said = b""

    def disk_answers() -> bool:
        nonlocal said
        said = ask()
        return STORE_AWAY not in said

    wait_for(disk_answers, "the disk answers")
    return said


def failures(said: bytes) -> list[bytes]:
    """Status lines of answers that say the daemon made a mistake."""
    lines = [b"HTTP/1.1 " + part.split(b"\r\n", 1)[0] for part in said.split(b"HTTP/1.1 ")[1:]]
    return [line for line in lines if line[9:10] == b"5"]


def fuzz_unix(doors: Doors, draw: random.Random, rounds: int) -> Iterator[str]:
    """Mutated requests on the Unix socket."""
    for _ in range(rounds):
        data = requests(draw)
        try:
            said = about_input(lambda data=data: doors.said_by_unix(data))
        except TimeoutError:
            yield f"the Unix socket hangs after {data!r}"
            continue
        for line in failures(said):
            yield f"the Unix socket says {line!r} to {data!r}: {said[-300:]!r}"


def fuzz_handshakes(doors: Doors, draw: random.Random, rounds: int) -> Iterator[str]:
    """What is no TLS, or nearly."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    with contextlib.suppress(ssl.SSLWantReadError):
        doors.context.wrap_bio(incoming, outgoing, server_hostname="127.0.0.1").do_handshake()
    hello = outgoing.read()
    for _ in range(rounds):
        data = mutated(draw, hello)
        with doors.tcp() as link:
            try:
                answer(link, data, half_close=True)
            except TimeoutError:
                yield f"the TLS door hangs after {data!r}"


def fuzz_tls(doors: Doors, draw: random.Random, rounds: int) -> Iterator[str]:
    """Mutated requests of somebody who has a token, and of others. TLS has no half-close: behind each comes what cannot
    be a request, so that there is an answer."""
    for _ in range(rounds):
        data = draw.choice(SHAPES).replace(b"host: x\r\n", b"host: x\r\nconnection: close\r\n" + AUTHORIZATION, 1)
        data = mutated(draw, data, WORDS)
        try:
            said = about_input(lambda data=data: doors.said_by_tls(data + b"\n\n\r\n\r\n\n" + b"\0" * 70_000))
        except TimeoutError:
            yield f"the TLS door hangs after {data!r}"
            continue
        except OSError:
            continue
        for line in failures(said):
            yield f"the TLS door says {line!r} to {data!r}: {said[-300:]!r}"


def after(doors: Doors) -> Iterator[str]:
    """What must hold when all is over."""
    assert doors.node.daemon is not None
    if doors.node.daemon.poll() is not None:
        yield f"the daemon ended with {doors.node.daemon.returncode}: {doors.node.log()}"
        return
    for link, name in ((doors.unix(), "Unix socket"), (doors.tls(), "TLS door")):
        with link:
            good = GOOD.replace(b"host: x\r\n", b"host: x\r\nconnection: close\r\n" + AUTHORIZATION)
            if not answer(link, good, half_close=False).startswith(b"HTTP/1.1 200"):
                yield f"the {name} does not answer a good request afterwards"
    log = (doors.node.home.parent / "daemon.log").read_text(errors="replace")
    if "Traceback" in log:
        yield f"the daemon's log has a traceback: {log[log.index('Traceback') - 300 :][:3000]}"
    grown = doors.resident_bytes() - doors.before_bytes
    if grown > MOST_GROWTH_BYTES:
        yield f"the daemon has grown by {grown:,} bytes"
    files = Path(f"/proc/{doors.node.daemon.pid}/fd")
    try:
        wait_for(lambda: len(list(files.iterdir())) < 100, "connections that are gone are closed", doors.node.log)
    except AssertionError as error:
        yield str(error)


@contextlib.contextmanager
def scratch() -> Iterator[Path]:
    """A folder with a short name, gone afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="rwkvctl-fuzz-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
