"""The numerics profiles on the CPU: the variant of each operation with which a model is run."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from rwkv_kernels import elementwise, linear, wkv7
from rwkvctl.protocol.numerics import PROFILES, Numerics


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """`row_multiple`: rows of a step are padded to it; `pack_above`: see linear.pack."""

    row_multiple: int
    pack_above: int
    rows: Callable[[Tensor, linear.Linear], Tensor]
    exp_: Callable[[Tensor], Tensor]
    token: wkv7.Token


EXACT = Arithmetic(linear.TILE_ROWS, 0, linear.tiled_rows, elementwise.exp_, wkv7.exact_token)
FAST = Arithmetic(1, linear.SMALL, linear.rows, torch.exp_, wkv7.fast_token)


def of(numerics: Numerics) -> Arithmetic:
    """Return the arithmetic of a profile. A CPU has no fp16 products, so here `exact` and `fp32` are the same."""
    profile = PROFILES[numerics]
    do = EXACT if profile.exact else FAST
    return replace(do, token=wkv7.rounding(do.token)) if profile.half_state else do
