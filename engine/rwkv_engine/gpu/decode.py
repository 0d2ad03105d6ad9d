"""The decode part of a step: feed one token of each running sample and draw the next one, all on the device."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from rwkv_engine.gpu.graphs import Graphs
from rwkv_engine.gpu.memory_plan import buckets
from rwkv_engine.gpu.model import GpuModel
from rwkv_engine.gpu.pool import GpuPool
from rwkv_engine.gpu.sequence_rows import decode_rows, to_device
from rwkv_engine.gpu.workspace import Workspace
from rwkv_kernels.gpu.row_layout import Rows
from rwkv_kernels.gpu.sampler import next_rows, sample
from rwkv_kernels.gpu.slot_draws import SlotDraws


@dataclass(slots=True)
class Decode:
    """Buffers for up to `largest` samples: `slots` int32 [B], of which `live` are fed the tokens `ids` int64 [B];
    `logits` fp32 [B, V], `drawn` int64 [B] and `logprobs` fp32 [B] of what was drawn; `tokens` are those of the last
    step.

    Rows beyond the samples, and samples that drew a stop token, use the scratch slot.
    """

    model: GpuModel
    pool: GpuPool
    space: Workspace
    draws: SlotDraws
    largest: int
    graphs: Graphs[int] = field(init=False)
    slots: Tensor = field(init=False)
    live: Tensor = field(init=False)
    ids: Tensor = field(init=False)
    logits: Tensor = field(init=False)
    drawn: Tensor = field(init=False)
    logprobs: Tensor = field(init=False)
    tokens: Tensor = field(init=False)
    _shown: tuple[int, ...] = ()
    _rows: dict[int, tuple[Tensor, Tensor]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        device, vocabulary = self.model.device, self.model.dims.vocabulary
        self.graphs = Graphs(self._body, device)
        self.slots = torch.full((self.largest,), self.pool.scratch, dtype=torch.int32, device=device)
        self.live = torch.empty_like(self.slots)
        self.ids = torch.empty(self.largest, dtype=torch.int64, device=device)
        self.logits = torch.empty(self.largest, vocabulary, device=device)
        self.drawn = torch.empty(self.largest, dtype=torch.int64, device=device)
        self.logprobs = torch.empty(self.largest, device=device)
        self.tokens = self.drawn[:0]
        self._rows = {bucket: decode_rows(bucket, device) for bucket in buckets(self.largest)}

    @torch.inference_mode()
    def capture(self) -> None:
        """Record the step for every batch size."""
        self.graphs.capture(sorted(self._rows, reverse=True))

    def step(self, slots: Sequence[int], *, keep_logits: bool) -> Tensor | None:
        """Feed the slots' last tokens. With `keep_logits`, returns the logits [Q, V]; else draws the next tokens."""
        bucket = next(size for size in sorted(self._rows) if size >= len(slots))
        self._show(slots, bucket)
        if keep_logits:
            self._feed(bucket)
            return self.logits[: len(slots)]
        self.graphs.run(bucket)
        self.tokens = self.drawn[: len(slots)]
        return None

    def logits_of(self, slots: Sequence[int]) -> Tensor:
        """Return the logits [Q, V] of the slots' last hidden vectors."""
        at = to_device(torch.tensor(slots), self.model.device)
        return self.model.logits(self.pool.hidden[at], self.logits[: len(slots)])

    def sample(self, slots: Sequence[int], logits: Tensor) -> Tensor:
        """Draw the next token of each slot from logits [Q, V], which are changed. Returns the tokens [Q]."""
        at = to_device(torch.tensor(slots, dtype=torch.int32), self.model.device)
        tokens = self.drawn[: len(slots)]
        sample(logits, self._live(at), self.draws, tokens, self.logprobs[: len(slots)])
        return tokens

    def _show(self, slots: Sequence[int], bucket: int) -> None:
        """Copy the slots to where the graph reads them, unless they are there already."""
        shown = (*slots, *[self.pool.scratch] * (bucket - len(slots)))
        if shown != self._shown:
            host = torch.tensor(shown, dtype=torch.int32)
            self.slots[:bucket].copy_(to_device(host, self.model.device))
            self._shown = shown

    def _live(self, slots: Tensor) -> Tensor:
        """Return the slots, with the scratch slot in place of those that have halted."""
        return torch.where(self.draws.halted[slots.long()] == 0, slots, self.pool.scratch)

    def _feed(self, bucket: int) -> Tensor:
        """Feed one token of each slot and leave the logits in `logits`. Returns the slots that were fed."""
        live, ids = self.live[:bucket], self.ids[:bucket]
        next_rows(self.slots[:bucket], self.draws, live, ids)
        edge, starts = self._rows[bucket]
        residual = self.model.step(self.pool, self.space, Rows(live, edge, starts, live, decode=True), ids)
        self.model.logits(residual, self.logits[:bucket])
        return live

    def _body(self, bucket: int) -> None:
        sample(self.logits[:bucket], self._feed(bucket), self.draws, self.drawn[:bucket], self.logprobs[:bucket])
