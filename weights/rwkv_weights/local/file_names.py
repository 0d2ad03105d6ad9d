"""Parse a checkpoint's file name: architecture, data version, size, date, context. Torch-free.

Names are labels: they order and group models for the operator. Dimensions always come from tensors (`formats.index`),
so an unforeseen name still works; it only says less.

Data versions in order: Pile, then World (unnumbered before v2.8 < v2.9 < v3), then g0 < g0a < g1 < g1a < g1a3 < g1b.
That is the order in which BlinkDL published the families, and within g the letters and digits count up; a release date
never outranks it (g0b is younger than g1, and still data of the older kind).
"""

import re
from dataclasses import dataclass
from functools import cached_property
from typing import Final

_ENDINGS = re.compile(r"(?:\.pth|\.safetensors|\.safetensors\.index\.json)$", re.IGNORECASE)
_ARCHITECTURE = re.compile(r"rwkv[-_]?(?:x0?)?([4-9])\d?([ab]?)(?=[-_.]|$)", re.IGNORECASE)
_VERSION = re.compile(
    r"(?:^|[-_])(?:(g\d+[a-z]?\d*)|world[-_]?v?(\d+(?:\.\d+)?)|(v\d+(?:\.\d+)?))(?=[-_]|$)", re.IGNORECASE
)
_FAMILY = re.compile(r"(?:^|[-_])(world|pile)(?=[-_]|\d|$)", re.IGNORECASE)
_SIZE = re.compile(r"(?:^|[-_])(\d+(?:\.\d+)?)([bm])(\d*)(?=[-_]|$)", re.IGNORECASE | re.ASCII)
_DATE = re.compile(r"(?:^|[-_])(20\d{6})(?=[-_]|$)", re.ASCII)
_CONTEXT = re.compile(r"(?:^|[-_])ctx(\d+)(k?)(?=[-_]|$)", re.IGNORECASE | re.ASCII)
_PARTS = re.compile(r"\d+|[a-z]+", re.ASCII)

_FAMILIES: Final = {"pile": 1, "world": 2, "v": 3, "g": 4}


@dataclass(frozen=True)
class ModelName:
    """A checkpoint's name and the facts in it; a fact that is not there is empty or None.

    `version` is the data version (`g1d`, `v2.8`; `world` or `pile` where the name has no number), `size_b` billions of
    parameters, `date` YYYYMMDD, `context` tokens.
    """

    text: str
    architecture: str = ""
    version: str = ""
    size_b: float | None = None
    date: str = ""
    context: int | None = None

    @cached_property
    def family(self) -> str:
        """The family that the version belongs to: `g1` for `g1a3`, `World` for `v2.8`; empty if the name does not
        tell."""
        if self.version.startswith(("v", "world")):
            return "World"
        return "Pile" if self.version == "pile" else self.version[:1] + "".join(_PARTS.findall(self.version)[1:2])

    @cached_property
    def sort_key(self) -> tuple[float, tuple[tuple[int, str], ...], str, str]:
        """The sort key: small before large, then g1 < g1a < g1a3 < g1b, then by date; names without a size come
        last."""
        size = self.size_b if self.size_b is not None else float("inf")
        return size, natural(self.version), self.date, self.text


def natural(version: str) -> tuple[tuple[int, str], ...]:
    """Return a sort key of a version, `g1a10` -> ((4, 'g'), (1, ''), (0, 'a'), (10, '')): families in their order,
    digits as numbers."""
    parts = _PARTS.findall(version.lower())
    tail = tuple((int(part), "") if part.isdigit() else (0, part) for part in parts[1:])
    return ((_FAMILIES.get(parts[0], 0), parts[0]), *tail) if parts else ()


def parse(name: str) -> ModelName:
    """Read a file name, path or hub repository, with or without its ending. Never fails."""
    text = _ENDINGS.sub("", name.replace("\\", "/").rsplit("/", 1)[-1])
    architecture = _ARCHITECTURE.search(text)
    date = _DATE.search(text)
    return ModelName(
        text=text,
        architecture=f"rwkv{architecture[1]}{architecture[2].lower()}" if architecture else "",
        version=_version(text),
        size_b=_size(text),
        date=date[1] if date else "",
        context=_context(text),
    )


def _version(text: str) -> str:
    """Return the version in a name: `g1a3`, `v3` (also of `World3`), or the bare family."""
    if found := _VERSION.search(text):
        return (found[1] or found[3] or f"v{found[2]}").lower()
    family = _FAMILY.search(text)
    return family[1].lower() if family else ""


def _size(text: str) -> float | None:
    """Return the size in billions: `1.5b` and the older `1b5` are both 1.5, `168M` is 0.168."""
    found = _SIZE.search(text)
    if found is None:
        return None
    if found[2] in "mM":
        return None if found[3] else float(found[1]) / 1000
    return float(f"{found[1]}.{found[3]}") if found[3] and "." not in found[1] else float(found[1])


def _context(text: str) -> int | None:
    found = _CONTEXT.search(text)
    return int(found[1]) * (1024 if found[2] else 1) if found else None
