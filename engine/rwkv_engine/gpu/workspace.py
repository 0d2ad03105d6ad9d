"""The intermediate results of a step, allocated once for the largest step, because graphs hold their addresses."""

from dataclasses import dataclass

import torch
from torch import Tensor

from rwkv_engine.errors import OutOfMemory
from rwkv_kernels.gpu import launch_config
from rwkv_weights.formats.schema import Dims


@dataclass(frozen=True, slots=True)
class Workspace:
    """R rows at most. fp32: `residual` [2, R, D] (read one, write the other), `decay` [R, D], `parts` (flat, the sums
    of split products). Of the profile's type: `mixed` [6, R, D], `rkv` [4, R, D] (a layer's r, k, v and the first
    layer's v) and `ranks` [R, all ranks], flat; `rate`, `gate`, `read` [R, D]; `hidden` [R, F].
    """

    residual: Tensor
    decay: Tensor
    parts: Tensor
    mixed: Tensor
    rkv: Tensor
    rate: Tensor
    gate: Tensor
    read: Tensor
    ranks: Tensor
    hidden: Tensor

    @classmethod
    def allocate(cls, dims: Dims, rows: int, dtype: torch.dtype, device: torch.device) -> "Workspace":
        """Allocate the workspace of steps of up to `rows` rows. Raises OutOfMemory."""
        width = dims.width

        def half(*shape: int) -> Tensor:
            return torch.empty(shape, dtype=dtype, device=device)

        def full(*shape: int) -> Tensor:
            return torch.empty(shape, dtype=torch.float32, device=device)

        try:
            return cls(
                residual=full(2, rows, width),
                decay=full(rows, width),
                parts=full(parts_elements(dims, rows, dtype)),
                mixed=half(6 * rows * width),
                rkv=half(4 * rows * width),
                rate=half(rows, width),
                gate=half(rows, width),
                read=half(rows, width),
                ranks=half(rows * sum(dims.ranks)),
                hidden=half(rows, dims.hidden),
            )
        except torch.OutOfMemoryError as error:
            raise OutOfMemory from error


def parts_elements(dims: Dims, rows: int, dtype: torch.dtype) -> int:
    """Return the largest count of fp32 numbers that the split products of a step of `rows` rows hold at once."""
    width, most = dims.width, launch_config.SPARSE_SPLITS * dims.width
    for depth in (dims.width, dims.hidden):
        splits = launch_config.plan(width, depth, dtype).splits
        serial_from = next((count for count in range(1, rows + 1) if launch_config.serial_pays(width, count)), rows + 1)
        most = max(most, splits * width * min(rows, serial_from - 1), width * rows)
    return most


def row_bytes(dims: Dims, dtype: torch.dtype) -> int:
    """Return the bytes that one more row adds to the workspace of a long step."""
    item, width = dtype.itemsize, dims.width
    return 4 * 4 * width + item * (13 * width + sum(dims.ranks) + dims.hidden)
