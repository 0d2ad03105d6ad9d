"""Whether others could have this daemon do what they want: by its configuration, which names commands that it runs, by
its folder of benchmarks, which it imports, and by its home."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from rwkvctl.protocol.errors import ConfigError
from rwkvctl.settings import config
from rwkvctl.settings.config import Config


def check(settings: Config) -> tuple[str, ...]:
    """A sentence for each of these that belongs to another user. Raises ConfigError for one that everybody may write
    to: whoever is on the machine could run what they like as the daemon's user."""
    return tuple(filter(None, map(doubt, obeyed(settings))))


def obeyed(settings: Config) -> Iterator[Path]:
    """What the daemon does as it is told by."""
    for file in (*config.files(), settings.overrides_file):
        yield from (file.parent, file)
    yield from (settings.benchmarks_dir, *settings.benchmarks_dir.glob("*.py"), settings.home)


def doubt(path: Path) -> str:
    """Why one path is not to be trusted, empty if it is, or is not there. Raises ConfigError."""
    try:
        found = path.stat()
    except OSError:
        return ""
    if found.st_mode & stat.S_IWOTH and not found.st_mode & stat.S_ISVTX:
        raise ConfigError(
            f"{path} can be written by everybody, who could then run anything as this daemon; run `chmod o-w {path}`."
        )
    if found.st_uid not in {0, os.geteuid()}:
        return f"{path} belongs to user {found.st_uid}, who can have this daemon run anything; is that meant?"
    return ""
