"""How far a profile's logits are from plain fp32 arithmetic on the same checkpoint.

The reference is the CPU's exact arithmetic, one layer in memory at a time, so that a checkpoint need not fit twice. It
is itself compared with the `rwkv` package in the tests, and here too where that package is installed.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from rwkv_engine.cpu import packing
from rwkv_kernels import arithmetic
from rwkv_kernels.channel_mix import channel_mix
from rwkv_kernels.linear import TILE_ROWS
from rwkv_kernels.norm import Norm, layer_norm
from rwkv_kernels.time_mix import time_mix
from rwkv_weights.formats.load import Checkpoint
from rwkv_weights.formats.schema import HEAD_SIZE


@dataclass(frozen=True, slots=True)
class Agreement:
    """`relative`: |logits - reference| / |reference| over all; `kl`: mean divergence in nats a token; `greedy`: share
    of positions with the same likeliest token."""

    relative: float
    kl: float
    greedy: float


def agreement(logits: Tensor, reference: Tensor) -> Agreement:
    """Return how far `logits` agree with `reference`, both [T, V]."""
    ours, theirs = logits.double(), reference.double()
    p, q = torch.log_softmax(theirs, -1), torch.log_softmax(ours, -1)
    return Agreement(
        relative=float((ours - theirs).norm() / theirs.norm()),
        kl=float((p.exp() * (p - q)).sum(-1).mean()),
        greedy=float((ours.argmax(-1) == theirs.argmax(-1)).double().mean()),
    )


@torch.inference_mode()
def reference_logits(checkpoint: Checkpoint, ids: Sequence[int]) -> Tensor:
    """Return the logits [T, V] in fp32 of one sequence from the empty state."""
    do, read = arithmetic.EXACT, packing.Reader(checkpoint, arithmetic.EXACT.pack_above)
    padding = -len(ids) % TILE_ROWS
    x = checkpoint.tensors["emb.weight"][torch.tensor([*ids, *[0] * padding])].float()
    x = layer_norm(x, read.norm("blocks.0.ln0"))
    v_first: Tensor | None = None
    for layer in range(checkpoint.dims.layers):
        block = read.block(layer)
        state = torch.zeros(1, checkpoint.dims.heads, HEAD_SIZE, HEAD_SIZE)
        xx, before = _shifted(x, block.norm1)
        step, v_first = time_mix(do, block.time, xx, before, v_first, state, [1] * len(ids))
        x = x + step
        x = x + channel_mix(do, block.channel, *_shifted(x, block.norm2))
    return do.rows(layer_norm(x, read.norm("ln_out")), read.linear("head"))[: len(ids)]


def _shifted(x: Tensor, norm: Norm) -> tuple[Tensor, Tensor]:
    """Return the normalised rows, and the previous row of each."""
    xx = layer_norm(x, norm)
    return xx, torch.cat((torch.zeros_like(xx[:1]), xx[:-1]))
