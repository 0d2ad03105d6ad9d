"""What the process is told that makes the rows of a recipe: on its standard input, as a store's URL may hold a
password."""

from collections.abc import Sequence
from typing import Final

import msgspec

from rwkv_daemon.store import RecipeRow

AGAIN: Final = 75
"""Exit code of the process if it is to be started again: the store does not answer, the disk is full, or rows that are
to be mixed are missing or are being replaced."""


class SampleSource(msgspec.Struct, frozen=True):
    """A job, and the key of the grades that count; empty until the job is done. `rewrites`: the job that it rewrites
    for the recipe; 0 if it is one that the recipe began with. `variants_of`: the job of whose samples it holds shorter
    variants; 0 for any other."""

    job: int
    grade_key: str = ""
    rewrites: int = 0
    variants_of: int = 0


_decoder: Final = msgspec.json.Decoder(tuple[SampleSource, ...])


def sources_of(recipe: RecipeRow) -> tuple[SampleSource, ...]:
    """Return the jobs of a recipe, each with the key of the grades that count."""
    return _decoder.decode(recipe.sources)


def encoded(sources: Sequence[SampleSource]) -> str:
    """Return sources as the store holds them."""
    return msgspec.json.encode(sources).decode()


class RowOrder(msgspec.Struct, frozen=True, kw_only=True):
    """A recipe (`toml`, from a file called `name`), its samples, where it is to be made, and where what it needs lies.
    `store` is the path of a SQLite file, or the URL of a PostgreSQL database, to which `store_name` is told."""

    toml: str
    name: str
    sources: tuple[SampleSource, ...]
    folder: str
    runs_dir: str
    data_dir: str
    benchmarks_dir: str
    cache_dir: str
    store: str
    store_name: str
