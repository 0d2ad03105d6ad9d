"""The setting `store`: empty, a URL without a password, or a file that holds a URL. Pure."""

from typing import Final
from urllib.parse import parse_qsl, urlsplit

from rwkvctl.protocol.errors import ConfigError

SCHEMES: Final = ("postgresql://", "postgres://")


def is_url(text: str) -> bool:
    """Whether it is the URL of a database, and not a file that holds one."""
    return text.startswith(SCHEMES)


def is_whole(url: str) -> bool:
    """Whether a URL can be parsed in one way only. A password with a `/`, `#` or `?` that is not written as %XX would
    become a part of the host, and appear in messages."""
    try:
        parts = urlsplit(url)
        parse_qsl(parts.query, strict_parsing=bool(parts.query))
    except ValueError:
        return False
    return not parts.fragment and "@" not in parts.path + parts.query


def checked(text: str, origin: str) -> str:
    """Return the setting, if it may be shown: `config show`, logs and `ps` repeat it. Raises ConfigError, which does
    not repeat it."""
    if not is_url(text):
        return text
    if not is_whole(text):
        raise ConfigError(f"{origin}: store is not a URL such as postgresql://USER@HOST/DATABASE.")
    parts = urlsplit(text)
    if parts.password is not None or "password" in dict(parse_qsl(parts.query)):
        raise ConfigError(
            f"{origin}: store must not hold a password. Put the URL into a file that only the daemon's user can read, "
            'and give that file: store = "/etc/rwkvctl/store.url", or "credential:NAME" under systemd.'
        )
    return text
