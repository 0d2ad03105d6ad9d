"""The token shift: each row's input is mixed with that of the token before it."""

import torch
from torch import Tensor


def mix(xx: Tensor, before: Tensor, share: Tensor) -> Tensor:
    """[R, D] rows and the rows before them, `share` [M, 1, D] -> [M, R, D]: xx + (before - xx) * share."""
    return torch.mul(torch.sub(before, xx), share).add_(xx)
