"""Which checkpoint files can be hashed, and which are still being copied. Pure."""

from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Final

STILL_S: Final = 1.0
"""A file is settled if its size and time have not changed for so long."""
CUT_OFF_S: Final = 15.0
"""The copy of a file that is incomplete and has not grown for so long may have been interrupted."""

Identity = tuple[int, int, int, int]


@dataclass(slots=True)
class Settling:
    """By path: the identity of each file when it was last checked and since when it is unchanged; which files are being
    copied; and what to say about those whose copy seems interrupted."""

    seen: dict[str, tuple[Identity, float]] = field(default_factory=dict)
    copying: set[str] = field(default_factory=set)
    cut_off: dict[str, str] = field(default_factory=dict)

    def settled(self, path: str, identity: Identity, clock: float, *, age_s: float, whole: bool) -> bool:
        """Note a check of a file; returns whether it can be hashed. `age_s`: since when it was last written, by its own
        time, which counts only until it is seen to change: a copy may set it to the original's."""
        before = self.seen.get(path)
        if before is None or before[0] != identity:
            self.seen[path] = (identity, clock - max(0.0, age_s) if before is None else clock)
        still_s = clock - self.seen[path][1]
        self.forget(path)
        if whole and still_s >= STILL_S:
            return True
        if whole or still_s < CUT_OFF_S:
            self.copying.add(path)
        else:
            self.cut_off[path] = f"{PurePath(path).name} is incomplete and no longer grows: was the copy interrupted?"
        return False

    def forget(self, path: str) -> None:
        """Drop what is known about a file: that it is being copied, or that its copy was interrupted."""
        self.copying.discard(path)
        self.cut_off.pop(path, None)

    def keep(self, paths: Collection[str]) -> None:
        """Forget every file but these: the others are hashed, or gone."""
        for path in self.seen.keys() - set(paths):
            del self.seen[path]
            self.forget(path)

    @property
    def said(self) -> tuple[object, ...]:
        """Return a value that changes with what is reported about any file."""
        return tuple(sorted(self.copying)), tuple(sorted(self.cut_off))
