"""Matrix products with weights packed once at load.

`rows` is the unrestricted product. `tiled_rows` computes 16 rows at a time, zero-padded, so that the same kernel
computes every row and its bits depend on the row alone. Observed with torch 2.13: MKL changes bits between 1, 2, 3 and
more rows, and in a tile between 1 and 3 threads; oneDNN between 1 and more rows (K = 3072), and not in a tile. So tiles
are exact with oneDNN only, and a profile that promises bits packs every weight.
"""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional

TILE_ROWS = 16
SMALL = 32768  # elements: for fewer, oneDNN's 12 us a call cost more than its kernel saves
Activation = Literal["none", "relu", "sigmoid", "tanh"]
_ACTIVATIONS = {"relu": torch.relu_, "sigmoid": torch.sigmoid_, "tanh": torch.tanh_}


@dataclass(frozen=True, slots=True)
class Linear:
    """A weight [out, in], in oneDNN's layout where torch has it, with a bias [out] and an activation fused in."""

    weight: Tensor
    bias: Tensor | None
    activation: Activation
    packed: bool
    out: int


def pack(weight: Tensor, bias: Tensor | None, activation: Activation, above: int) -> Linear:
    """Convert a weight [out, in] of any float type to fp32, packed by oneDNN if it has more than `above` elements."""
    dense = weight.to(torch.float32, copy=True).contiguous()
    packed = _onednn() and dense.numel() > above
    held: Tensor = torch.ops.mkldnn._reorder_linear_weight(dense, None) if packed else dense
    return Linear(held, None if bias is None else bias.float(), activation, packed, weight.shape[0])


def _onednn() -> bool:
    return bool(torch.backends.mkldnn.is_available())  # type: ignore[no-untyped-call]


def rows(x: Tensor, linear: Linear) -> Tensor:
    """Apply a linear layer, bias and activation included: [R, in] -> [R, out]."""
    if linear.packed:
        return _packed_rows(x, linear)
    out = functional.linear(x, linear.weight, linear.bias)
    return out if linear.activation == "none" else _ACTIVATIONS[linear.activation](out)


def tiled_rows(x: Tensor, linear: Linear) -> Tensor:
    """Apply a linear layer in tiles of 16 rows: [R, in] -> [R, out]; R must be a multiple of 16."""
    if x.shape[0] == TILE_ROWS:
        return rows(x, linear)
    tiles: tuple[Tensor, ...] = x.split(TILE_ROWS)  # type: ignore[no-untyped-call]
    return torch.cat([rows(tile, linear) for tile in tiles])


def _packed_rows(x: Tensor, linear: Linear) -> Tensor:
    out: Tensor = torch.ops.mkldnn._linear_pointwise(x, linear.weight, linear.bias, linear.activation, [], "")
    return out
