"""The CLI's client: one HTTP/1.1 request a connection over the daemon's Unix socket, standard library only.

It decodes replies with `json` and leaves the typed messages to the console and the tests: msgspec and the message
classes alone would take half of the CLI's start-up. A test holds every request and every column of the CLI against
`rwkvctl.protocol.routes`.
"""

import json
import os
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import quote, urlencode

from rwkvctl.http.peer_credentials import connect, peer_of
from rwkvctl.http.response import READ_BYTES, NotHttpError, ResponseReader, request_bytes
from rwkvctl.protocol.errors import Exit, NotNowError, RefusedError, RwkvctlError, UnreachableError, VersionSkewError

if TYPE_CHECKING:
    from rwkvctl.cli.remote import Remote
    from rwkvctl.settings.config import Config

API_MIN: Final = 1
API_MAX: Final = 1
"""Protocol versions this client understands; it speaks the highest."""

TRIES: Final = 4
PAUSE_S: Final = 0.3
NOT_HTTP: Final = "The process on the daemon's socket does not speak HTTP; use another --socket."
AT_THE_DOOR: Final = frozenset({400, 408, 413, 431, 503})
"""Refusals of the HTTP server itself, which knows no protocol but HTTP."""

Record = dict[str, Any]
"""A JSON object of a reply; fields that have their default may be left out."""


class Answer(NamedTuple):
    """A reply: the bytes as received and the JSON object decoded from them."""

    raw: bytes
    value: Record


class BusyError(ConnectionError):
    """The daemon is too busy for the request at the moment."""


class Client:
    """Asks the daemon on one socket, or a `remote` one. `timeout_s` is the longest silence while a reply is awaited;
    `service_user` is whose daemon is trusted beside root's and our own."""

    def __init__(
        self, path: str, timeout_s: float = 30.0, tries: int = TRIES, *, service_user: str = "",
        remote: "Remote | None" = None,
    ) -> None:  # fmt: skip
        self.path, self.timeout_s, self.tries = path, timeout_s, tries
        self.service_user, self.remote = service_user, remote
        self.warn: Callable[[str], None] = lambda _: None
        """Called once with a warning if a reply is out of date."""

    def get(self, route: str, **query: object) -> Answer:
        """Send a GET request; it is repeated when the connection is cut, since reading changes nothing."""
        return self._repeat("GET", target(route, query), b"", self.timeout_s)

    def post(self, route: str, body: Record, timeout_s: float = 0.0) -> Answer:
        """Ask for a change, or for a plan. Safe to repeat, because a change carries its `request_id`."""
        return self._repeat("POST", route, json.dumps(body).encode(), timeout_s or self.timeout_s)

    def stream(self, route: str, silence_s: float, **query: object) -> Iterator[bytes]:
        """Yield the lines of an NDJSON reply as they arrive.

        Raises CutError when the daemon goes away and TimeoutError after `silence_s` without a byte.
        """
        with closing(self._open("GET", target(route, query), b"", silence_s)) as exchange:
            self._accept(exchange)
            yield from lines(exchange.body())

    def vouch(self) -> None:
        """Check that whoever answers may be trusted, before another program connects to it; do nothing if nobody
        answers. Raises RefusedError."""
        with suppress(UnreachableError, OSError):
            (self.remote.connect(self.timeout_s) if self.remote else self._connected(self.timeout_s)).close()

    def _repeat(self, method: str, where: str, content: bytes, timeout_s: float) -> Answer:
        for number in range(self.tries):
            try:
                return self._ask(method, where, content, timeout_s)
            except (ConnectionError, TimeoutError, UnreachableError) as error:
                if number == self.tries - 1 or (number == 0 and isinstance(error, UnreachableError)):
                    raise self._gone(error, timeout_s) from error
                time.sleep(PAUSE_S * 2**number)
        raise AssertionError

    def _gone(self, error: OSError | RwkvctlError, timeout_s: float) -> RwkvctlError:
        if isinstance(error, RwkvctlError):
            return error
        what = f"was silent for {timeout_s:g} s" if isinstance(error, TimeoutError) else "cut the connection"
        if isinstance(error, BusyError):
            what = f"is too busy ({error})"
        return UnreachableError(
            f"The daemon on {self.path} {what}, {self.tries} times; check `rwkvctl logs daemon`, then try again."
        )

    def _ask(self, method: str, where: str, content: bytes, timeout_s: float) -> Answer:
        with closing(self._open(method, where, content, timeout_s)) as exchange:
            self._accept(exchange)
            raw = b"".join(exchange.body())
        answer = Answer(raw, decode(raw))
        if note := stale_note(answer.value):
            self.warn(note)
            self.warn = lambda _: None
        return answer

    def _accept(self, exchange: "Exchange") -> None:
        """Read the head of a reply. Raises the error that a refusal stands for, or VersionSkewError."""
        status, headers = exchange.head()
        if status >= 400:
            raise self._refusal(status, headers, b"".join(exchange.body()))
        self._check_version(headers)

    def _open(self, method: str, where: str, content: bytes, timeout_s: float) -> "Exchange":
        """Connect and send a request."""
        token = self.remote.token.reveal() if self.remote else ""
        exchange = Exchange(self.remote.connect(timeout_s) if self.remote else self._connected(timeout_s))
        try:
            exchange.send(request_bytes(method, where, headers(token), content))
        except BaseException:
            exchange.close()
            raise
        return exchange

    def _connected(self, timeout_s: float) -> socket.socket:
        link = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            link.settimeout(timeout_s)
            self._connect(link)
            self._check_owner(link)
        except BaseException:
            link.close()
            raise
        return link

    def _check_owner(self, link: socket.socket) -> None:
        """Refuse a server of another user: whoever may write to the socket's folder could have put a socket there."""
        peer, user = peer_of(link), self.service_user
        if peer is None or peer.uid in {0, os.getuid()} or (user and peer.uid == uid_of(user)):
            return
        who = "you or root" if not user else f"you, root or {user}"
        raise RefusedError(
            "wrong-owner",
            f"The process on socket {self.path} runs as user {peer.uid}, not as {who}; nothing was sent.",
            "If that is your daemon, set service_user (RWKVCTL_SERVICE_USER) to its user.",
            Exit.REFUSED,
        )

    def _connect(self, link: socket.socket) -> None:
        try:
            connect(link, self.path)
        except (FileNotFoundError, ConnectionRefusedError) as error:
            raise UnreachableError(
                f"No daemon answers on {self.path}; start one with `rwkvctl daemon`, or `systemctl start rwkvctl`."
            ) from error
        except PermissionError as error:
            raise UnreachableError(
                f"You have no permission for the daemon's socket {self.path}: run this as a user that has it, "
                "or start your own daemon with `rwkvctl daemon`."
            ) from error
        except BlockingIOError as error:
            raise BusyError("its queue of new connections is full") from error
        except (TimeoutError, ConnectionError):
            raise
        except OSError as error:
            raise UnreachableError(f"{self.path} cannot be used as a socket: {error.strerror or error}.") from error

    def _refusal(self, status: int, headers: dict[str, str], raw: bytes) -> Exception:
        """Return the error for a refusal. The HTTP server refuses some requests without naming a protocol."""
        if "rwkvctl-protocol" in headers or status not in AT_THE_DOOR:
            self._check_version(headers)
            return refusal(raw)
        detail = str(decode(raw).get("detail", "no details given"))
        if status == 503:
            return BusyError(detail)
        return RefusedError("refused", f"The daemon rejected this request: {detail}.", exit_code=Exit.REFUSED)

    def _check_version(self, headers: dict[str, str]) -> None:
        spoken = headers.get("rwkvctl-protocol", "")
        if not spoken.isdecimal():
            raise VersionSkewError(
                f"The process on socket {self.path} does not speak rwkvctl's protocol; stop it or use another --socket."
            )
        if not API_MIN <= int(spoken) <= API_MAX:
            raise VersionSkewError(
                f"The daemon speaks protocol {spoken}, this rwkvctl {API_MIN} to {API_MAX}; "
                "install the same rwkvctl on both sides and restart the daemon."
            )


class Exchange:
    """One request and its reply on a connection of its own. Its errors are the connection's, and VersionSkewError where
    no HTTP is spoken."""

    def __init__(self, link: socket.socket) -> None:
        self._link, self._response, self._first = link, ResponseReader(), b""

    def send(self, request: bytes) -> None:
        """Send the request. A server that refuses may close before it has read everything; its reply says why."""
        with suppress(BrokenPipeError, ConnectionResetError):
            self._link.sendall(request)

    def head(self) -> tuple[int, dict[str, str]]:
        """Return status and headers (names in lower case)."""
        try:
            while self._response.in_head:
                self._first = self._response.receive(self._link.recv(READ_BYTES))
        except NotHttpError:
            raise VersionSkewError(NOT_HTTP) from None
        return self._response.status, self._response.headers

    def body(self) -> Iterator[bytes]:
        """Yield the body in pieces as they arrive; read the head before."""
        yield self._first
        while not self._response.ended:
            yield self._response.receive(self._link.recv(READ_BYTES))

    def close(self) -> None:
        self._link.close()


def client_of(config: "Config", timeout_s: float = 30.0, tries: int = TRIES) -> Client:
    """Return the client of the daemon that the settings name. Raises ConfigError."""
    settings = config.settings
    if not config.is_remote:
        return Client(str(config.socket), timeout_s, tries, service_user=settings.service_user)
    from rwkvctl.cli.remote import remote

    return Client(settings.socket, timeout_s, tries, remote=remote(config))


def request_id() -> str:
    """Return a fresh id for a change; the daemon carries out each id once, however often it is sent."""
    return os.urandom(16).hex()


def target(route: str, query: dict[str, object]) -> str:
    """Return the request target: the route with its query, without empty and absent values."""
    given = {name: spell(value) for name, value in query.items() if value is not None and value != ""}
    return f"{route}?{urlencode(given, errors='replace')}" if given else route


def spell(value: object) -> str:
    """Return a value as it is written in a query; several values are joined with commas."""
    if isinstance(value, (list, tuple)):
        return ",".join(map(str, value))
    return str(value).lower() if isinstance(value, bool) else str(value)


def segment(name: str) -> str:
    """Return a name quoted as one segment of a path."""
    return quote(name, safe="", errors="replace")


def uid_of(user: str) -> int | None:
    """Return the numeric id of a user; None if no user has that name."""
    from pwd import getpwnam

    with suppress(KeyError):
        return getpwnam(user).pw_uid
    return None


def headers(token: str = "") -> dict[str, str]:
    """Return the headers of every request to the daemon; `token` is for a remote one."""
    found = {"host": "rwkvctl", "rwkvctl-protocol": str(API_MAX)}
    return found | {"authorization": f"Bearer {token}"} if token else found


def lines(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Yield whole lines without their line ends; blank lines are dropped."""
    rest = b""
    for piece in pieces:
        *whole, rest = (rest + piece).split(b"\n")
        yield from (line for line in whole if line.strip())


def decode(raw: bytes) -> Record:
    """Return the JSON object in a reply's body. Raises VersionSkewError if the body is not a JSON object."""
    try:
        value = json.loads(raw)
    except ValueError as error:
        raise VersionSkewError("The daemon's reply is not JSON; is it a rwkvctl daemon?") from error
    if not isinstance(value, dict):
        raise VersionSkewError("The daemon's reply is not a JSON object; is it a rwkvctl daemon?")
    return value


def stale_note(value: Record) -> str:
    """Return a warning that the reply is out of date; empty if it is not."""
    since, at = str(value.get("stale_since", ""))[11:19], str(value.get("as_of", ""))[11:19]
    return f"the store has not answered since {since} UTC; this is the state at {at}" if since else ""


def refusal(raw: bytes) -> RwkvctlError:
    """Return the error that an ErrorReply describes."""
    value = decode(raw)
    number = value.get("exit_code", 1)
    known = Exit(number) if number in list(Exit) else Exit.FAILED
    detail, hint = str(value.get("detail", "The daemon refused the request.")), str(value.get("hint", ""))
    if value.get("retry"):
        return NotNowError(str(value.get("code", "refused")), detail, hint)
    if known is Exit.VERSION_SKEW:
        return VersionSkewError(f"{detail} {hint}".strip())
    return RefusedError(str(value.get("code", "refused")), detail, hint, known)
