"""The place, type and shape of a tensor in a file. Without torch."""

from dataclasses import dataclass, replace
from math import prod
from pathlib import Path
from typing import Final

ITEM_BYTES: Final = {
    "bfloat16": 2, "float16": 2, "float32": 4, "float64": 8, "int64": 8, "int32": 4, "int16": 2, "int8": 1, "uint8": 1,
    "bool": 1, "float8_e4m3fn": 1, "float8_e5m2": 1,
}  # fmt: skip
"""The types that both formats have, by torch's names, with the bytes of one number."""

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Entry:
    """`offset` counts bytes from the file's start; `stride` counts numbers, so a transposed view is an Entry too."""

    file: Path
    dtype: str
    shape: Shape
    stride: Shape
    offset: int

    @property
    def numbers(self) -> int:
        return prod(self.shape)

    @property
    def span(self) -> int:
        """The bytes from the first number to the end of the last one."""
        if not self.numbers:
            return 0
        reach = sum((n - 1) * s for n, s in zip(self.shape, self.stride, strict=True))
        return (1 + reach) * ITEM_BYTES[self.dtype]

    def transposed(self) -> "Entry":
        """Return the transposed matrix; nothing is read."""
        return replace(self, shape=self.shape[::-1], stride=self.stride[::-1])

    def squeezed(self) -> "Entry":
        """Return the entry without axes of size 1, except for a matrix [1, x] of a one-head model, which stays as it
        is."""
        if len(self.shape) <= 2:
            return self
        kept = [axis for axis, n in enumerate(self.shape) if n != 1]
        return replace(self, shape=tuple(self.shape[a] for a in kept), stride=tuple(self.stride[a] for a in kept))


def dense(shape: Shape) -> Shape:
    """Return the strides of a contiguous tensor."""
    strides, step = [], 1
    for n in reversed(shape):
        strides.append(step)
        step *= n
    return tuple(reversed(strides))
