# ruff: noqa: INP001
"""The recurrence: decode with both types of state, prefill token by token and in chunks."""

import math
import sys
from collections.abc import Callable, Iterator
from functools import partial

import harness
import torch
from bench_add_norm_mix import rows_of

from rwkv_kernels.gpu import wkv7, wkv7_chunked
from rwkv_kernels.norm import HEAD_EPS

COMPARED_ROWS = 1024  # the reference goes through the tokens one by one


def case(
    kernel: Callable[..., None], name: str, kept: torch.dtype, width: int, sequences: int, tokens: int
) -> harness.BenchCase:
    count, heads = sequences * tokens, width // 64
    r, k, v, g = torch.randn(4, count, width, device="cuda", dtype=torch.float16)
    a = torch.sigmoid(torch.randn(count, width, device="cuda")).half()
    w = torch.exp(-math.exp(-0.5) * torch.sigmoid(torch.randn(count, width, device="cuda") - 2))
    k_k, k_a, r_k, norm_w, norm_b = torch.rand(5, width, device="cuda").unbind()
    state = torch.randn(sequences, heads, 64, 64, device="cuda").to(kept)
    out, rows = torch.empty_like(r), rows_of(sequences, tokens)
    arguments = (r, k, v, a, g, w, k_k, k_a, r_k, norm_w, norm_b, HEAD_EPS)

    def error() -> float:
        wanted, wanted_state, own_state = torch.empty_like(out), state.clone(), state.clone()
        kernel(*arguments, own_state, rows, out)
        wkv7.reference(*arguments, wanted_state, rows, wanted)
        return max(harness.distance(out, wanted), harness.distance(own_state, wanted_state))

    moved = 6 * r.nbytes + w.nbytes + 2 * state.nbytes
    length = f"decode {sequences}" if tokens == 1 else f"prefill {sequences}x{tokens}"
    label = f"D {width} {name}, {kept} state, {length}".replace("torch.", "")
    compare = error if count <= COMPARED_ROWS else None
    return harness.BenchCase(label, partial(kernel, *arguments, state, rows, out), compare, 2e-3, moved)


def cases() -> Iterator[harness.BenchCase]:
    """Yield the cases of every model width, at the decode and prefill sizes."""
    full, half = torch.float32, torch.float16
    for width in harness.WIDTHS:
        for sequences in harness.DECODE:
            yield case(wkv7.wkv7, "wkv7", full, width, sequences, 1)
            yield case(wkv7.wkv7, "wkv7", half, width, sequences, 1)
        for sequences, tokens in harness.PREFILL:
            yield case(wkv7.wkv7, "wkv7", full, width, sequences, tokens)
            yield case(wkv7_chunked.wkv7_chunked, "wkv7_chunked", full, width, sequences, tokens)


if __name__ == "__main__":
    sys.exit(harness.main("wkv7", cases))
