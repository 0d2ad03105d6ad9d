"""The TCP address of an engine: who may open one, the key that guards it, and the words that say it is open."""

import ipaddress
import json
import socket
import stat
from pathlib import Path

from rwkv_engine.errors import EngineError
from rwkvctl.http.listeners import bind_tcp


class DoorError(EngineError):
    """The address cannot be opened as asked; one sentence with the remedy."""


def key_in(path: Path) -> str:
    """The key that a file holds, which nobody but its owner may read. Raises DoorError."""
    try:
        with path.open(encoding="utf-8") as file:
            mode = stat.S_IMODE(path.stat().st_mode)
            key = file.read(4096).strip()
    except (OSError, UnicodeDecodeError) as error:
        raise DoorError(f"the key file {path} cannot be read: {error}") from error
    if mode & 0o077:
        raise DoorError(f"the key file {path} can be read by others; run `chmod 600 {path}`")
    if not key or not key.isascii() or not key.isprintable() or " " in key:
        raise DoorError(f"the key file {path} must hold one word of ASCII, such as `openssl rand -hex 32` gives")
    return key


def open_door(host: str, port: int, api_key: str) -> socket.socket:
    """A listening socket. Beyond this machine only with a key. Raises DoorError."""
    if not 0 <= port < 1 << 16:
        raise DoorError(f"cannot listen on {host} port {port}: ports end at 65535")
    try:
        found = {entry[4][0] for entry in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)}
        if not api_key and not all(ipaddress.ip_address(str(one).partition("%")[0]).is_loopback for one in found):
            raise DoorError(f"{host} can be reached by others: name a key with --api-key-file, or use 127.0.0.1")
        return bind_tcp(host, port)
    except OSError as error:
        raise DoorError(f"cannot listen on {host} port {port}: {error}") from error


def greeting(listener: socket.socket, model: str, *, keyed: bool) -> str:
    """Where the API is, and a line to try it with."""
    host, port = listener.getsockname()[:2]
    if ipaddress.ip_address(host).is_unspecified:
        host = "::1" if listener.family == socket.AF_INET6 else "127.0.0.1"
    base = f"http://[{host}]:{port}/v1" if ":" in host else f"http://{host}:{port}/v1"
    key = " -H 'Authorization: Bearer KEY'" if keyed else ""
    body = json.dumps({"model": model, "prompt": "The Eiffel tower is in", "max_tokens": 16})
    return (
        f"{model} is served at {base}\n  curl {base}/completions{key} -H 'Content-Type: application/json' -d '{body}'\n"
    )
