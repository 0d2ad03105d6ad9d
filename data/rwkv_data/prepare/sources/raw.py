"""What every source gives: raw rows, each with where it stands, and what they are a version of."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

FILE: Final = "_file"
"""Key of the note on every raw row of a file: the file's name without its ending and without the split's suffix."""
CONFIG: Final = "_config"
"""Key of the note on the raw rows of a hub set with several configurations."""
NOTES: Final = frozenset({FILE, CONFIG})
"""Keys of notes: `from_source` may read them; they never reach a prepared row."""

Placed: TypeAlias = tuple[str, dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of a preparation. `done` and `total` count bytes of `name` while it is fetched, rows afterwards."""

    step: Literal["fetch", "rows", "pool"]
    name: str
    done: int
    total: int | None = None
    bytes: int = 0


Report: TypeAlias = Callable[[Progress], None]


def silent(_progress: Progress) -> None:
    """Discard the progress: the default `Report`."""


@dataclass(frozen=True, slots=True)
class Raw:
    """Raw rows. `revision` is the commit or the sha256 that says which version of `source` they are. `libraries` names
    the distributions that had a part in reading them."""

    source: str
    revision: str
    placed: Iterable[Placed]
    libraries: tuple[str, ...] = ()
