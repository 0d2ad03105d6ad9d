"""Whether other users could control the daemon: by its configuration, which names commands that it runs, by its folders
of benchmarks, which it imports, and of harnesses, which it runs, or by its home."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from rwkvctl.protocol.errors import ConfigError
from rwkvctl.settings import config
from rwkvctl.settings.config import Config


def check(settings: Config) -> tuple[str, ...]:
    """Return a warning for each of these paths that belongs to another user. Raises ConfigError for one that everybody
    can write to: anybody on the machine could run anything as the daemon's user."""
    return tuple(filter(None, map(doubt, obeyed(settings))))


def obeyed(settings: Config) -> Iterator[Path]:
    """Yield the paths that control what the daemon does."""
    for file in (*config.files(), settings.overrides_file):
        yield from (file.parent, file)
    yield from (settings.benchmarks_dir, *settings.benchmarks_dir.glob("*.py"), settings.home)
    yield from (settings.harnesses_dir, *settings.harnesses_dir.glob("*"), settings.harness_installations)


def doubt(path: Path) -> str:
    """Return why a path is not to be trusted; empty if it is, or does not exist. Raises ConfigError."""
    try:
        found = path.stat()
    except OSError:
        return ""
    if found.st_mode & stat.S_IWOTH and not found.st_mode & stat.S_ISVTX:
        raise ConfigError(
            f"{path} can be written by everybody, who could then run anything as this daemon; run `chmod o-w {path}`."
        )
    if found.st_uid not in {0, os.geteuid()}:
        return f"{path} belongs to user {found.st_uid}, who can make this daemon run anything; check that this is meant"
    return ""
