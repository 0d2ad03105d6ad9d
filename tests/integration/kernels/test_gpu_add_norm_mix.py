"""Residual sum, LayerNorm and token shift: formulas, the CPU's arithmetic, and equal bits in any batch and chunking."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from rwkv_kernels import norm, token_shift
from rwkv_kernels.gpu import add_norm_mix as gpu
from rwkv_kernels.gpu import launch_config
from rwkv_kernels.gpu.row_layout import Rows

KINDS = [(torch.float16, 2e-3), (torch.float32, 1e-5)]


@dataclass(frozen=True, slots=True)
class Step:
    """The inputs of one layer's mix: x [R, D], delta [S, R, D] or None, norm, shares [M, D]."""

    x: Tensor
    delta: Tensor | None
    norm: norm.Norm
    shares: Tensor

    def rows(self, first: int, end: int) -> "Step":
        delta = None if self.delta is None else self.delta[:, first:end].contiguous()
        return Step(self.x[first:end].contiguous(), delta, self.norm, self.shares)


def step(count: int, width: int, device: str, *, parts: int = 1, planes: int = 6, seed: int = 0) -> Step:
    """Random rows whose mean is not zero."""
    chance = torch.Generator().manual_seed(seed)
    x = torch.randn(count, width, generator=chance) * 3 + 1
    delta = torch.randn(parts, count, width, generator=chance) if parts else None
    weight, bias = 1 + 0.1 * torch.randn(width, generator=chance), 0.1 * torch.randn(width, generator=chance)
    shares = torch.rand(planes, width, generator=chance)
    return Step(
        x.to(device), None if delta is None else delta.to(device), norm.Norm(weight.to(device), bias.to(device)),
        shares.to(device),
    )  # fmt: skip


def rows_of(lengths: Sequence[int], slots: Sequence[int], device: str) -> Rows:
    """The rows of sequences of these lengths in these slots."""
    starts = torch.tensor([0, *lengths]).cumsum(0)
    row_slot = torch.tensor(slots).repeat_interleave(torch.tensor(lengths))
    edge = torch.zeros(int(starts[-1]), dtype=torch.int8)
    edge[starts[:-1]] |= 1
    edge[starts[1:] - 1] |= 2
    return Rows(
        row_slot.to(device, torch.int32), edge.to(device), starts.to(device, torch.int32),
        torch.tensor(slots, dtype=torch.int32, device=device), decode=max(lengths) == 1,
    )  # fmt: skip


def pool(slots: int, width: int, device: str) -> Tensor:
    """The shift of one layer: a view whose slots lie apart."""
    return torch.randn(slots, 4, width, generator=torch.Generator().manual_seed(9)).to(device)[:, 2]


def run(
    kernel: Callable[..., None], s: Step, shift: Tensor, rows: Rows, dtype: torch.dtype
) -> tuple[Tensor, Tensor, Tensor]:
    """Return (out, x_out, shift after); outputs are filled with NaN before."""
    out = torch.full((s.shares.shape[0], *s.x.shape), torch.nan, dtype=dtype, device=s.x.device)
    x_out = torch.full_like(s.x, torch.nan)
    after = torch.empty_strided(shift.shape, shift.stride(), device=shift.device).copy_(shift)
    kernel(s.x, s.delta, s.norm.weight, s.norm.bias, norm.LAYER_EPS, s.shares, after, rows, x_out, out)
    return out, x_out, after


def distance(got: Tensor, wanted: Tensor) -> float:
    return float((got.double() - wanted.double()).norm() / wanted.double().norm())


@pytest.mark.parametrize(("dtype", "tolerance"), KINDS)
@pytest.mark.parametrize("lengths", [[1, 1, 1], [1, 4, 2]], ids=["decode", "prompts"])
@pytest.mark.parametrize(("width", "parts", "planes"), [(128, 0, 6), (192, 1, 6), (128, 4, 1), (768, 2, 6)])
def test_it_computes_its_formulas(
    width: int, parts: int, planes: int, lengths: list[int], dtype: torch.dtype, tolerance: float, device: str
) -> None:
    s, rows = step(sum(lengths), width, device, parts=parts, planes=planes), rows_of(lengths, [3, 0, 2], device)
    shift = pool(5, width, device)
    out, x_out, after = run(gpu.add_norm_mix, s, shift, rows, dtype)
    wanted, wanted_x, wanted_after = run(gpu.reference, s, shift, rows, dtype)
    assert distance(out, wanted) < tolerance
    assert distance(x_out, wanted_x) < 1e-6
    assert distance(after, wanted_after) < 1e-6
    assert torch.equal(after[[1, 4]], shift[[1, 4]])


def test_the_formulas_are_those_of_the_cpu() -> None:
    s, rows, shift = step(4, 128, "cpu"), rows_of([3, 1], [1, 0], "cpu"), pool(2, 128, "cpu")
    wanted, _, after = run(gpu.reference, s, shift, rows, torch.float32)
    assert s.delta is not None
    xx = norm.layer_norm(s.x + s.delta[0], s.norm)
    before = torch.stack((shift[1], xx[0], xx[1], shift[0]))
    assert distance(token_shift.mix(xx, before, s.shares[:, None]), wanted) < 1e-6
    assert distance(xx[[3, 2]], after) < 1e-6


@pytest.mark.slow("triton")
@settings(max_examples=6, deadline=None)
@given(cuts=st.sets(st.integers(1, 7)), stretch=st.integers(1, 5), parts=st.sampled_from([0, 1, 3]))
def test_a_prompt_has_the_same_bits_however_it_is_cut(cuts: set[int], stretch: int, parts: int, device: str) -> None:
    """Whole, in pieces, token by token, and with any number of rows to a program."""
    s, shift = step(8, 128, device, parts=parts), pool(3, 128, device)
    whole, whole_x, after = run(gpu.add_norm_mix, s, shift, rows_of([8], [1], device), torch.float16)
    edges = [0, *sorted(cuts), 8]
    pieces, pieces_x, piecewise = [], [], shift
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(launch_config, "stretch", lambda _: stretch)
        for first, end in pairwise(edges):
            rows = rows_of([end - first], [1], device)
            out, x_out, piecewise = run(gpu.add_norm_mix, s.rows(first, end), piecewise, rows, torch.float16)
            pieces.append(out)
            pieces_x.append(x_out)
    assert torch.equal(torch.cat(pieces, 1), whole)
    assert torch.equal(torch.cat(pieces_x), whole_x)
    assert torch.equal(piecewise, after)


def test_a_sequence_has_the_same_bits_in_any_company(device: str) -> None:
    width = 128 if device == "cpu" else 2560
    s, shift = step(9, width, device, parts=2), pool(6, width, device)
    shift[5] = shift[2]
    alone = run(gpu.add_norm_mix, s.rows(4, 8), shift, rows_of([4], [2], device), torch.float32)
    among = run(gpu.add_norm_mix, s, shift, rows_of([1, 3, 4, 1], [4, 0, 5, 1], device), torch.float32)
    assert torch.equal(among[0][:, 4:8], alone[0])
    assert torch.equal(among[1][4:8], alone[1])
    assert torch.equal(among[2][5], alone[2][2])


def test_partial_sums_are_added_from_left_to_right(device: str) -> None:
    """A split product and its sum made beforehand give the same bits."""
    width = 192 if device == "cpu" else 4096
    split, shift, rows = step(3, width, device, parts=4), pool(3, width, device), rows_of([1, 1, 1], [0, 1, 2], device)
    assert split.delta is not None
    whole = ((split.delta[0] + split.delta[1]) + split.delta[2]) + split.delta[3]
    got = run(gpu.add_norm_mix, split, shift, rows, torch.float16)
    wanted = run(gpu.add_norm_mix, Step(split.x, whole[None], split.norm, split.shares), shift, rows, torch.float16)
    for mine, other in zip(got, wanted, strict=True):
        assert torch.equal(mine, other)


def test_increments_may_be_halves(device: str) -> None:
    s, shift, rows = step(2, 128, device), pool(2, 128, device), rows_of([2], [0], device)
    assert s.delta is not None
    half = Step(s.x, s.delta.half(), s.norm, s.shares)
    out, x_out, _ = run(gpu.add_norm_mix, half, shift, rows, torch.float16)
    wanted, wanted_x, _ = run(gpu.reference, half, shift, rows, torch.float16)
    assert distance(out, wanted) < 2e-3
    assert distance(x_out, wanted_x) < 1e-6


@pytest.mark.parametrize(("dtype", "tolerance"), KINDS)
def test_the_norm_before_the_head(dtype: torch.dtype, tolerance: float, device: str) -> None:
    """Of all rows, or of some in any order; a row's bits do not depend on which others are asked for."""
    s = step(5, 192, device, parts=2)
    assert s.delta is not None
    whole = torch.full((5, 192), torch.nan, dtype=dtype, device=device)
    gpu.add_norm(s.x, s.delta, s.norm.weight, s.norm.bias, norm.LAYER_EPS, None, whole)
    assert distance(whole, norm.layer_norm(s.x + s.delta.sum(0), s.norm)) < tolerance
    index = torch.tensor([4, 0, 4], dtype=torch.int32, device=device)
    some = torch.full((3, 192), torch.nan, dtype=dtype, device=device)
    gpu.add_norm(s.x, s.delta, s.norm.weight, s.norm.bias, norm.LAYER_EPS, index, some)
    assert torch.equal(some, whole[index.long()])


@pytest.mark.parametrize("lengths", [[1, 1, 1], [1, 4, 2]], ids=["decode", "prompts"])
def test_the_last_increment_is_added_and_each_last_row_is_kept(lengths: list[int], device: str) -> None:
    """Parts from left to right and then the residual, as the other passes add them."""
    s, rows = step(sum(lengths), 192, device, parts=3), rows_of(lengths, [3, 0, 2], device)
    assert s.delta is not None
    hidden = torch.full((4, 192), torch.nan, device=device)
    wanted = s.x + ((s.delta[0] + s.delta[1]) + s.delta[2])
    gpu.add_last(s.x, s.delta, rows, hidden)
    assert torch.equal(s.x, wanted)
    assert torch.equal(hidden[[3, 0, 2]], wanted[(rows.starts[1:] - 1).long()])
    assert hidden[1].isnan().all()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_the_norm_of_the_embedding(dtype: torch.dtype, device: str) -> None:
    table = torch.randn(257, 192, generator=torch.Generator().manual_seed(0)).to(device, dtype)
    weights = step(1, 192, device).norm
    ids = torch.tensor([256, 0, 3, 256], device=device)
    out = torch.full((4, 192), torch.nan, device=device)
    gpu.embed_norm(ids, table, weights.weight, weights.bias, norm.LAYER_EPS, out)
    assert distance(out, norm.layer_norm(table[ids].float(), weights)) < 1e-6


@pytest.mark.gpu
def test_the_sizes_of_a_model(device: str) -> None:
    if device == "cpu":
        pytest.skip("needs a GPU: large shapes")
    for width, lengths in ((4096, [1] * 64), (2048, [1300, 1, 57]), (768, [3000])):
        slots = list(range(len(lengths)))
        s, rows = step(sum(lengths), width, device, parts=4), rows_of(lengths, slots, device)
        shift = pool(len(lengths), width, device)
        got, wanted = (run(kernel, s, shift, rows, torch.float16) for kernel in (gpu.add_norm_mix, gpu.reference))
        assert distance(got[0], wanted[0]) < 2e-3
        assert distance(got[2], wanted[2]) < 1e-5
