"""The token shift: each row's input is mixed with that of the token before it."""

import torch
from torch import Tensor


def mix(xx: Tensor, before: Tensor, share: Tensor) -> Tensor:
    """Return xx + (before - xx) * share, [M, R, D], for rows and the rows before them [R, D], and `share` [M, 1, D]."""
    return torch.mul(torch.sub(before, xx), share).add_(xx)
