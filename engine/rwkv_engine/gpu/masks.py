"""Mask logits on a device by the constraints of samples."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from rwkv_engine.gpu.sequence_rows import to_device
from rwkv_kernels.draw import Mask

ROWS = 64  # unpacked at a time; each takes a byte and two floats for every token of the vocabulary


def forbid(logits: Tensor, masks: Sequence[tuple[int, Mask]]) -> None:
    """Set the tokens that are not allowed to -inf in some rows of logits [Q, V], given as (row, mask)."""
    for at in range(0, len(masks), ROWS):
        block = masks[at : at + ROWS]
        rows = to_device(torch.tensor([row for row, _ in block]), logits.device)
        packed = np.stack([mask.view(np.uint8) for _, mask in block])
        allowed = unpacked(to_device(torch.from_numpy(packed), logits.device), logits.shape[1])
        logits[rows] = logits[rows].masked_fill_(allowed == 0, -torch.inf)


def unpacked(packed: Tensor, count: int) -> Tensor:
    """Return the first `count` bits of each row of bytes [K, B], the lowest bit of a byte first: [K, count]."""
    shifts = torch.arange(8, dtype=torch.uint8, device=packed.device)
    return ((packed[:, :, None] >> shifts) & 1).flatten(1)[:, :count]
