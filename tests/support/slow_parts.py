"""Slow parts of the suite: each runs when one of the files it depends on has changed since it passed, and on request.

`tests/slow_parts.toml` says what each part depends on. `tests/slow_passed.json` holds, for each part, the hash of those
files (and of the part's tests) as they were when it last passed whole; a green whole run writes it, and it is committed
with the change. So neither a clone nor CI needs anything but the tree to know what may be left out.
"""

import hashlib
import json
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TABLE = ROOT / "tests" / "slow_parts.toml"
PASSED = ROOT / "tests" / "slow_passed.json"
ALWAYS = ("constraints.txt",)
"""What every part depends on."""


@dataclass
class Part:
    """One slow part: the patterns of the files it depends on, the modules of its tests, how many cases it has, and what
    this run showed: how many passed, and how many want a GPU that is not here."""

    name: str
    files: tuple[str, ...]
    tests: set[Path] = field(default_factory=set)
    cases: int = 0
    passed: int = 0
    want_gpu: int = 0

    @property
    def whole(self) -> bool:
        """Whether all of it that can run here ran, and passed."""
        return self.passed > 0 and self.passed + self.want_gpu == self.cases

    @property
    def state(self) -> str:
        """The hash of everything the part depends on, as it is now."""
        patterns = (*ALWAYS, *self.files)
        found = {path for pattern in patterns for path in ROOT.glob(pattern) if path.is_file()} | self.tests
        digest = hashlib.sha256()
        for path in sorted(found):
            if "__pycache__" not in path.parts:
                digest.update(f"{path.relative_to(ROOT)}\0".encode() + hashlib.sha256(path.read_bytes()).digest())
        return digest.hexdigest()


def table() -> dict[str, Part]:
    """Every part by its name."""
    return {name: Part(name, tuple(entry["files"])) for name, entry in tomllib.loads(TABLE.read_text()).items()}


def passed() -> dict[str, str]:
    """The state in which each part last passed."""
    return dict(json.loads(PASSED.read_text())) if PASSED.exists() else {}


def record(parts: Iterable[Part]) -> list[str]:
    """Write down the parts that have passed whole in this run; returns the names of those that are new."""
    known = passed()
    now = known | {part.name: part.state for part in parts if part.whole}
    if now != known:
        PASSED.write_text(json.dumps(now, indent=1, sort_keys=True) + "\n")
    return [name for name, state in now.items() if known.get(name) != state]
