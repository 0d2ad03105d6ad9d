"""A mix as its recipe says it, and how many rows each part gives."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction


@dataclass(frozen=True, slots=True)
class MixPart:
    """Rows that are mixed: those of a recipe (`r3`), else those that `rwkvctl data rows` keeps under a name. All of
    them, at most `limit`, or in proportion to the `weight` of the parts that have one."""

    name: str
    is_recipe: bool
    limit: int | None = None
    weight: float | None = None


@dataclass(frozen=True, slots=True)
class Mix:
    """A recipe of rows that are there. `seed` decides which rows are drawn and their order."""

    parts: tuple[MixPart, ...]
    seed: int
    require_checked: bool


def exact(weight: float) -> Fraction:
    """Return a weight as it is written: 0.1 is a tenth, and not the binary number beside it."""
    return Fraction(repr(weight))


def shares(parts: Sequence[MixPart], there: Sequence[int]) -> list[int]:
    """Return how many rows each part gives, of so many that it has. Parts with a weight give as many as they can in
    this proportion, rounded down: none gives more than it has, and no row is there twice."""
    pairs = list(zip(parts, there, strict=True))
    unit = min((count / exact(part.weight) for part, count in pairs if part.weight), default=Fraction(0))

    def share(part: MixPart, count: int) -> int:
        if part.weight:
            return int(unit * exact(part.weight))
        return min(count, part.limit) if part.limit is not None else count

    return [share(part, count) for part, count in pairs]
