"""TLS and tokens for clients on other machines. TCP is offered only with both; each token has a role."""

import hashlib
import hmac
import socket
import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rwkv_daemon.api.grants import role_of
from rwkv_daemon.rules.roles import Role
from rwkvctl.http.listeners import bind_tcp
from rwkvctl.protocol.errors import ConfigError
from rwkvctl.settings import config
from rwkvctl.settings.fields import Settings
from rwkvctl.settings.secret import Secret, is_word, read_private

SHORTEST_TOKEN = 20
NEEDS = "listen_tcp: over TCP the daemon speaks only TLS, and only to those who have a token"


@dataclass(frozen=True, slots=True)
class Token:
    """One entry of the token file: the secret of a TCP client, with its name and role."""

    role: Role
    name: str
    secret: Secret


def address_of(text: str) -> tuple[str, int]:
    """Return host and port of `HOST:PORT`; an IPv6 address is in brackets. Raises ConfigError."""
    host, _, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not host or not (port.isdecimal() and port.isascii()) or not 0 <= int(port) < 1 << 16:
        raise ConfigError(f"listen_tcp must be HOST:PORT, such as 10.0.0.5:7000 or [::1]:7000, not {text!r}.")
    return host, int(port)


def listener(settings: Settings) -> tuple[socket.socket, ssl.SSLContext] | None:
    """Return a listening TCP socket and its TLS context; None if `listen_tcp` is empty. Raises ConfigError."""
    if not settings.listen_tcp:
        return None
    for name in ("tls_cert", "tls_key", "tokens_file"):
        if not getattr(settings, name):
            raise ConfigError(f"{NEEDS}: set {name}, or leave listen_tcp empty.")
    tokens(config.secret_file(settings.tokens_file))
    host, port = address_of(settings.listen_tcp)
    context = tls(settings.tls_cert, settings.tls_key)
    try:
        return bind_tcp(host, port), context
    except OSError as error:
        raise ConfigError(f"listen_tcp: cannot listen on {settings.listen_tcp} ({error.strerror or error}).") from error


def tls(cert: str, key: str) -> ssl.SSLContext:
    """Return a context for TLS 1.2 or newer with this certificate. Raises ConfigError."""
    path, key_path = config.absolute("tls_cert", cert), config.secret_file(key)
    read_private(key_path, "tls_key: the file")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(path, key_path, password=no_password)
    except OSError as error:  # SSLError is an OSError
        raise ConfigError(
            f"tls_cert {path} and tls_key {key_path} are no certificate with its key in PEM: {error.strerror or error}."
        ) from None
    return context


def no_password() -> str:
    """Refuse a key with a password: OpenSSL would otherwise ask for it at a terminal that the daemon does not have."""
    raise ssl.SSLError(0, "the key is behind a password")


def tokens(path: Path) -> tuple[Token, ...]:
    """Return the tokens of a file: lines of ROLE NAME TOKEN; `#` begins a comment. Raises ConfigError, which repeats no
    token."""
    data, _ = read_private(path, "tokens_file: the tokens in")
    lines = [line.strip() for line in data.decode(errors="replace").split("\n")]
    numbered = [(number, line) for number, line in enumerate(lines, 1) if line and not line.startswith("#")]
    found = tuple(token(line.split(), f"{path}:{number}") for number, line in numbered)
    if not found:
        raise ConfigError(f"tokens_file {path} holds no token; add a line: operator NAME TOKEN.")
    return found


def token(words: Sequence[str], where: str) -> Token:
    """Return the token that one line (ROLE NAME TOKEN, split into words) defines. Raises ConfigError, which names
    `where`, if the line is malformed, its role unknown or its token too short."""
    if len(words) != 3:
        raise ConfigError(f"{where}: a line is ROLE NAME TOKEN, such as: viewer dashboard $(openssl rand -hex 32).")
    role, name, secret = words
    if len(secret) < SHORTEST_TOKEN or not is_word(secret):
        raise ConfigError(f"{where}: a token has {SHORTEST_TOKEN} characters of ASCII or more; openssl rand -hex 32.")
    return Token(role_of(role, where), name, Secret(secret))


def found_in(known: Sequence[Token], header: str) -> Token | None:
    """Return the token that an `Authorization` header carries, or None. All are compared, by their hashes, so that the
    time taken says nothing about which one is nearly right or how long it is."""
    scheme, _, given = header.partition(" ")
    digest = hashlib.sha256(given.strip().encode("latin-1", "replace")).digest()
    fits = [one for one in known if hmac.compare_digest(digest, hashlib.sha256(one.secret.reveal().encode()).digest())]
    return fits[0] if fits and scheme.lower() == "bearer" else None
