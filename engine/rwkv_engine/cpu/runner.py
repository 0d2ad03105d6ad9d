"""Run the planned steps: lay the tokens out, step the model, score the targets and draw tokens."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from rwkv_engine.cpu.layout import Layout, lay_out
from rwkv_engine.cpu.model import Model
from rwkv_engine.cpu.state_pool import StatePool
from rwkv_engine.scheduling.scheduler import SlotInput, SlotOutput
from rwkv_engine.scheduling.token_scores import Score
from rwkv_kernels import logprob, sampling

SCORE_ROWS = 64  # positions whose logits are held at once: 16 MB of World vocabulary


@dataclass(frozen=True, slots=True)
class FinishedStep:
    """A finished step: its outputs can be collected without waiting."""

    outputs: list[SlotOutput]

    def collect(self) -> list[SlotOutput]:
        return self.outputs


@dataclass(slots=True)
class Runner:
    """A model and the states of its slots. Running ahead gains nothing on a CPU: `launch` returns a finished step."""

    model: Model
    pool: StatePool
    lag: int = 0
    _drawn: dict[int, int] = field(default_factory=dict)

    @torch.inference_mode()
    def launch(self, inputs: Sequence[SlotInput]) -> FinishedStep:
        """Run one step. Targets are scored and tokens drawn after the states have moved."""
        tokens = [[self._drawn[entry.slot]] if entry.decode else entry.tokens for entry in inputs]
        fed = [(entry, ids) for entry, ids in zip(inputs, tokens, strict=True) if ids]
        early = {entry.slot: self.pool.hidden[entry.slot].clone() for entry in inputs if _looks_back(entry)}
        rows: _Rows | None = None
        if fed:
            layout = lay_out([ids for _, ids in fed], [f.slot for f, _ in fed], self.model.do.row_multiple)
            rows = _Rows(
                self.model.step(self.pool, layout), layout, {fed[i][0].slot: p for p, i in enumerate(layout.order)}
            )
        scores = self._score(inputs, rows, early)
        drawn = self._draw([entry for entry in inputs if entry.draw])
        return FinishedStep(
            [SlotOutput(scores.get(entry.slot, ()), *drawn.get(entry.slot, (None, None))) for entry in inputs]
        )

    def _draw(self, inputs: Sequence[SlotInput]) -> dict[int, tuple[int, Score | None]]:
        """Draw a token for each input from its slot's last hidden vector."""
        if not inputs:
            return {}
        logits = self.model.logits(self.pool.hidden[[entry.slot for entry in inputs]])
        draws = [entry.sequence.sample.draw() for entry in inputs if entry.sequence.sample is not None]
        raw = {row: logits[row].clone() for row, draw in enumerate(draws) if draw.logprobs >= 0}
        tokens = sampling.sample(logits, draws)
        self._drawn.update((entry.slot, token) for entry, token in zip(inputs, tokens, strict=True))
        return {
            entry.slot: (token, _score(raw[row], token, draws[row].logprobs) if row in raw and token >= 0 else None)
            for row, (entry, token) in enumerate(zip(inputs, tokens, strict=True))
        }

    def _score(
        self, inputs: Sequence[SlotInput], rows: "_Rows | None", early: dict[int, Tensor]
    ) -> dict[int, list[Score]]:
        """Return the score of every target, by slot; the head runs once per scored position."""
        vectors: dict[tuple[int, int], Tensor] = {}
        places: list[tuple[int, int]] = []
        for entry in inputs:
            for target in entry.targets:
                place = (entry.slot, target.position)
                if place not in vectors:
                    vectors[place] = early[entry.slot] if target.position < 0 else _row(rows, *place)
                places.append(place)
        if not places:
            return {}
        results = self._score_rows(vectors, places, [(t.token, t.top) for entry in inputs for t in entry.targets])
        by_slot: dict[int, list[Score]] = {}
        for (slot, _), result in zip(places, results, strict=True):
            by_slot.setdefault(slot, []).append(result)
        return by_slot

    def _score_rows(
        self,
        vectors: dict[tuple[int, int], Tensor],
        places: Sequence[tuple[int, int]],
        asked: Sequence[tuple[int, int]],
    ) -> list[Score]:
        """Score (place, (token, top)) pairs from the hidden vectors of their places, in blocks of rows."""
        results = [Score(0.0, best=False)] * len(places)
        number = {place: i for i, place in enumerate(vectors)}
        hidden = torch.stack(list(vectors.values()))
        for start in range(0, len(hidden), SCORE_ROWS):
            block = [i for i, place in enumerate(places) if start <= number[place] < start + SCORE_ROWS]
            logits = self.model.logits(hidden[start : start + SCORE_ROWS])
            picked = torch.tensor([number[places[i]] - start for i in block])
            targets = torch.tensor([asked[i][0] for i in block])
            tops = logprob.likeliest(logits, picked, [asked[i][1] for i in block])
            for i, logp, best, top in zip(block, *logprob.target_logprobs(logits, picked, targets), tops, strict=True):
                results[i] = Score(logp, best, top)
        return results


def _score(logits: Tensor, token: int, top: int) -> Score:
    """Score one token of a row of logits [V], with the `top` likeliest tokens."""
    row, first = logits[None], torch.zeros(1, dtype=torch.int64)
    (logp,), (best,) = logprob.target_logprobs(row, first, torch.tensor([token]))
    return Score(logp, best, logprob.likeliest(row, first, [top])[0])


@dataclass(frozen=True, slots=True)
class _Rows:
    """The residuals [R, D] of a step, and the place of each slot's tokens in them."""

    x: Tensor
    layout: Layout
    places: dict[int, int]


def _row(rows: _Rows | None, slot: int, position: int) -> Tensor:
    assert rows is not None
    return rows.x[rows.layout.row(rows.places[slot], position)]


def _looks_back(entry: SlotInput) -> bool:
    """Whether a target is scored from the output of the token before the input's first one."""
    return any(target.position < 0 for target in entry.targets)
