"""Where the verbs look: the weights folder and the cache, from flags or else from the configuration."""

import argparse
from dataclasses import dataclass
from pathlib import Path

from rwkvctl.settings import config


@dataclass(frozen=True, slots=True)
class Places:
    """`spare_bytes` must stay free on a disk that is written to."""

    weights: Path
    cache: Path
    spare_bytes: int


def of(flags: argparse.Namespace) -> Places:
    """Return the places for these flags, which override the configuration. Raises ConfigError if that is invalid."""
    found = config.load({"home": str(flags.home) if flags.home else ""})
    weights = flags.weights_dir or found.weights_dir
    return Places(weights, found.home / "cache", found.settings.min_free_disk_bytes)
