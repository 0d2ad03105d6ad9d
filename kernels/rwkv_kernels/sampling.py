"""Draw a token for each row of logits.

The rule (rwkv-skills, on generated tokens only): z = (logit - cost) / temperature with banned tokens at -inf; a token
stays if it is among the `top_k` best and the probability mass of the better ones is below `top_p`, both measured on the
whole softmax, equal logits ordered by id; the kept ones are drawn by inverse CDF with one Philox uniform. Temperature 0
and top_p 0 take the best (the lowest id among equals). Where nothing is cut the CDF runs in id order.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from rwkv_kernels.draw import Draw
from rwkv_kernels.logprob import weights
from rwkv_kernels.philox import uniforms

FIRST_LOOK = 256  # candidates fetched before a full sort is paid for


def sample(logits: Tensor, draws: Sequence[Draw]) -> list[int]:
    """[R, V] logits (changed in place by costs and bans) -> one id a row, -1 for a row that holds no finite maximum."""
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
    """Subtract the costs and forbid the banned ids, in place. row: [V]."""
    if draw.costs is not None:
        ids, costs = draw.costs
        row[torch.from_numpy(ids)] -= torch.from_numpy(costs)
    if draw.banned is not None:
        row[torch.from_numpy(draw.banned)] = -torch.inf


def _draw(logits: Tensor, draws: Sequence[Draw]) -> list[int]:
    """[R, V] adjusted logits of rows that are not greedy -> ids."""
    z = logits / torch.tensor([draw.temperature for draw in draws])[:, None]
    shares, totals = weights(z)
    points = uniforms([draw.key for draw in draws], [draw.position for draw in draws])
    ids: list[int] = []
    for row, draw in enumerate(draws):
        whole = draw.top_p >= 1.0 and not 0 < draw.top_k < z.shape[1]
        pick = _pick_whole if whole else _pick_cut
        ids.append(pick(z[row], shares[row, : z.shape[1]], float(totals[row]), draw, float(points[row])))
    return ids


def _pick_whole(z: Tensor, shares: Tensor, total: float, draw: Draw, point: float) -> int:
    return _invert(shares.double().cumsum(0), point)


def _pick_cut(z: Tensor, shares: Tensor, total: float, draw: Draw, point: float) -> int:
    """Order the candidates, keep those before the cut, invert their CDF."""
    limit = draw.top_k if 0 < draw.top_k < z.shape[0] else z.shape[0]
    look = min(limit, FIRST_LOOK)
    while True:
        order = best_first(z, look)
        mass = shares[order].double().cumsum(0)
        kept = 1 + int((mass[:-1] < draw.top_p * total).sum())
        if kept < look or look == limit:
            return int(order[_invert(mass[:kept], point)])
        look = limit


def best_first(z: Tensor, count: int) -> Tensor:
    """The ids of the `count` largest of z [V], largest first, equal ones by id. topk alone orders ties as it likes."""
    if 2 * count < z.shape[0]:
        threshold = torch.topk(z, count, sorted=True).values[-1]
        candidates = (z >= threshold).nonzero()[:, 0]
        return candidates[torch.sort(z[candidates], descending=True, stable=True).indices[:count]]
    return torch.sort(z, descending=True, stable=True).indices[:count]


def _invert(mass: Tensor, point: float) -> int:
    """The first place whose cumulative mass exceeds point * total; the last one with any mass if rounding says none."""
    place = int(torch.searchsorted(mass, point * mass[-1], right=True))
    return min(place, int(torch.searchsorted(mass, mass[-1])))
