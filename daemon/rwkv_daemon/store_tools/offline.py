"""What these programs share: access to a home without its daemon, and the form of a result."""

import contextlib
import os
import pwd
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rwkv_daemon.host.home_lock import AlreadyRunningError, only_one
from rwkvctl.protocol.errors import Exit, RwkvctlError
from rwkvctl.settings.config import Config


class RefusedHereError(RwkvctlError):
    """The operation would lose something, or needs the daemon to be down."""

    exit_code = Exit.REFUSED


@dataclass(slots=True)
class ToolResult:
    """A result: lines for people, fields for programs."""

    lines: list[str] = field(default_factory=list)
    fields: dict[str, Any] = field(default_factory=dict)


def as_owner(settings: Config, what: str) -> None:
    """Raise RefusedHereError for anybody but the owner of the home: the daemon could not write the files they make, not
    even the log that SQLite makes when it opens a file."""
    owner = settings.home.stat().st_uid if settings.home.exists() else os.geteuid()
    if owner != os.geteuid():
        with contextlib.suppress(KeyError):
            name = pwd.getpwuid(owner).pw_name
            raise RefusedHereError(f"{settings.home} belongs to {name}; run `sudo -u {name} rwkvctl {what}`.")
        raise RefusedHereError(f"{settings.home} belongs to the user {owner}; run rwkvctl {what} as that one.")


@contextlib.contextmanager
def daemon_down(settings: Config, what: str) -> Iterator[None]:
    """Hold the home's lock within the block, so that no daemon starts. Raises RefusedHereError if one runs."""
    as_owner(settings, what)
    try:
        with only_one(settings):
            yield
    except AlreadyRunningError:
        pid = (settings.home / "daemon.lock").read_text(encoding="ascii").strip()
        raise RefusedHereError(
            f"{what} needs the daemon to be down, and one (pid {pid}) runs on {settings.home}. Stop it first: "
            "`systemctl stop rwkvctl`, or SIGTERM to that pid; what it runs goes on meanwhile."
        ) from None


def readable(path: Path) -> None:
    """Raise RwkvctlError if there is no such file."""
    if not path.is_file():
        raise RwkvctlError(f"there is no file {path}.")


def described(place: Path | str) -> str:
    """Return the name of a store in sentences, never with a password."""
    if isinstance(place, Path):
        return str(place)
    from rwkv_daemon.store.postgres import PostgresDatabase

    return PostgresDatabase(place, "").place
