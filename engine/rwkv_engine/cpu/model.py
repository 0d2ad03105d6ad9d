"""RWKV-7 over a slot-indexed state pool: one step of any mix of prompts and running samples."""

from dataclasses import dataclass

import torch
from torch import Tensor

from rwkv_engine.cpu import packing
from rwkv_engine.cpu.layout import Layout
from rwkv_engine.cpu.packing import Block, Weights
from rwkv_engine.cpu.state_pool import StatePool
from rwkv_kernels import arithmetic
from rwkv_kernels.arithmetic import Arithmetic
from rwkv_kernels.channel_mix import channel_mix
from rwkv_kernels.norm import layer_norm
from rwkv_kernels.time_mix import time_mix
from rwkv_weights.formats.load import Checkpoint
from rwkv_weights.formats.schema import Dims
from rwkvctl.protocol.numerics import Numerics


@dataclass(frozen=True, slots=True)
class Model:
    """`do` is the arithmetic of the profile: fast, or with each row's bits independent of the others (rwkv_kernels)."""

    dims: Dims
    weights: Weights
    do: Arithmetic

    @classmethod
    @torch.inference_mode()
    def of(cls, checkpoint: Checkpoint, numerics: Numerics) -> "Model":
        """Pack a validated checkpoint for a profile."""
        do = arithmetic.of(numerics)
        return cls(checkpoint.dims, packing.build(checkpoint, do.pack_above), do)

    def step(self, pool: StatePool, layout: Layout) -> Tensor:
        """Feed the layout's tokens and update the slots' states. Returns the residual of each row [R, D]."""
        w = self.weights
        x = layer_norm(w.embedding[layout.ids].float(), w.norm0)
        v_first: Tensor | None = None
        for layer, block in enumerate(w.blocks):
            v_first = self._block(block, layer, x, v_first, pool, layout)
        pool.hidden[layout.slots] = x if layout.simple else x[layout.last]
        return x

    def _block(
        self, block: Block, layer: int, x: Tensor, v_first: Tensor | None, pool: StatePool, layout: Layout
    ) -> Tensor:
        """Apply one layer to x in place. Returns the first layer's values."""
        xx = layer_norm(x, block.norm1)
        before = shift(pool.layers_shift[layer, 0], xx, layout)
        held = pool.layers_wkv[layer]
        state = held[layout.slots]  # a view if the slots are consecutive, else a copy
        step, v_first = time_mix(self.do, block.time, xx, before, v_first, state, layout.counts)
        if isinstance(layout.slots, Tensor):
            held[layout.slots] = state
        x.add_(step)
        xx = layer_norm(x, block.norm2)
        x.add_(channel_mix(self.do, block.channel, xx, shift(pool.layers_shift[layer, 1], xx, layout)))
        return v_first

    def logits(self, hidden: Tensor) -> Tensor:
        """Return the logits [R, V] of residuals [R, D]. Called only for rows that are scored or drawn from."""
        count = hidden.shape[0]
        padding = -count % self.do.row_multiple
        if padding:
            hidden = torch.cat((hidden, hidden.new_zeros(padding, hidden.shape[1])))
        return self.do.rows(layer_norm(hidden, self.weights.norm_out), self.weights.head)[:count]


def shift(stored: Tensor, xx: Tensor, layout: Layout) -> Tensor:
    """Return the previous rows of `xx` [R, D], from the slots' stored ones [slots, D] and xx; store each slot's
    last."""
    first = stored[layout.slots]
    if layout.simple:
        before = first.clone() if isinstance(layout.slots, slice) else first
        stored[layout.slots] = xx
        return before
    before = torch.cat((first, xx))[layout.before]
    stored[layout.slots] = xx[layout.last]
    return before
