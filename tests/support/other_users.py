"""Questions asked as other users of the machine: they need root, and users who exist by number alone."""

import contextlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rwkvctl.cli.client import Client
from rwkvctl.protocol.errors import RwkvctlError

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root: to ask as other users")


def as_user(uid: int, groups: list[int], what: Callable[[], Any]) -> Any:
    """What a function returns in a process of that user. A fork: the interpreter may lie where only root may read."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        with contextlib.suppress(BaseException):
            os.setgroups(groups)
            os.setgid(uid)
            os.setuid(uid)
            os.write(writer, json.dumps(what()).encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        said = pipe.read()
    os.waitpid(pid, 0)
    return json.loads(said)


def asked(path: Path, route: str, body: dict[str, Any] | None = None, **settings: Any) -> Callable[[], Any]:
    """A question; the answer is the reply, or code, sentence and exit code of the refusal."""

    def ask() -> Any:
        client = Client(str(path), tries=1, **settings)
        try:
            return (client.get(route) if body is None else client.post(route, body)).value
        except RwkvctlError as error:
            return {"error": getattr(error, "code", ""), "says": str(error), "exit": int(error.exit_code)}

    return ask
