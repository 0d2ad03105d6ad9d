"""Questions asked as other users of the machine: they need root, and users who exist by number alone."""

import json
import os
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rwkvctl.cli.client import Client
from rwkvctl.protocol.errors import RwkvctlError

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root: to ask as other users")


def as_user(uid: int, groups: list[int], what: Callable[[], Any]) -> Any:
    """What a function returns in a process of that user. A fork: the interpreter may lie where only root may read.
    Raises AssertionError with the traceback if the function raises."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            with os.fdopen(writer, "w") as pipe:
                pipe.write(said_as(uid, groups, what))
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        returned, raised = json.loads(pipe.read())
    os.waitpid(pid, 0)
    assert not raised, f"as user {uid}: {raised}"
    return returned


def said_as(uid: int, groups: list[int], what: Callable[[], Any]) -> str:
    """Become a user; return as JSON what a function returned, and the traceback if it raised."""
    try:
        os.setgroups(groups)
        os.setgid(uid)
        os.setuid(uid)
        return json.dumps([what(), ""])
    except BaseException:  # noqa: BLE001 - the parent raises it
        return json.dumps([None, traceback.format_exc()])


def asked(path: Path, route: str, body: dict[str, Any] | None = None, **settings: Any) -> Callable[[], Any]:
    """A question; the answer is the reply, or code, sentence and exit code of the refusal. The code of an error that is
    no refusal of the daemon's, such as one to connect, is the name of its class."""

    def ask() -> Any:
        client = Client(str(path), tries=1, **settings)
        try:
            return (client.get(route) if body is None else client.post(route, body)).value
        except RwkvctlError as error:
            return {
                "error": getattr(error, "code", type(error).__name__),
                "says": str(error),
                "exit": int(error.exit_code),
            }

    return ask
