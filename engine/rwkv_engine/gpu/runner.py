"""Runs a plan on a GPU, a step ahead of the host: a drawn token is fed by the next step before anybody has read it.

A step is at most three parts, in this order on one stream: a decode part (a graph of its batch size), a prefill part,
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
from rwkv_engine.gpu.rows import of_sequences, to_device
from rwkv_engine.gpu.scores import Scores, Wanted, chosen
from rwkv_engine.gpu.start import start
from rwkv_engine.gpu.workspace import Workspace
from rwkv_engine.scheduling.scheduler import Feed, Output
from rwkv_engine.scheduling.scores import Score
from rwkv_kernels.draw import Mask
from rwkv_kernels.gpu.sampler import SlotDraws


@dataclass(frozen=True, slots=True)
class Drawn:
    """Tokens of some feeds on their way to the host; `scores` are asked for by some of them."""

    feeds: Sequence[Feed]
    tokens: Tensor
    scores: dict[int, Score]


@dataclass(frozen=True, slots=True)
class GpuStep:
    """A step under way: what was launched, and an event behind all of it."""

    feeds: Sequence[Feed]
    drawn: Sequence[Drawn]
    scores: Scores | None
    landed: torch.cuda.Event | None

    def collect(self) -> list[Output]:
        """Wait for the step and put its outcome together."""
        if self.landed is not None:
            self.landed.synchronize()
        tokens = {
            feed.slot: (token, part.scores.get(feed.slot))
            for part in self.drawn
            for feed, token in zip(part.feeds, part.tokens.tolist(), strict=False)
        }
        scores = self.scores.by_slot() if self.scores is not None else {}
        return [Output(scores.get(feed.slot, ()), *tokens.get(feed.slot, (None, None))) for feed in self.feeds]


@dataclass(slots=True)
class GpuRunner:
    """A model, the states of its slots, and what its samplers remember."""

    model: GpuModel
    pool: GpuPool
    space: Workspace
    draws: SlotDraws
    decode: Decode
    lag: int = 1

    @torch.inference_mode()
    def launch(self, feeds: Sequence[Feed]) -> GpuStep:
        """One step. Raises OutOfMemory; the slots' states are then lost."""
        try:
            with torch.cuda.device(self.model.device) if self.model.device.type == "cuda" else nullcontext():
                return self._launch(feeds)
        except torch.OutOfMemoryError as error:
            raise OutOfMemory from error

    def _launch(self, feeds: Sequence[Feed]) -> GpuStep:
        wanted = Wanted.of(feeds)
        early = self.pool.hidden[self._at(wanted.early_slots)] if wanted.early_slots else None
        drawn = [self._decode(group) for group in _decoding(feeds)]
        prefill = [feed for feed in feeds if feed.tokens]
        residual = self._prefill(prefill) if prefill else None
        scores = wanted.score(self.model, residual, early)
        first = [feed for feed in feeds if feed.draw and not feed.decode]
        drawn += [
            self._first_draws(first[at : at + self.decode.largest]) for at in range(0, len(first), self.decode.largest)
        ]
        return GpuStep(feeds, drawn, scores, self._behind())

    def _decode(self, feeds: Sequence[Feed]) -> Drawn:
        """Feed and draw one token of each: as a graph, or openly where the logits of a sample are wanted."""
        slots = [feed.slot for feed in feeds]
        open_draws = any(_wants_logits(feed) for feed in feeds)
        logits = self.decode.step(slots, keep_logits=open_draws)
        return self._sampled(feeds, logits) if logits is not None else Drawn(feeds, to_host(self.decode.tokens), {})

    def _prefill(self, feeds: Sequence[Feed]) -> Tensor:
        """Feed prompts. Returns the residual of each row, sequence after sequence."""
        rows, ids = of_sequences([(feed.slot, feed.tokens) for feed in feeds], self.model.device)
        return self.model.step(self.pool, self.space, rows, ids)

    def _first_draws(self, feeds: Sequence[Feed]) -> Drawn:
        """Begin samples, and draw each one's first token from its slot's last hidden vector."""
        slots = [feed.slot for feed in feeds]
        start(self.draws, [(feed.slot, feed.sequence.sample) for feed in feeds if feed.sequence.sample is not None])
        return self._sampled(feeds, self.decode.logits_of(slots))

    def _sampled(self, feeds: Sequence[Feed], logits: Tensor) -> Drawn:
        """Draw from logits [Q, V] of these feeds."""
        asking = [(row, feed) for row, feed in enumerate(feeds) if _wants_scores(feed)]
        raw = logits[self._at([row for row, _ in asking])] if asking else None
        forbid(logits, [(row, mask) for row, feed in enumerate(feeds) if (mask := _allowed(feed)) is not None])
        tokens = self.decode.sample([feed.slot for feed in feeds], logits)
        scores: dict[int, Score] = {}
        if raw is not None:
            picked = tokens[self._at([row for row, _ in asking])]
            tops = [
                feed.sequence.sample.rule.sampling.logprobs for _, feed in asking if feed.sequence.sample is not None
            ]
            scores = dict(zip((feed.slot for _, feed in asking), chosen(raw, picked, tops), strict=True))
        return Drawn(feeds, to_host(tokens), scores)

    def _at(self, places: Sequence[int]) -> Tensor:
        """Indices on the device; a plain list would be waited for."""
        return to_device(torch.tensor(places), self.model.device)

    def _behind(self) -> torch.cuda.Event | None:
        if self.model.device.type != "cuda":
            return None
        event = torch.cuda.Event()  # type: ignore[no-untyped-call]
        event.record()
        return event


def _decoding(feeds: Sequence[Feed]) -> Iterator[list[Feed]]:
    """The feeds of the decode part: those whose logits are wanted apart, so that the others keep their graph."""
    decoding = [feed for feed in feeds if feed.decode]
    for wants in (False, True):
        if group := [feed for feed in decoding if _wants_logits(feed) is wants]:
            yield group


def _wants_logits(feed: Feed) -> bool:
    sample = feed.sequence.sample
    return _wants_scores(feed) or (sample is not None and sample.rule.grammar is not None)


def _wants_scores(feed: Feed) -> bool:
    sample = feed.sequence.sample
    return sample is not None and sample.rule.sampling.logprobs >= 0


def _allowed(feed: Feed) -> Mask | None:
    """What a constraint allows. The host works it out while the device is still busy with the logits."""
    sample = feed.sequence.sample
    return sample.allowed() if sample is not None else None
