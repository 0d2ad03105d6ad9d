"""What a checkpoint's file name says: architecture, data version, size, date, context. Torch-free.

Names are labels: they order and group models for the operator. Dimensions always come from tensors (see `checkpoint`),
so a name nobody foresaw still works; it merely says less.
"""

import re
from dataclasses import dataclass
from functools import cached_property

_ARCHITECTURE = re.compile(r"rwkv-?(?:x0?)?([5-9])0?([ab]?)(?=[-_.]|$)", re.IGNORECASE)
_VERSION = re.compile(r"(?:^|[-_])(g\d+[a-z]?\d*|v\d+(?:\.\d+)?)(?=[-_]|$)", re.IGNORECASE)
_SIZE = re.compile(r"(?:^|[-_])(\d+(?:\.\d+)?)b(\d*)(?=[-_]|$)", re.IGNORECASE)
_DATE = re.compile(r"(?:^|[-_])(20\d{6})(?=[-_]|$)")
_CONTEXT = re.compile(r"(?:^|[-_])ctx(\d+)(k?)(?=[-_]|$)", re.IGNORECASE)
_PARTS = re.compile(r"\d+|[a-z]+")


@dataclass(frozen=True)
class ModelName:
    """A checkpoint's name and what could be read from it; what could not is empty or None.

    `version` is the data version (`g1d`), `size_b` billions of parameters, `date` YYYYMMDD, `context` tokens.
    """

    text: str
    architecture: str = ""
    version: str = ""
    size_b: float | None = None
    date: str = ""
    context: int | None = None

    @cached_property
    def sort_key(self) -> tuple[float, tuple[tuple[int, str], ...], str, str]:
        """Small before large, then g1 < g1a < g1a3 < g1b, then by date; names without a size come last."""
        size = self.size_b if self.size_b is not None else float("inf")
        return size, natural(self.version), self.date, self.text


def natural(version: str) -> tuple[tuple[int, str], ...]:
    """`g1a10` -> ((0, 'g'), (1, ''), (0, 'a'), (10, '')): digits compare as numbers, a prefix before its extensions."""
    return tuple((int(p), "") if p.isdigit() else (0, p) for p in _PARTS.findall(version.lower()))


def parse(name: str) -> ModelName:
    """Read a file name or path, with or without `.pth`. Never fails."""
    text = name.replace("\\", "/").rsplit("/", 1)[-1].removesuffix(".pth")
    architecture = _ARCHITECTURE.search(text)
    version = _VERSION.search(text)
    date = _DATE.search(text)
    return ModelName(
        text=text,
        architecture=f"rwkv{architecture[1]}{architecture[2].lower()}" if architecture else "",
        version=version[1].lower() if version else "",
        size_b=_size(text),
        date=date[1] if date else "",
        context=_context(text),
    )


def _size(text: str) -> float | None:
    """`1.5b` and the older `1b5` are both 1.5."""
    found = _SIZE.search(text)
    if found is None:
        return None
    return float(f"{found[1]}.{found[2]}") if found[2] else float(found[1])


def _context(text: str) -> int | None:
    found = _CONTEXT.search(text)
    return int(found[1]) * (1024 if found[2] else 1) if found else None
