"""Softmax statistics of logits, row by row: the same bits for a row in any batch and with any number of threads."""

import torch
from torch import Tensor

from rwkv_kernels.elementwise import LANE, exp_, pad_columns


def weights(logits: Tensor) -> tuple[Tensor, Tensor]:
    """[R, V] -> exp(logit - max) padded to [R, V'] and its sum [R, 1] in float64."""
    top = logits.amax(-1, keepdim=True)
    shares = exp_(pad_columns(logits, -torch.inf).sub_(top))
    lanes = shares.view(shares.shape[0], -1, LANE).sum(1, dtype=torch.float64)  # [R, 64]: never one output alone
    return shares, lanes.cumsum(-1)[:, -1:]


def target_logprobs(logits: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """[R, V] logits and [R] target ids -> log p(target) [R] in float64, and whether it was the most likely id [R]."""
    _, total = weights(logits)
    top, best = logits.max(-1)
    chosen = logits.gather(1, targets[:, None])[:, 0]
    return (chosen.double() - top.double()) - total[:, 0].log(), best == targets
