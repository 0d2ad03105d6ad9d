"""The TCP address of an engine: which may be opened, the API key, and the message that names the address."""

import ipaddress
import json
import socket
import stat
from pathlib import Path

from rwkv_engine.errors import EngineError
from rwkvctl.http.listeners import bind_tcp


class ListenError(EngineError):
    """The engine cannot listen on the address. The message is one sentence with the remedy."""


def key_in(path: Path) -> str:
    """Return the API key in a file, which nobody but its owner may read. Raises ListenError."""
    try:
        with path.open(encoding="utf-8") as file:
            mode = stat.S_IMODE(path.stat().st_mode)
            key = file.read(4096).strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ListenError(f"the key file {path} cannot be read: {error}") from error
    if mode & 0o077:
        raise ListenError(f"the key file {path} can be read by others; run `chmod 600 {path}`")
    if not key or not key.isascii() or not key.isprintable() or " " in key:
        raise ListenError(f"the key file {path} must hold one word of ASCII, such as `openssl rand -hex 32` gives")
    return key


def listen_tcp(host: str, port: int, api_key: str) -> socket.socket:
    """Return a listening socket. An address that other machines reach needs a key. Raises ListenError."""
    if not 0 <= port < 1 << 16:
        raise ListenError(f"cannot listen on {host} port {port}: a port is a number from 0 to 65535")
    try:
        found = {entry[4][0] for entry in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)}
        if not api_key and not all(ipaddress.ip_address(str(one).partition("%")[0]).is_loopback for one in found):
            raise ListenError(
                f"{host} can be reached from other machines: give a key with --api-key-file, or use 127.0.0.1"
            )
        return bind_tcp(host, port)
    except OSError as error:
        raise ListenError(f"cannot listen on {host} port {port}: {error}") from error


def address_message(listener: socket.socket, model: str, *, keyed: bool) -> str:
    """Return the message that names the API's address, with a curl command to try it."""
    host, port = listener.getsockname()[:2]
    if ipaddress.ip_address(host).is_unspecified:
        host = "::1" if listener.family == socket.AF_INET6 else "127.0.0.1"
    base = f"http://[{host}]:{port}/v1" if ":" in host else f"http://{host}:{port}/v1"
    key = " -H 'Authorization: Bearer KEY'" if keyed else ""
    body = json.dumps({"model": model, "prompt": "The Eiffel tower is in", "max_tokens": 16})
    return (
        f"{model} is served at {base}\n  curl {base}/completions{key} -H 'Content-Type: application/json' -d '{body}'\n"
    )
