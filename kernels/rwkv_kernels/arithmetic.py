"""The two numerics profiles of the CPU: which variant of each operation a model is run with."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from rwkv_kernels import elementwise, linear, wkv7

Numerics = Literal["fp32", "fast"]


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """`row_multiple`: rows of a step are padded to it; `pack_above`: see linear.pack. In `fp32` a row's bits depend on
    that row alone."""

    name: Numerics
    row_multiple: int
    pack_above: int
    rows: Callable[[Tensor, linear.Linear], Tensor]
    exp_: Callable[[Tensor], Tensor]
    token: wkv7.Token


EXACT = Arithmetic("fp32", linear.TILE_ROWS, 0, linear.tiled_rows, elementwise.exp_, wkv7.exact_token)
FAST = Arithmetic("fast", 1, linear.SMALL, linear.rows, torch.exp_, wkv7.fast_token)


def of(numerics: Numerics) -> Arithmetic:
    """The profile of that name."""
    return EXACT if numerics == "fp32" else FAST
