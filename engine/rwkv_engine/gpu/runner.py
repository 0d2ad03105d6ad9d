"""Run the planned steps on a GPU, one step ahead of the host: the next step feeds a drawn token before it is read.

A step is at most three parts, in this order on one stream: a decode part and a prefill part (graphs of their shapes),
and the first draws of prompts that have just ended. The outcome travels to pinned memory behind them.
"""

from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass

import torch
from torch import Tensor

from rwkv_engine.errors import OutOfMemory
from rwkv_engine.gpu.decode import Decode
from rwkv_engine.gpu.masks import forbid
from rwkv_engine.gpu.model import GpuModel
from rwkv_engine.gpu.pool import GpuPool, to_host
from rwkv_engine.gpu.prefill import Prefill
from rwkv_engine.gpu.score_targets import ChosenScores, StepTargets, TargetScores, chosen, scored
from rwkv_engine.gpu.sequence_rows import to_device
from rwkv_engine.gpu.start_samples import start_samples
from rwkv_engine.scheduling.scheduler import SlotInput, SlotOutput
from rwkv_engine.scheduling.token_scores import Score
from rwkv_kernels.draw import Mask
from rwkv_kernels.gpu.slot_draws import SlotDraws


@dataclass(frozen=True, slots=True)
class DrawnTokens:
    """Tokens drawn for some inputs, on their way to the host, and the scores of those that asked for them."""

    inputs: Sequence[SlotInput]
    tokens: Tensor
    scores: ChosenScores | None = None

    def read(self) -> Iterator[tuple[int, tuple[int, Score | None]]]:
        """Yield the slot of each input, with the token and its score."""
        scores = dict(self.scores.read()) if self.scores is not None else {}
        for entry, token in zip(self.inputs, self.tokens.tolist(), strict=False):
            yield entry.slot, (token, scores.get(entry.slot))


@dataclass(frozen=True, slots=True)
class GpuStep:
    """A launched step: its inputs and results, and an event that fires when it is done."""

    inputs: Sequence[SlotInput]
    drawn: Sequence[DrawnTokens]
    scores: TargetScores | None
    done: torch.cuda.Event | None

    def collect(self) -> list[SlotOutput]:
        """Wait for the step and return its outputs."""
        if self.done is not None:
            self.done.synchronize()
        tokens = dict(pair for part in self.drawn for pair in part.read())
        scores = self.scores.by_slot() if self.scores is not None else {}
        return [SlotOutput(scores.get(entry.slot, ()), *tokens.get(entry.slot, (None, None))) for entry in self.inputs]


@dataclass(slots=True)
class GpuRunner:
    """A model, the states of its slots, the sampler's data of each slot, and the two parts of a step."""

    model: GpuModel
    pool: GpuPool
    draws: SlotDraws
    decode: Decode
    prefill: Prefill
    lag: int = 1

    @torch.inference_mode()
    def launch(self, inputs: Sequence[SlotInput]) -> GpuStep:
        """Launch one step. Raises OutOfMemory; the slots' states are then lost."""
        try:
            with torch.cuda.device(self.model.device) if self.model.device.type == "cuda" else nullcontext():
                return self._launch(inputs)
        except torch.OutOfMemoryError as error:
            raise OutOfMemory from error

    def _launch(self, inputs: Sequence[SlotInput]) -> GpuStep:
        targets = StepTargets.of(inputs)
        early = self.pool.hidden[self._at(targets.early_slots)] if targets.early_slots else None
        drawn = [self._decode(group) for group in _decoding(inputs)]
        prompts = [(entry.slot, entry.tokens) for entry in inputs if entry.tokens]
        residual = self.prefill.feed(prompts) if prompts else None
        scores = targets.score(self.model, residual, early)
        first = [entry for entry in inputs if entry.draw and not entry.decode]
        drawn += [
            self._first_draws(first[at : at + self.decode.largest]) for at in range(0, len(first), self.decode.largest)
        ]
        return GpuStep(inputs, drawn, scores, self._behind())

    def _decode(self, inputs: Sequence[SlotInput]) -> DrawnTokens:
        """Feed and draw one token of each input: as a graph, or with the logits kept if any sample needs them."""
        slots = [entry.slot for entry in inputs]
        open_draws = any(_wants_logits(entry) for entry in inputs)
        logits = self.decode.step(slots, keep_logits=open_draws)
        if logits is not None:
            return self._sampled(inputs, logits)
        return DrawnTokens(inputs, to_host(self.decode.tokens))

    def _first_draws(self, inputs: Sequence[SlotInput]) -> DrawnTokens:
        """Begin samples, and draw each one's first token from its slot's last hidden vector."""
        slots = [entry.slot for entry in inputs]
        begun = [(entry.slot, entry.sequence.sample) for entry in inputs if entry.sequence.sample is not None]
        start_samples(self.draws, begun)
        return self._sampled(inputs, self.decode.logits_of(slots))

    def _sampled(self, inputs: Sequence[SlotInput], logits: Tensor) -> DrawnTokens:
        """Draw a token for each input from its row of logits [Q, V]."""
        asking = [(row, entry) for row, entry in enumerate(inputs) if _wants_scores(entry)]
        raw = logits[self._at([row for row, _ in asking])] if asking else None
        forbid(logits, [(row, mask) for row, entry in enumerate(inputs) if (mask := _allowed(entry)) is not None])
        tokens = self.decode.sample([entry.slot for entry in inputs], logits)
        if raw is None:
            return DrawnTokens(inputs, to_host(tokens))
        slots, tops = [entry.slot for _, entry in asking], [_likely_wanted(entry) for _, entry in asking]
        picked = tokens[self._at([row for row, _ in asking])]
        return DrawnTokens(inputs, to_host(tokens), chosen(slots, tops, picked, scored(picked, raw, max(tops))))

    def _at(self, places: Sequence[int]) -> Tensor:
        """Return indices on the device. Indexing with a plain list would wait for the device."""
        return to_device(torch.tensor(places), self.model.device)

    def _behind(self) -> torch.cuda.Event | None:
        if self.model.device.type != "cuda":
            return None
        event = torch.cuda.Event()  # type: ignore[no-untyped-call]
        event.record()
        return event


def _decoding(inputs: Sequence[SlotInput]) -> Iterator[list[SlotInput]]:
    """Yield the inputs of the decode part: first those that a graph can run, then those whose logits are needed."""
    decoding = [entry for entry in inputs if entry.decode]
    for wants in (False, True):
        if group := [entry for entry in decoding if _wants_logits(entry) is wants]:
            yield group


def _wants_logits(entry: SlotInput) -> bool:
    sample = entry.sequence.sample
    return _wants_scores(entry) or (sample is not None and sample.rule.grammar is not None)


def _wants_scores(entry: SlotInput) -> bool:
    return _likely_wanted(entry) >= 0


def _likely_wanted(entry: SlotInput) -> int:
    """Return how many of the likeliest tokens are to be shown beside the drawn one; -1 if no score is wanted."""
    sample = entry.sequence.sample
    return sample.rule.sampling.logprobs if sample is not None else -1


def _allowed(entry: SlotInput) -> Mask | None:
    """Return the mask of a constraint. The host computes it while the device still computes the logits."""
    sample = entry.sequence.sample
    return sample.allowed() if sample is not None else None
