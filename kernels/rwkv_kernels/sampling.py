"""Draw a token for each row of logits.

The rule (rwkv-skills, on generated tokens only): z = (logit - cost) / temperature with banned tokens at -inf; a token
stays if it is among the `top_k` best and the probability mass of the better ones is below `top_p`, both measured on the
whole softmax, equal logits ordered by id; the kept ones are drawn by inverse CDF with one Philox uniform. Temperature 0
and top_p 0 take the best (the lowest id among equals). Where nothing is cut the CDF runs in id order.

`Costs` is the penalty ledger of one sample: after each token all costs shrink by `decay`, then the token costs
`presence` if it cost nothing, else `frequency` more; unpenalised tokens never cost anything.
"""

from collections.abc import Sequence, Set
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rwkv_kernels.logprob import weights
from rwkv_kernels.philox import uniforms

FIRST_LOOK = 256  # candidates fetched before a full sort is paid for


@dataclass(frozen=True, slots=True)
class Draw:
    """How one row is drawn: `position` counts generated tokens from 0; `costs` are (ids, costs) or None."""

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    key: int = 0
    position: int = 0
    banned: Tensor | None = None
    costs: tuple[NDArray[np.int64], NDArray[np.float32]] | None = None

    @property
    def greedy(self) -> bool:
        return self.temperature == 0.0 or self.top_p <= 0.0 or self.top_k == 1


@dataclass(slots=True)
class Costs:
    """The penalties of one sample, sparse: a dense row would be 262 kB read and written a step."""

    presence: float
    frequency: float
    decay: float
    unpenalised: Set[int]
    _places: dict[int, int] = field(default_factory=dict)
    _ids: NDArray[np.int64] = field(default_factory=lambda: np.empty(16, np.int64))
    _costs: NDArray[np.float32] = field(default_factory=lambda: np.empty(16, np.float32))

    def add(self, token: int) -> None:
        """Account for a token that was just generated."""
        used = len(self._places)
        self._costs[:used] *= np.float32(self.decay)
        if token in self.unpenalised:
            return
        place = self._places.setdefault(token, used)
        if place == used:
            self._append(used, token)
        self._costs[place] += self.presence if self._costs[place] == 0.0 else self.frequency

    def _append(self, place: int, token: int) -> None:
        if place == len(self._ids):
            self._ids = np.concatenate((self._ids, np.empty_like(self._ids)))
            self._costs = np.concatenate((self._costs, np.empty_like(self._costs)))
        self._ids[place], self._costs[place] = token, 0.0

    def current(self) -> tuple[NDArray[np.int64], NDArray[np.float32]] | None:
        """(ids, costs) of every token that was generated, or None while there is none."""
        used = len(self._places)
        return (self._ids[:used], self._costs[:used]) if used else None


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
        row[draw.banned] = -torch.inf


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


def _pick_whole(z: Tensor, shares: Tensor, total: float, draw: Draw, point: float) -> int:  # noqa: ARG001
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
