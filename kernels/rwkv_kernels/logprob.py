"""Softmax statistics of logits, row by row: the same bits for a row in any batch and with any number of threads."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from rwkv_kernels.elementwise import LANE, exp_, pad_columns


def weights(logits: Tensor) -> tuple[Tensor, Tensor]:
    """Return exp(logit - max) of logits [R, V], padded to [R, V'], and its sum [R] in float64."""
    top = logits.amax(-1, keepdim=True)
    whole = logits.shape[1] % LANE == 0
    shares = exp_(logits - top if whole else pad_columns(logits, -torch.inf).sub_(top))
    lanes = shares.view(shares.shape[0], -1, LANE).sum(1, dtype=torch.float64)  # [R, 64]: never one output alone
    return shares, lanes.cumsum(-1)[:, -1]


def target_logprobs(logits: Tensor, rows: Tensor, targets: Tensor) -> tuple[list[float], list[bool]]:
    """Return log p(target) in row `rows[i]` of logits [R, V] for each i, and whether it is the row's most likely id."""
    best = logits.max(-1).indices
    tops, logs = normaliser(logits)
    values = logits[rows, targets].tolist()
    picked = rows.tolist()
    logprobs = [value - tops[row] - logs[row] for value, row in zip(values, picked, strict=True)]
    return logprobs, (best[rows] == targets).tolist()


def likeliest(logits: Tensor, rows: Tensor, counts: Sequence[int]) -> list[tuple[tuple[int, float], ...]]:
    """Return the `counts[i]` most likely (id, log p) of row `rows[i]`, with the same floats as `target_logprobs`."""
    if not any(counts):
        return [()] * len(counts)
    tops, logs = normaliser(logits)
    found: list[tuple[tuple[int, float], ...]] = []
    for row, count in zip(rows.tolist(), counts, strict=True):
        values, ids = torch.topk(logits[row], min(count, logits.shape[1]))
        logprobs = [value - tops[row] - logs[row] for value in values.tolist()]
        found.append(tuple(zip(ids.tolist(), logprobs, strict=True)))
    return found


def normaliser(logits: Tensor) -> tuple[list[float], list[float]]:
    """Return each row's greatest logit, and the log of the sum of exp(logit - greatest)."""
    _, total = weights(logits)
    logs = [math.log(value) for value in total.tolist()]  # torch's own log differs between vector body and rest
    return logits.amax(-1).tolist(), logs
