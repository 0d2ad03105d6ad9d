"""Since when files in a watched folder stand still, by our own clock: those of other machines are not compared with it.
Pure."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple


class SeenFile(NamedTuple):
    """A checkpoint in a watched folder as one look found it. `identity` changes with its content; `marked`: the file
    that marks it as complete is there."""

    identity: str
    modified_ns: int
    marked: bool = False


@dataclass(slots=True)
class StillFiles:
    """By name: the identity that a file had at the last look, and since when."""

    since: dict[str, tuple[str, float]] = field(default_factory=dict)

    def look(self, files: Mapping[str, SeenFile], clock: float) -> None:
        """Note what a look has found."""
        for name, file in files.items():
            before = self.since.get(name)
            if before is None or before[0] != file.identity:
                self.since[name] = file.identity, clock
        for name in self.since.keys() - files.keys():
            del self.since[name]

    def is_still(self, name: str, settle_s: float, clock: float) -> bool:
        """Whether a file has not changed for so long."""
        return name in self.since and clock - self.since[name][1] >= settle_s

    def next_still(self, names: Iterable[str], settle_s: float, clock: float) -> float:
        """Return the next moment at which one of these files will not have changed for so long; infinity if all are
        still."""
        moments = (self.since[name][1] + settle_s for name in names if name in self.since)
        return min((moment for moment in moments if moment > clock), default=math.inf)
