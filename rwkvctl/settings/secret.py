"""Secrets: a type that cannot be printed by accident, and files that only their owner may read.

A secret comes from a file or from a credential that the service manager passes (`credential:NAME`), never from a
command line. Standard library only, as the command line imports this.
"""

import os
import stat
from pathlib import Path
from typing import Final, NoReturn

from rwkvctl.protocol.errors import ConfigError

LONGEST_FILE_BYTES: Final = 65_536


class Secret:
    """A key. Only `reveal()` gives it away; everything else shows `…` and, of a long one, its last four characters."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """Return the key itself, for the one place that needs it."""
        return self._text

    def __repr__(self) -> str:
        return f"…{self._text[-4:]}" if len(self._text) >= 16 else "…"

    __str__ = __repr__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._text == self._text

    def __hash__(self) -> int:
        return hash(self._text)

    def __reduce__(self) -> NoReturn:
        raise TypeError("a secret is not written down")

    def __deepcopy__(self, _memo: object) -> "Secret":
        return self


def read_private(path: Path, what: str) -> tuple[bytes, bool]:
    """Return the bytes of a file of secrets, and whether its group can read it too. `what` begins the messages: `the
    judge's keys in`. Raises ConfigError if it cannot be read, is too long, or everybody can read or write it."""
    try:
        with path.open("rb") as file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            data = file.read(LONGEST_FILE_BYTES + 1)
    except OSError as error:
        raise ConfigError(f"{what} {path} cannot be read: {error.strerror}.") from None
    if mode & 0o006:
        raise ConfigError(f"{what} {path} can be read or written by everybody; run `chmod 600 {path}`.")
    if len(data) > LONGEST_FILE_BYTES:
        raise ConfigError(f"{what} {path} are too long: a file of secrets has at most {LONGEST_FILE_BYTES} bytes.")
    return data, bool(mode & 0o060)


def read_word(path: Path, what: str) -> Secret:
    """Return the one word that a file of secrets holds. Raises ConfigError."""
    data, _ = read_private(path, what)
    text = data.decode(errors="replace").strip()
    if not is_word(text):
        raise ConfigError(f"{what} {path} must be one word of ASCII, such as `openssl rand -hex 32` gives.")
    return Secret(text)


def is_word(text: str) -> bool:
    """Return whether a text can be a key: it stands in a header."""
    return bool(text) and text.isascii() and text.isprintable() and " " not in text
