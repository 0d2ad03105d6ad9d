"""Draw a token for each row of logits.

The rule (rwkv-skills, on generated tokens only): logit - cost + bias, banned and disallowed tokens at -inf; z = that /
temperature; a token stays if it is among the `top_k` best and the probability mass of the better ones is below `top_p`,
both measured on the whole softmax, equal logits ordered by id; the kept ones are drawn in id order, by inverse CDF with
one Philox uniform. Temperature 0 and top_p 0 take the best (the lowest id among equals).
"""

import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from rwkv_kernels.draw import Draw
from rwkv_kernels.elementwise import LANE
from rwkv_kernels.logprob import weights
from rwkv_kernels.philox import uniforms

FIRST_LOOK = 256  # candidates fetched before a full sort


def sample(logits: Tensor, draws: Sequence[Draw]) -> list[int]:
    """Draw one id for each row of logits [R, V], which costs and bans change in place; -1 for a row without a finite
    maximum."""
    for row, draw in enumerate(draws):
        adjust(logits[row], draw)
    top, best = logits.max(-1)
    chosen: list[int] = torch.where(top.isfinite(), best, -1).tolist()
    drawn = [row for row, draw in enumerate(draws) if not draw.greedy and chosen[row] >= 0]
    if drawn:
        for row, token in zip(drawn, _draw(logits[drawn], [draws[row] for row in drawn]), strict=True):
            chosen[row] = token
    return chosen


def adjust(row: Tensor, draw: Draw) -> None:
    """Subtract the costs, add the biases and forbid what is banned or not allowed, in place. row: [V]."""
    if draw.costs is not None:
        ids, costs = draw.costs
        row[torch.from_numpy(ids)] -= torch.from_numpy(costs)
    if draw.bias is not None:
        ids, biases = draw.bias
        row[torch.from_numpy(ids)] += torch.from_numpy(biases)
    if draw.banned is not None:
        row[torch.from_numpy(draw.banned)] = -torch.inf
    if draw.allowed is not None:
        bits = np.unpackbits(draw.allowed.view(np.uint8), bitorder="little", count=row.shape[0])
        row.copy_(torch.where(torch.from_numpy(bits.view(np.bool_)), row, -torch.inf))


def _draw(logits: Tensor, draws: Sequence[Draw]) -> list[int]:
    """Draw ids from adjusted logits [R, V] of rows that are not greedy."""
    z = logits / torch.tensor([draw.temperature for draw in draws])[:, None]
    shares, totals = weights(z)
    points = uniforms([draw.key for draw in draws], [draw.position for draw in draws]).tolist()
    ids: list[int] = []
    for row, (draw, total, point) in enumerate(zip(draws, totals.tolist(), points, strict=True)):
        if not 0.0 < total < math.inf:
            ids.append(-1)
        elif draw.top_p >= 1.0 and not 0 < draw.top_k < z.shape[1]:
            ids.append(_pick_whole(shares[row], point))
        else:
            kept = _kept(logits[row], shares[row], draw, draw.top_p * total)
            ids.append(int(kept[_pick(shares[row, kept], point)]))
    return ids


def _pick_whole(shares: Tensor, point: float) -> int:
    """Invert the CDF in id order, first over lanes of 64 ids, then within one. shares: [V'], V' a multiple of 64."""
    lanes = shares.view(-1, LANE).sum(1, dtype=torch.float64).cumsum(0)
    goal = point * float(lanes[-1])
    lane = _invert(lanes, goal)
    before = float(lanes[lane - 1]) if lane else 0.0
    return lane * LANE + _invert(shares[lane * LANE : (lane + 1) * LANE].double().cumsum(0), goal - before)


def _kept(logits: Tensor, shares: Tensor, draw: Draw, nucleus: float) -> Tensor:
    """Return the ids that top-k and top-p keep, in id order."""
    limit = draw.top_k if 0 < draw.top_k < logits.shape[0] else logits.shape[0]
    look = min(limit, FIRST_LOOK)
    while True:
        order = best_first(logits, look)
        mass = shares[order].double().cumsum(0)
        kept = 1 + int(torch.searchsorted(mass[:-1], nucleus))
        if kept < look or look == limit:
            return order[:kept].sort().values
        look = min(limit, 16 * look)


def best_first(z: Tensor, count: int) -> Tensor:
    """Return the ids of the `count` largest of z [V], largest first, equal ones by id. (topk orders ties
    arbitrarily.)"""
    if 4 * count < z.shape[0]:
        top = torch.topk(z, count + 1)
        if top.values[-2] > top.values[-1]:  # else equal values lie on both sides of the cut
            ids = top.indices[:-1].sort().values
            return ids[torch.sort(z[ids], descending=True, stable=True).indices]
    return torch.sort(z, descending=True, stable=True).indices[:count]


def _pick(shares: Tensor, point: float) -> int:
    """Invert the CDF of a few shares; return an index into them."""
    mass = shares.double().cumsum(0)
    return _invert(mass, point * float(mass[-1]))


def _invert(mass: Tensor, goal: float) -> int:
    """Return the first index whose cumulative mass exceeds the goal; the last with any mass if rounding leaves none."""
    place = int(torch.searchsorted(mass, goal, right=True))
    return min(place, int(torch.searchsorted(mass, float(mass[-1]))))
