# ruff: noqa: INP001
"""Residual sum, LayerNorm and six-way mix: decode with a product's partial sums, prefill with one increment."""

import sys
from collections.abc import Iterator
from functools import partial

import harness
import torch

from rwkv_kernels.gpu import add_norm_mix, launch_config
from rwkv_kernels.gpu.row_layout import Rows
from rwkv_kernels.norm import LAYER_EPS

COMPARED_ROWS = 8192


def rows_of(sequences: int, tokens: int) -> Rows:
    """Sequences of equal length, in slots of the same number."""
    slots = torch.arange(sequences, dtype=torch.int32, device="cuda")
    edge = torch.zeros(sequences, tokens, dtype=torch.int8, device="cuda")
    edge[:, 0] |= 1
    edge[:, -1] |= 2
    starts = torch.arange(sequences + 1, dtype=torch.int32, device="cuda") * tokens
    return Rows(slots.repeat_interleave(tokens), edge.view(-1), starts, slots, decode=tokens == 1)


def case(width: int, sequences: int, tokens: int) -> harness.BenchCase:
    count = sequences * tokens
    parts = launch_config.plan(width, width).splits if tokens == 1 else 1
    x, x_out = torch.randn(count, width, device="cuda"), torch.empty(count, width, device="cuda")
    delta, shift = torch.randn(parts, count, width, device="cuda"), torch.randn(sequences, width, device="cuda")
    norm_w, norm_b, shares = (torch.rand(n, width, device="cuda") for n in (1, 1, 6))
    out = torch.empty(6, count, width, dtype=torch.float16, device="cuda")
    rows = rows_of(sequences, tokens)
    arguments = (x, delta, norm_w[0], norm_b[0], LAYER_EPS, shares)

    def error() -> float:
        wanted = torch.empty_like(out)
        add_norm_mix.add_norm_mix(*arguments, shift.clone(), rows, x_out, out)
        add_norm_mix.reference(*arguments, shift.clone(), rows, torch.empty_like(x), wanted)
        return harness.distance(out, wanted)

    moved = x.nbytes + delta.nbytes + x_out.nbytes + out.nbytes + shares.nbytes + 2 * shift.nbytes
    name = f"D {width} decode {sequences}, {parts} parts" if tokens == 1 else f"D {width} prefill {sequences}x{tokens}"
    compare = error if count <= COMPARED_ROWS else None
    launched = partial(add_norm_mix.add_norm_mix, *arguments, shift, rows, x_out, out)
    return harness.BenchCase(name, launched, compare, 2e-3, moved)


def cases() -> Iterator[harness.BenchCase]:
    """Yield the cases of every model width, at the decode and prefill sizes."""
    for width in harness.WIDTHS:
        for sequences in harness.DECODE:
            yield case(width, sequences, 1)
        for sequences, tokens in harness.PREFILL:
            yield case(width, sequences, tokens)


if __name__ == "__main__":
    sys.exit(harness.main("add_norm_mix", cases))
