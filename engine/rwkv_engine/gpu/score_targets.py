"""The log-probabilities that a step computes: their positions, and their copies in host memory."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from rwkv_engine.gpu.model import GpuModel
from rwkv_engine.gpu.pool import to_host
from rwkv_engine.gpu.sequence_rows import to_device
from rwkv_engine.scheduling.scheduler import SlotInput
from rwkv_engine.scheduling.token_scores import Score, Target
from rwkv_kernels.gpu.logprobs import target_logprobs

BLOCK_ROWS = 4096  # positions whose targets are scored at once
OPEN_ROWS = 64  # positions whose logits are held at once, where the likeliest tokens are reported too


@dataclass(frozen=True, slots=True)
class ChosenScores:
    """Scores of one token a row with the likeliest ones, in host memory once the step is done: `slots` and `tops` (how
    many likeliest ones are wanted) of each row, `tokens` int64 [Q], `logprobs` fp32 [Q], `likely` fp32 and `ids` int64
    [Q, K]."""

    slots: Sequence[int]
    tops: Sequence[int]
    tokens: Tensor
    logprobs: Tensor
    likely: Tensor
    ids: Tensor

    def read(self) -> Iterator[tuple[int, Score]]:
        """Yield the slot and the score of each row."""
        rows = (each.tolist() for each in (self.tokens, self.logprobs, self.likely, self.ids))
        for slot, top, token, value, likely, ids in zip(self.slots, self.tops, *rows, strict=True):
            yield slot, Score(value, ids[0] == token, tuple(zip(ids[:top], likely[:top], strict=True)))


@dataclass(frozen=True, slots=True)
class TargetScores:
    """`logprobs` fp32 [Q, J] and `best` int32 [Q] in host memory once the step is done; `places`: for each target of
    each input its slot, position, place in J and token. `shown`: scores that were computed from whole logits."""

    places: Sequence[tuple[int, int, int, Target]]
    logprobs: Tensor
    best: Tensor
    shown: ChosenScores | None

    def by_slot(self) -> dict[int, list[Score]]:
        """Return the score of every target, in the order of the inputs' targets."""
        found: dict[int, list[Score]] = {}
        for slot, score in self.shown.read() if self.shown is not None else ():
            found.setdefault(slot, []).append(score)
        logprobs, best = self.logprobs.tolist(), self.best.tolist()
        for slot, row, place, target in self.places:
            found.setdefault(slot, []).append(Score(logprobs[row][place], best[row] == target.token))
        return found


@dataclass(slots=True)
class StepTargets:
    """The targets of a step by position: a row of the prefill part, or (early) a slot's last hidden vector as it was
    before the step."""

    early_slots: list[int] = field(default_factory=list)
    plain: dict[tuple[int, int], list[tuple[int, Target]]] = field(default_factory=dict)
    shown: list[tuple[int, tuple[int, int], Target]] = field(default_factory=list)

    @classmethod
    def of(cls, inputs: Sequence[SlotInput]) -> "StepTargets":
        """Collect the targets of the inputs. One that asks for the likeliest tokens is scored from whole logits."""
        found, row = cls(), 0
        for entry in inputs:
            openly = any(target.top for target in entry.targets)
            for target in entry.targets:
                position = found._position(entry.slot, row, target.position)
                if openly:
                    found.shown.append((entry.slot, position, target))
                else:
                    found.plain.setdefault(position, []).append((entry.slot, target))
            row += len(entry.tokens)
        return found

    def _position(self, slot: int, row: int, position: int) -> tuple[int, int]:
        """Return (0, row of the prefill part) or (1, index among the early slots)."""
        if position >= 0:
            return 0, row + position
        if slot not in self.early_slots:
            self.early_slots.append(slot)
        return 1, self.early_slots.index(slot)

    def score(self, model: GpuModel, residual: Tensor | None, early: Tensor | None) -> TargetScores | None:
        """Launch the scoring: residual [R, D] of the prefill part, early [E, D]."""
        if not (self.plain or self.shown):
            return None
        opened = self._open(model, residual, early)
        if not self.plain:
            return TargetScores((), torch.empty(0, 1), torch.empty(0, dtype=torch.int32), opened)
        width = max(map(len, self.plain.values()))
        targets = torch.full((len(self.plain), width), -1, dtype=torch.int64)
        places = []
        for row, asked in enumerate(self.plain.values()):
            for place, (slot, target) in enumerate(asked):
                targets[row, place] = target.token
                places.append((slot, row, place, target))
        hidden = _gather(list(self.plain), residual, early, model.device)
        logprobs, best = _score(model, hidden, to_device(targets, model.device))
        return TargetScores(_by_input(places), to_host(logprobs), to_host(best), opened)

    def _open(self, model: GpuModel, residual: Tensor | None, early: Tensor | None) -> ChosenScores | None:
        """Launch the scoring of positions whose likeliest tokens are shown, a few whole rows of logits at a time."""
        if not self.shown:
            return None
        tops = [target.top for _, _, target in self.shown]
        tokens = to_device(torch.tensor([target.token for _, _, target in self.shown]), model.device)
        hidden = _gather([position for _, position, _ in self.shown], residual, early, model.device)
        parts = []
        for at in range(0, len(self.shown), OPEN_ROWS):
            rows = slice(at, at + OPEN_ROWS)
            logits = torch.empty(len(tokens[rows]), model.dims.vocabulary, device=model.device)
            parts.append(scored(tokens[rows], model.logits(hidden[rows], logits), max(tops)))
        return chosen([slot for slot, _, _ in self.shown], tops, tokens, [*map(torch.cat, zip(*parts, strict=True))])


def _by_input(places: list[tuple[int, int, int, Target]]) -> list[tuple[int, int, int, Target]]:
    """Sort the places in the order of each input's targets: choices that share a position come part by part."""
    return sorted(places, key=lambda place: (place[0], place[3].part, place[3].position))


def _gather(
    positions: Sequence[tuple[int, int]], residual: Tensor | None, early: Tensor | None, device: torch.device
) -> Tensor:
    """Return the hidden vectors [Q, D] of positions, those of the step before the early ones."""
    sources = [source for source in (residual, early) if source is not None]
    shift = residual.shape[0] if residual is not None else 0
    rows = torch.tensor([place + (shift if late else 0) for late, place in positions])
    return torch.cat(sources).index_select(0, to_device(rows, device))


def _score(model: GpuModel, hidden: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    logprobs = torch.empty(targets.shape, device=model.device)
    best = torch.empty(len(targets), dtype=torch.int32, device=model.device)
    for at in range(0, len(targets), BLOCK_ROWS):
        block = slice(at, at + BLOCK_ROWS)
        target_logprobs(model.normed(hidden[block]), model.weights.head, targets[block], logprobs[block], best[block])
    return logprobs, best


def scored(tokens: Tensor, logits: Tensor, most: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return, of one token a row of logits [Q, V], its log-probability [Q], and those of the likeliest tokens [Q, K]
    with their ids [Q, K]; K is `most`, at least 1."""
    logprobs = torch.log_softmax(logits, -1)
    likely, ids = torch.topk(logprobs, max(most, 1), -1)
    return logprobs.gather(1, tokens.clamp(min=0)[:, None])[:, 0], likely, ids


def chosen(slots: Sequence[int], tops: Sequence[int], tokens: Tensor, scores: Sequence[Tensor]) -> ChosenScores:
    """Start copies to the host of what `scored` has returned."""
    logprobs, likely, ids = map(to_host, scores)
    return ChosenScores(slots, tops, to_host(tokens), logprobs, likely, ids)
