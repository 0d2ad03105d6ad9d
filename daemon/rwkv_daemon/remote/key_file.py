"""Keys from a file, one per line; and keeping them out of everything that is written."""

import logging
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from rwkvctl.protocol.errors import ConfigError
from rwkvctl.settings import config
from rwkvctl.settings.judge import EndpointConfig, check_key
from rwkvctl.settings.secret import Secret, read_private

log = logging.getLogger("rwkvctl")


def keys_of(endpoint: EndpointConfig, who: str) -> tuple[Secret, ...]:
    """Return the keys of an endpoint, without duplicates; one empty key if it needs none. `who` is asked with them, as
    in "the judge" or "qwq". Raises ConfigError."""
    given = (endpoint.key,) if endpoint.key is not None else ()
    listed = read(config.secret_file(endpoint.keys_file), who) if endpoint.keys_file else ()
    return tuple(dict.fromkeys((*given, *listed))) or (Secret(""),)


def read(path: Path, who: str) -> tuple[Secret, ...]:
    """Return the keys of a file; `#` begins a comment line. Raises ConfigError if everybody can read it."""
    data, shared = read_private(path, f"{who}'s keys in")
    if shared and not config.is_credential(path):
        log.warning("%s holds keys and its group can read it; `chmod 600` is better", path)
    return tuple(_keys(data.decode(errors="replace").split("\n"), path))


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
    """Masks keys in text from others: error bodies repeat them, hostile replies could."""

    secrets: set[Secret] = field(default_factory=set)

    def add(self, secrets: Iterable[Secret]) -> None:
        self.secrets.update(secret for secret in secrets if len(secret.reveal()) >= 6)

    def clean(self, text: str) -> str:
        """Return the text with every known key masked."""
        for secret in self.secrets:
            if secret.reveal() in text:
                text = text.replace(secret.reveal(), str(secret))
        return text
