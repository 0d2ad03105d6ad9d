"""The recurrence against BlinkDL's formulas, written out for one head at a time."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from rwkv_kernels import wkv7

N = 64


def blinkdl(state: Tensor, r: Tensor, w: Tensor, k: Tensor, v: Tensor, kk: Tensor, a: Tensor) -> tuple[Tensor, Tensor]:
    """RWKV-v7/rwkv_v7_numpy.py: the state is [v, k]; all vectors [N], in float64."""
    state = state * w[None, :] - (state @ kk)[:, None] * (kk * a)[None, :] + v[:, None] * k[None, :]
    return state, state @ r


def inputs(rows: int, heads: int, seed: int) -> tuple[wkv7.Inputs, Tensor]:
    make = torch.Generator().manual_seed(seed)
    r, k, v = (torch.randn(rows, heads, N, generator=make) for _ in range(3))
    w, a = (torch.rand(rows, heads, N, generator=make) for _ in range(2))
    kk = torch.nn.functional.normalize(torch.randn(rows, heads, N, generator=make), dim=-1)
    return wkv7.Inputs(r, 0.5452 + 0.4548 * w, k, v, kk, kk * a), a


@pytest.mark.parametrize("token", [wkv7.exact_token, wkv7.fast_token])
@settings(max_examples=15, deadline=None)
@given(lengths=st.lists(st.integers(1, 6), min_size=1, max_size=4), heads=st.integers(1, 3), seed=st.integers(0, 1000))
def test_sequences_of_different_lengths(token: wkv7.Token, lengths: list[int], heads: int, seed: int) -> None:
    lengths = sorted(lengths, reverse=True)
    counts = [sum(length > t for length in lengths) for t in range(lengths[0])]
    x, a = inputs(sum(lengths), heads, seed)
    state = torch.randn(len(lengths), heads, N, N, generator=torch.Generator().manual_seed(seed))
    expected = state.double().transpose(-1, -2).clone()
    out = torch.empty_like(x.r)
    wkv7.scan(token, state, x, counts, out)
    row = 0
    for count in counts:
        for sequence in range(count):
            for head in range(heads):
                vectors = (t[row, head].double() for t in (x.r, x.w, x.k, x.v, x.kk, a))
                expected[sequence, head], y = blinkdl(expected[sequence, head], *vectors)
                torch.testing.assert_close(out[row, head].double(), y, rtol=1e-4, atol=1e-4)
            row += 1
    torch.testing.assert_close(state.double().transpose(-1, -2), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("batch", [1, 2, 3, 7, 33])
def test_the_exact_token_has_the_same_bits_in_any_batch(batch: int) -> None:
    x, _ = inputs(33, 1, 0)
    states = torch.randn(33, 1, N, N, generator=torch.Generator().manual_seed(1))
    whole, out = states.clone(), torch.empty_like(x.r)
    wkv7.exact_token(whole, x, out)
    for start in range(0, 33 - batch + 1, batch):
        part = slice(start, start + batch)
        state, y = states[part].clone(), torch.empty_like(x.r[part])
        wkv7.exact_token(state, wkv7.Inputs(*(t[part] for t in x)), y)
        assert torch.equal(state, whole[part])
        assert torch.equal(y, out[part])
