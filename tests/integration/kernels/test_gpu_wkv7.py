"""The recurrence: against its formulas, against the CPU's arithmetic, and equal bits of a row in any batch and
chunking."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from rwkv_kernels import time_mix
from rwkv_kernels import wkv7 as on_cpu
from rwkv_kernels.arithmetic import EXACT
from rwkv_kernels.gpu import wkv7, wkv7_chunked
from rwkv_kernels.gpu.row_layout import Rows
from rwkv_kernels.linear import Linear
from rwkv_kernels.norm import HEAD_EPS, Norm

KINDS = [
    (torch.float16, torch.float32, 2e-3),
    (torch.float16, torch.float16, 2e-3),
    (torch.float32, torch.float32, 1e-5),
]
IDS = ["fp16", "fp16 state", "fp32"]
FEW = [KINDS[0], *(pytest.param(*kind, marks=pytest.mark.slow("triton")) for kind in KINDS[1:])]


@dataclass(frozen=True, slots=True)
class Layer:
    """One layer's vectors and the inputs of its tokens: r k v a g [R, D] of one type, w [R, D] fp32."""

    tokens: tuple[Tensor, ...]
    weights: tuple[Tensor, ...]

    def rows(self, first: int, end: int) -> "Layer":
        return Layer(tuple(x[first:end].contiguous() for x in self.tokens), self.weights)


def layer(count: int, heads: int, dtype: torch.dtype, device: str, seed: int = 0) -> Layer:
    """Random tokens of the sizes a model has."""
    chance = torch.Generator().manual_seed(seed)
    width = 64 * heads

    def normal(*shape: int, mean: float = 0.0, spread: float = 1.0) -> Tensor:
        return torch.randn(*shape, generator=chance) * spread + mean

    r, k, v, g = (normal(count, width) for _ in range(4))
    a = torch.sigmoid(normal(count, width))
    w = torch.exp(time_mix.DECAY * torch.sigmoid(normal(count, width, mean=-2.0, spread=2.0)))
    weights = (
        normal(width, mean=0.7, spread=0.1), normal(width, mean=1.0, spread=0.1), normal(width, spread=0.1),
        normal(width, mean=0.5, spread=0.1), normal(width, spread=0.1),
    )  # fmt: skip
    tokens = (*(x.to(device, dtype) for x in (r, k, v, a, g)), w.to(device))
    return Layer(tokens, tuple(x.to(device) for x in weights))


def rows_of(lengths: Sequence[int], slots: Sequence[int], device: str) -> Rows:
    """The rows of sequences of these lengths in these slots."""
    starts = torch.tensor([0, *lengths]).cumsum(0)
    row_slot = torch.tensor(slots).repeat_interleave(torch.tensor(lengths))
    edge = torch.zeros(int(starts[-1]), dtype=torch.int8)
    occupied = starts[1:] > starts[:-1]
    edge[starts[:-1][occupied]] |= 1
    edge[starts[1:][occupied] - 1] |= 2
    return Rows(
        row_slot.to(device, torch.int32), edge.to(device), starts.to(device, torch.int32),
        torch.tensor(slots, dtype=torch.int32, device=device), decode=max(lengths) == 1,
    )  # fmt: skip


def pool(slots: int, heads: int, dtype: torch.dtype, device: str) -> Tensor:
    """The state of the second of three layers: a view whose slots lie apart."""
    numbers = torch.randn(slots, 3, heads, 64, 64, generator=torch.Generator().manual_seed(9))
    return numbers.to(device, dtype)[:, 1]


def run(kernel: Callable[..., None], x: Layer, state: Tensor, rows: Rows) -> tuple[Tensor, Tensor]:
    """Return the output, filled with NaN before, and a changed copy of the state."""
    out = torch.full_like(x.tokens[0], torch.nan)
    whole = torch.empty_strided(state.shape, state.stride(), dtype=state.dtype, device=state.device).copy_(state)
    kernel(*x.tokens, *x.weights, HEAD_EPS, whole, rows, out)
    return out, whole


def distance(got: Tensor, wanted: Tensor) -> float:
    return float((got.double() - wanted.double()).norm() / wanted.double().norm())


@pytest.mark.parametrize(("dtype", "kept", "tolerance"), KINDS, ids=IDS)
@pytest.mark.parametrize("lengths", [[1, 1], [3, 11]], ids=["decode", "prompts"])
def test_it_computes_its_formulas(
    lengths: list[int], dtype: torch.dtype, kept: torch.dtype, tolerance: float, device: str
) -> None:
    x, rows, state = layer(sum(lengths), 2, dtype, device), rows_of(lengths, [3, 1], device), pool(4, 2, kept, device)
    out, after = run(wkv7.wkv7, x, state, rows)
    wanted, wanted_after = run(wkv7.reference, x, state, rows)
    assert distance(out, wanted) < tolerance
    assert distance(after[[1, 3]], wanted_after[[1, 3]]) < tolerance
    assert torch.equal(after[[0, 2]], state[[0, 2]])


def test_the_formulas_are_those_of_the_cpu() -> None:
    """Two sequences of two tokens, through time_mix's own code."""
    count, heads = 4, 2
    x, state = layer(count, heads, torch.float32, "cpu"), pool(2, 2, torch.float32, "cpu")
    rows = rows_of([2, 2], [0, 1], "cpu")
    wanted, wanted_after = run(wkv7.reference, x, state, rows)
    by_time = torch.tensor([0, 2, 1, 3])
    r, k, v, a, g, w = (y[by_time].view(count, heads, 64) for y in x.tokens)
    k_k, k_a, r_k, norm_w, norm_b = x.weights
    none = Linear(torch.empty(0), None, "none", False, 0)
    p = time_mix.TimeMix(
        torch.empty(0), none, none, none, none, (none, none), (none, none), (none, none), None,
        k_k.view(heads, 64), k_a, 1 - k_a, r_k.view(heads, 64), Norm(norm_w, norm_b),
    )  # fmt: skip
    kk = time_mix.unit(k * p.k_k)
    inputs = on_cpu.Inputs(r, w, k * (1 + (a - 1) * k_a.view(heads, 64)), v, kk, kk * a)
    after = state.clone()
    out = time_mix.read(EXACT, p, inputs, after, [2, 2]) * g.reshape(count, -1)
    assert distance(out, wanted[by_time]) < 1e-5
    assert distance(after, wanted_after) < 1e-5


@pytest.mark.slow("triton")
@pytest.mark.parametrize(("dtype", "kept", "tolerance"), KINDS, ids=IDS)
@settings(max_examples=3, deadline=None)
@given(cuts=st.sets(st.integers(1, 9)), slot=st.integers(0, 3))
def test_a_prompt_has_the_same_bits_however_it_is_cut(
    cuts: set[int], slot: int, dtype: torch.dtype, kept: torch.dtype, tolerance: float, device: str
) -> None:
    """Whole, in pieces, token by token: the outputs and the state after it."""
    del tolerance
    x, state = layer(10, 1, dtype, device), pool(4, 1, kept, device)
    whole, after = run(wkv7.wkv7, x, state, rows_of([10], [slot], device))
    edges = [0, *sorted(cuts), 10]
    pieces, piecewise = [], state
    for first, end in pairwise(edges):
        out, piecewise = run(wkv7.wkv7, x.rows(first, end), piecewise, rows_of([end - first], [slot], device))
        pieces.append(out)
    assert torch.equal(torch.cat(pieces), whole)
    assert torch.equal(piecewise, after)


@pytest.mark.parametrize(("dtype", "kept", "tolerance"), FEW, ids=IDS)
def test_a_sequence_has_the_same_bits_in_any_company(
    dtype: torch.dtype, kept: torch.dtype, tolerance: float, device: str
) -> None:
    """Alone or among others, at another place, in another slot."""
    del tolerance
    heads = 2 if device == "cpu" else 12
    x, state = layer(9, heads, dtype, device), pool(6, heads, kept, device)
    state[5] = state[2]
    alone, after = run(wkv7.wkv7, x.rows(4, 8), state, rows_of([4], [2], device))
    among, after_among = run(wkv7.wkv7, x, state, rows_of([1, 3, 4, 1], [4, 0, 5, 1], device))
    assert torch.equal(among[4:8], alone)
    assert torch.equal(after_among[5], after[2])


def test_an_empty_sequence_keeps_its_state(device: str) -> None:
    x, state, rows = (
        layer(2, 1, torch.float16, device),
        pool(2, 1, torch.float32, device),
        rows_of([0, 2], [0, 1], device),
    )
    out, after = run(wkv7.wkv7, x, state, rows)
    assert torch.equal(after[0], state[0])
    assert out.isfinite().all()


def test_a_key_of_zero_removes_nothing(device: str) -> None:
    """The norm of kk has a floor."""
    x, rows, state = layer(1, 1, torch.float32, device), rows_of([1], [0], device), pool(1, 1, torch.float32, device)
    x.tokens[1].zero_()
    _, after = run(wkv7.wkv7, x, state, rows)
    assert distance(after, state * x.tokens[5].view(1, 1, 64, 1)) < 1e-6


def repeated(x: Layer) -> None:
    """The same token again and again, kept and removed whole: the powers of what a chunk inverts grow largest."""
    for tokens in x.tokens:
        tokens[:] = tokens[0]
    x.tokens[3].fill_(1)
    x.tokens[5].fill_(0.9999)


def fading(x: Layer) -> None:
    """The fastest decay there is: the products of a chunk shrink most."""
    x.tokens[5].fill_(math.exp(time_mix.DECAY))


@pytest.mark.slow("triton")
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float16, 2e-3), (torch.float32, 1e-5)])
@pytest.mark.parametrize("change", [lambda _: None, repeated, fading], ids=["any", "repeated", "fading"])
def test_chunks_compute_the_same_formulas(
    change: Callable[[Layer], None], dtype: torch.dtype, tolerance: float, device: str
) -> None:
    """Full chunks, a rest, sequences shorter than a chunk, and one without a row."""
    lengths, slots = [35, 1, 0, 16], [3, 1, 4, 0]
    x, rows, state = layer(52, 1, dtype, device), rows_of(lengths, slots, device), pool(5, 1, torch.float32, device)
    change(x)
    out, after = run(wkv7_chunked.wkv7_chunked, x, state, rows)
    wanted, wanted_after = run(wkv7.reference, x, state, rows)
    assert distance(out, wanted) < tolerance
    assert distance(after[[0, 1, 3]], wanted_after[[0, 1, 3]]) < (1e-3 if dtype == torch.float16 else 1e-5)
    assert torch.equal(after[[2, 4]], state[[2, 4]])


def assert_chunks_compute_the_same(x: Layer, state: Tensor, rows: Rows) -> None:
    out, after = run(wkv7_chunked.wkv7_chunked, x, state, rows)
    wanted, wanted_after = run(wkv7.reference, x, state, rows)
    assert distance(out, wanted) < 2e-3
    assert distance(after, wanted_after) < 1e-3


@pytest.mark.slow("triton")
@pytest.mark.parametrize("lengths", [[20, 1, 0, 16, 33, 7], [3] * 70], ids=["several heads", "many sequences"])
def test_every_chunk_finds_its_sequence_and_its_head(lengths: list[int], device: str) -> None:
    heads, slots = (3 if len(lengths) < 10 else 1), list(range(len(lengths)))
    x, rows = layer(sum(lengths), heads, torch.float16, device), rows_of(lengths, slots, device)
    state = pool(len(lengths), heads, torch.float32, device)
    assert_chunks_compute_the_same(x, state, rows)


def test_chunks_hold_activations_far_beyond_those_of_a_model(device: str) -> None:
    """In one channel of the fastest decay r and k of a thousand: their products leave the range of fp16."""
    x, rows, state = layer(20, 1, torch.float16, device), rows_of([20], [0], device), pool(1, 1, torch.float32, device)
    r, k, _, a, _, w = x.tokens
    r[:, 5], k[:, 5], a[:, 5], w[:, 5] = 1100, 1000, 1, math.exp(time_mix.DECAY)
    x.weights[2][5] = 0  # else the output itself, before any norm, is beyond fp16
    assert_chunks_compute_the_same(x, state, rows)


def test_a_state_that_is_not_a_number_shows_in_chunks_too(device: str) -> None:
    """With the bits that a GPU gives it, whose sum with a rounding would be those of a zero."""
    x, rows, state = layer(20, 1, torch.float16, device), rows_of([20], [0], device), pool(1, 1, torch.float32, device)
    state.view(torch.int32)[0, 0, 3, 4] = 0x7FFFFFFF
    out, after = run(wkv7_chunked.wkv7_chunked, x, state, rows)
    assert out.isnan().all()
    assert after[0, 0, :, 4].isnan().all()


@pytest.mark.gpu
def test_the_sizes_of_a_model(device: str) -> None:
    if device == "cpu":
        pytest.skip("needs a GPU: large shapes")
    for heads, lengths in ((32, [1] * 128), (64, [1] * 7), (12, [200, 1, 57])):
        slots = torch.randperm(2 * len(lengths))[: len(lengths)].tolist()
        x = layer(sum(lengths), heads, torch.float16, device)
        state = pool(2 * len(lengths), heads, torch.float32, device)
        rows = rows_of(lengths, slots, device)
        out, after = run(wkv7.wkv7, x, state, rows)
        wanted, wanted_after = run(wkv7.reference, x, state, rows)
        assert distance(out, wanted) < 2e-3
        assert distance(after, wanted_after) < 1e-5
        in_chunks, after_chunks = run(wkv7_chunked.wkv7_chunked, x, state, rows)
        assert distance(in_chunks, wanted) < 2e-3
        assert distance(after_chunks, wanted_after) < 1e-3
