"""Keys from a file, one a line; and keeping them out of everything that is written down."""

import logging
import os
import stat
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from rwkvctl.judge_config import EndpointConfig, Secret, check_key
from rwkvctl.protocol.errors import ConfigError

LONGEST_FILE_BYTES = 65_536
log = logging.getLogger("rwkvctl")


def keys_of(endpoint: EndpointConfig) -> tuple[Secret, ...]:
    """The keys of an endpoint, none twice; one empty key where it needs none. Raises ConfigError."""
    given = (endpoint.key,) if endpoint.key is not None else ()
    listed = read(Path(endpoint.keys_file).expanduser()) if endpoint.keys_file else ()
    return tuple(dict.fromkeys((*given, *listed))) or (Secret(""),)


def read(path: Path) -> tuple[Secret, ...]:
    """Keys of a file; `#` begins a comment line. Refused, by ConfigError, if everybody can read it."""
    try:
        with path.open("rb") as file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            data = file.read(LONGEST_FILE_BYTES + 1)
    except OSError as error:
        raise ConfigError(f"the judge's keys in {path} cannot be read: {error.strerror}.") from None
    if mode & 0o006:
        raise ConfigError(f"{path} holds keys and everybody can read or write it; run `chmod 600 {path}`.")
    if mode & 0o060:
        log.warning("%s holds keys and its group can read it; `chmod 600` is better", path)
    if len(data) > LONGEST_FILE_BYTES:
        raise ConfigError(f"{path} is too long for a file of keys.")
    return tuple(_keys(data.decode(errors="replace").splitlines(), path))


def _keys(lines: list[str], path: Path) -> Iterable[Secret]:
    found = 0
    for number, line in enumerate(lines, 1):
        text = line.strip()
        if text and not text.startswith("#"):
            check_key(text, f"{path}:{number}")
            found += 1
            yield Secret(text)
    if not found:
        raise ConfigError(f"{path} holds no key.")


@dataclass(slots=True)
class Scrubber:
    """Takes keys out of text that others wrote: error bodies repeat them, hostile replies could."""

    secrets: set[Secret] = field(default_factory=set)

    def add(self, secrets: Iterable[Secret]) -> None:
        self.secrets.update(secret for secret in secrets if len(secret.reveal()) >= 6)

    def clean(self, text: str) -> str:
        """The text with every known key masked."""
        for secret in self.secrets:
            if secret.reveal() in text:
                text = text.replace(secret.reveal(), str(secret))
        return text
