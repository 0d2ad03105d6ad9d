"""The inputs of a draw: the settings of one row, and the penalty ledger of one sample. Without torch."""

from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Ids = NDArray[np.int64]
COLDEST = 1e-5  # a lower temperature counts as 0, because logits divided by it would leave the range of fp32
Mask = NDArray[np.uint32]  # one bit for each token, the lowest bit of a word first
MAX_BIASES, MAX_SPARED, MAX_STOPS = 1024, 256, 64  # tokens a sample may name: tables of these sizes lie on a GPU


@dataclass(frozen=True, slots=True)
class Draw:
    """The settings of the draw of one row: `position` counts generated tokens from 0; `costs` and `bias` are (ids,
    values) or None.

    `logprobs`: -1, or how many of the likeliest tokens are reported with the drawn one. Log-probabilities are those of
    the model, at temperature 1 and before costs, bias, bans and `allowed` (None: every token).
    """

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    key: int = 0
    position: int = 0
    banned: Ids | None = None
    costs: tuple[Ids, NDArray[np.float32]] | None = None
    bias: tuple[Ids, NDArray[np.float32]] | None = None
    logprobs: int = -1
    allowed: Mask | None = None

    @property
    def greedy(self) -> bool:
        return self.temperature < COLDEST or self.top_p <= 0.0 or self.top_k == 1


@dataclass(slots=True)
class Costs:
    """The penalties of one sample, by the rule of rwkv-skills on generated tokens only.

    After each token all costs shrink by `decay`; then the token's cost becomes `presence` if it was 0, else grows by
    `frequency`; unpenalised tokens have no cost. The costs are sparse: a dense row would be 262 kB read and written in
    each step.
    """

    presence: float
    frequency: float
    decay: float
    unpenalised: AbstractSet[int]
    _places: dict[int, int] = field(default_factory=dict)
    _ids: Ids = field(default_factory=lambda: np.empty(16, np.int64))
    _costs: NDArray[np.float32] = field(default_factory=lambda: np.empty(16, np.float32))

    def add(self, token: int) -> None:
        """Add a token that was just generated."""
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

    def current(self) -> tuple[Ids, NDArray[np.float32]] | None:
        """Return (ids, costs) of every generated token; None while there is none."""
        used = len(self._places)
        return (self._ids[:used], self._costs[:used]) if used else None
