"""Matrix products with weights packed once at load.

`rows` is the free product. `tiled_rows` computes 16 rows at a time, zero-padded, so that every row meets the same kernel
whatever its companions, and its bits depend on nothing but itself. torch 2.13 changes bits between 1, 2, 3 and more rows
(MKL) or between 1 and more (oneDNN, K = 3072); with the tile they are the same for any number of rows and threads.
"""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from rwkv_kernels.elementwise import in_blocks

TILE_ROWS = 16
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


def pack(weight: Tensor, bias: Tensor | None = None, activation: Activation = "none") -> Linear:
    """Take a weight [out, in] of any float type to packed fp32."""
    dense = weight.float().contiguous()
    packed = torch.backends.mkldnn.is_available() and dense.device.type == "cpu"
    held: Tensor = torch.ops.mkldnn._reorder_linear_weight(dense, None) if packed else dense
    return Linear(held, None if bias is None else bias.float().contiguous(), activation, packed, weight.shape[0])


def rows(x: Tensor, linear: Linear) -> Tensor:
    """[R, in] -> [R, out]."""
    if linear.packed:
        pointwise = torch.ops.mkldnn._linear_pointwise
        out: Tensor = pointwise(x, linear.weight, linear.bias, linear.activation, [], "")
        return out
    out = torch.nn.functional.linear(x, linear.weight, linear.bias)
    return out if linear.activation == "none" else in_blocks(_ACTIVATIONS[linear.activation], out)


def tiled_rows(x: Tensor, linear: Linear) -> Tensor:
    """[R, in] -> [R, out] in tiles of 16 rows; R must be a multiple of 16."""
    if x.shape[0] == TILE_ROWS:
        return rows(x, linear)
    return torch.cat([rows(tile, linear) for tile in x.split(TILE_ROWS)])
