"""Where this node's store is, by the configuration, and the daemon's name there."""

import hashlib
import os
import socket
from pathlib import Path

from rwkvctl.protocol.errors import ConfigError
from rwkvctl.settings import config, store_url
from rwkvctl.settings.config import Config
from rwkvctl.settings.secret import read_private


def store_place(settings: Config) -> Path | str:
    """Return the path of a SQLite file, or the URL of a PostgreSQL database. Raises ConfigError."""
    return place_of(settings.settings.store) if settings.settings.store else settings.store


def place_of(text: str) -> str:
    """Return the URL that a setting or a flag means: itself, or the content of the file that it names. Raises
    ConfigError."""
    if store_url.is_url(text):
        return text
    data, _ = read_private(config.secret_file(text), "the store's URL in")
    url = data.decode(errors="replace").strip()
    if not store_url.is_url(url):
        raise ConfigError(f"{text} holds no URL such as postgresql://USER:PASSWORD@HOST/DATABASE.")
    if not store_url.is_whole(url):
        raise ConfigError(f"{text} holds no whole URL; in a password write `/` as %2F, `#` as %23, `?` as %3F.")
    return url


def daemon_name(settings: Config) -> str:
    """Return the daemon's name at a database server, which is unique for each home of each machine."""
    home = hashlib.sha256(os.fsencode(settings.home.resolve())).hexdigest()[:8]
    return f"rwkvctl on {socket.gethostname()[:32]} (home {home})"
