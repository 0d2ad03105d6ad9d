"""Softmax statistics of logits, row by row: the same bits for a row in any batch and with any number of threads."""

import math

import torch
from torch import Tensor

from rwkv_kernels.elementwise import LANE, exp_, pad_columns


def weights(logits: Tensor) -> tuple[Tensor, Tensor]:
    """[R, V] -> exp(logit - max) padded to [R, V'] and its sum [R] in float64."""
    top = logits.amax(-1, keepdim=True)
    whole = logits.shape[1] % LANE == 0
    shares = exp_(logits - top if whole else pad_columns(logits, -torch.inf).sub_(top))
    lanes = shares.view(shares.shape[0], -1, LANE).sum(1, dtype=torch.float64)  # [R, 64]: never one output alone
    return shares, lanes.cumsum(-1)[:, -1]


def target_logprobs(logits: Tensor, rows: Tensor, targets: Tensor) -> tuple[list[float], list[bool]]:
    """log p(target) in row `rows[i]` of logits [R, V] for each i, and whether it was the row's most likely id."""
    _, total = weights(logits)
    top, best = logits.max(-1)
    logs = [math.log(value) for value in total.tolist()]  # torch's own log differs between vector body and rest
    margins = (logits[rows, targets].double() - top[rows].double()).tolist()
    logprobs = [margin - logs[row] for margin, row in zip(margins, rows.tolist(), strict=True)]
    return logprobs, (best[rows] == targets).tolist()
