"""Runs a plan: lays its tokens out, steps the model, and scores and draws what the plan asks for."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from rwkv_engine.layout import Layout, lay_out
from rwkv_engine.model import Model
from rwkv_engine.scheduler import Feed, Output
from rwkv_engine.state_pool import StatePool
from rwkv_kernels import logprob, sampling

SCORE_ROWS = 64  # positions whose logits are held at once: 16 MB of World vocabulary


@dataclass(slots=True)
class Runner:
    """A model and the states of its slots."""

    model: Model
    pool: StatePool

    @torch.inference_mode()
    def run(self, feeds: Sequence[Feed]) -> list[Output]:
        """One step. Targets are scored and tokens drawn after the states have moved."""
        fed = [feed for feed in feeds if feed.tokens]
        early = {feed.slot: self.pool.hidden[feed.slot].clone() for feed in feeds if _looks_back(feed)}
        rows: _Rows | None = None
        if fed:
            layout = lay_out([f.tokens for f in fed], [f.slot for f in fed], self.model.do.row_multiple)
            rows = _Rows(
                self.model.step(self.pool, layout), layout, {fed[i].slot: p for p, i in enumerate(layout.order)}
            )
        scores = self._score(feeds, rows, early)
        tokens = self._draw([feed for feed in feeds if feed.draw is not None])
        return [Output(scores.get(feed.slot, ()), tokens.get(feed.slot)) for feed in feeds]

    def _draw(self, feeds: Sequence[Feed]) -> dict[int, int]:
        """Draw a token for each feed from its slot's last hidden vector."""
        if not feeds:
            return {}
        logits = self.model.logits(self.pool.hidden[[feed.slot for feed in feeds]])
        drawn = sampling.sample(logits, [feed.draw for feed in feeds if feed.draw is not None])
        return dict(zip((feed.slot for feed in feeds), drawn, strict=True))

    def _score(
        self, feeds: Sequence[Feed], rows: "_Rows | None", early: dict[int, Tensor]
    ) -> dict[int, list[tuple[float, bool]]]:
        """(log-probability, was it the best) of every target, by slot; the head runs once per scored position."""
        wanted: dict[tuple[int, int], Tensor] = {}
        places: list[tuple[int, int]] = []
        for feed in feeds:
            for target in feed.targets:
                place = (feed.slot, target.position)
                if place not in wanted:
                    wanted[place] = early[feed.slot] if target.position < 0 else _row(rows, *place)
                places.append(place)
        if not places:
            return {}
        results = self._score_rows(wanted, places, [t.token for feed in feeds for t in feed.targets])
        by_slot: dict[int, list[tuple[float, bool]]] = {}
        for (slot, _), result in zip(places, results, strict=True):
            by_slot.setdefault(slot, []).append(result)
        return by_slot

    def _score_rows(
        self, wanted: dict[tuple[int, int], Tensor], places: Sequence[tuple[int, int]], tokens: Sequence[int]
    ) -> list[tuple[float, bool]]:
        """Score (place, token) pairs, the rows of `wanted` in blocks."""
        results: list[tuple[float, bool]] = [(0.0, False)] * len(places)
        number = {place: i for i, place in enumerate(wanted)}
        hidden = torch.stack(list(wanted.values()))
        for start in range(0, len(hidden), SCORE_ROWS):
            block = [i for i, place in enumerate(places) if start <= number[place] < start + SCORE_ROWS]
            logits = self.model.logits(hidden[start : start + SCORE_ROWS])
            picked = torch.tensor([number[places[i]] - start for i in block])
            targets = torch.tensor([tokens[i] for i in block])
            for i, logp, best in zip(block, *logprob.target_logprobs(logits, picked, targets), strict=True):
                results[i] = logp, best
        return results


@dataclass(frozen=True, slots=True)
class _Rows:
    """A step's residuals [R, D] and where each slot's tokens lie in them."""

    x: Tensor
    layout: Layout
    places: dict[int, int]


def _row(rows: _Rows | None, slot: int, position: int) -> Tensor:
    assert rows is not None
    return rows.x[rows.layout.row(rows.places[slot], position)]


def _looks_back(feed: Feed) -> bool:
    """Whether a target is scored from the output of the token before the feed."""
    return any(target.position < 0 for target in feed.targets)
