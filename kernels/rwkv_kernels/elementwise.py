"""Transcendental functions whose bits do not depend on where in a tensor an element lies.

torch's vector loops treat the last elements of a range with scalar code, which differs by an ulp, and cut a large range
into one piece a thread. Blocks of at most 32768 elements are never cut, and a multiple of 64 has no remainder. Sums,
products and quotients are rounded exactly, so they need no such care.
"""

from collections.abc import Callable

import torch
from torch import Tensor

BLOCK = 32768  # at::internal::GRAIN_SIZE: a smaller range runs on one thread
LANE = 64  # twice the widest vector in floats, and a whole number of them on any CPU


def in_blocks(function: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """Apply an in-place function block by block to a contiguous tensor of a multiple of 64 elements; returns x."""
    flat = x.view(-1)
    assert flat.numel() % LANE == 0, "pad to a multiple of 64 first"
    if flat.numel() <= BLOCK:
        function(flat)
    else:
        blocks: tuple[Tensor, ...] = flat.split(BLOCK)  # type: ignore[no-untyped-call]
        for block in blocks:
            function(block)
    return x


def exp_(x: Tensor) -> Tensor:
    """Compute exp in place, each element's bits independent of its place. x: contiguous, a multiple of 64 elements."""
    return in_blocks(torch.exp_, x)


def pad_columns(x: Tensor, value: float) -> Tensor:
    """Pad [R, n] to [R, m], m being the next multiple of 64, with columns of `value`; return a new tensor."""
    count = x.shape[1]
    out = x.new_full((x.shape[0], -(-count // LANE) * LANE), value)
    out[:, :count] = x
    return out
