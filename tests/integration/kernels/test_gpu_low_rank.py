"""The low-rank chains: the formulas, the CPU's arithmetic, and a row's bits in any batch."""

from dataclasses import dataclass

import pytest
import torch
from torch import Tensor

from rwkv_kernels import time_mix
from rwkv_kernels.arithmetic import EXACT
from rwkv_kernels.gpu import low_rank
from rwkv_kernels.gpu.gemm import gemm
from rwkv_kernels.linear import pack

KINDS = [(torch.float16, 2e-3), (torch.float32, 1e-5)]
RANKS = {"w": 64, "a": 40, "v": 32, "g": 136}


@dataclass(frozen=True, slots=True)
class Chains:
    """One layer's matrices and vectors as a checkpoint names them."""

    first: dict[str, Tensor]
    second: dict[str, Tensor]
    bias: dict[str, Tensor]


def chains(width: int, dtype: torch.dtype, device: str, ranks: dict[str, int] = RANKS) -> Chains:
    """Weights of the sizes a model has."""
    chance = torch.Generator().manual_seed(1)

    def normal(*shape: int, spread: float) -> Tensor:
        return (torch.randn(*shape, generator=chance) * spread).to(device, dtype)

    return Chains(
        {name: normal(width, rank, spread=width**-0.5) for name, rank in ranks.items()},
        {name: normal(rank, width, spread=rank**-0.5) for name, rank in ranks.items()},
        {name: torch.randn(width, generator=chance).to(device) for name in ranks if name != "g"},
    )


def planes(rows: int, width: int, dtype: torch.dtype, device: str) -> tuple[Tensor, Tensor, Tensor]:
    """mixed [6, R, D], v and v_first [R, D]."""
    numbers = torch.randn(8, rows, width, generator=torch.Generator().manual_seed(2)).to(device, dtype)
    return numbers[:6], numbers[6], numbers[7]


def run(c: Chains, mixed: Tensor, v: Tensor, v_first: Tensor | None) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return (w, a, v, g) of both launches; outputs are filled with NaN before."""
    down, up = low_rank.pack_down(c.first), low_rank.pack_up(c.second, c.bias)
    rows, width = v.shape
    hidden = torch.full((rows, down.ranks), torch.nan, dtype=v.dtype, device=v.device)
    w = torch.full((rows, width), torch.nan, device=v.device)
    v, a, g = v.clone(), torch.full_like(v, torch.nan), torch.full_like(v, torch.nan)
    low_rank.down(mixed.contiguous(), down, hidden)
    low_rank.up(hidden, up, v, v_first, w, a, g)
    return w, a, v, g


def distance(got: Tensor, wanted: Tensor) -> float:
    return float((got.double() - wanted.double()).norm() / wanted.double().norm())


@pytest.mark.parametrize(("dtype", "tolerance"), KINDS)
@pytest.mark.parametrize("rows", [1, *(pytest.param(rows, marks=pytest.mark.slow("triton")) for rows in (19, 150))])
def test_it_computes_its_formulas(rows: int, dtype: torch.dtype, tolerance: float, device: str) -> None:
    """With tiles that overhang, and ranks of any size."""
    width = 192 if rows == 150 else 384
    c, (mixed, v, v_first) = chains(width, dtype, device), planes(rows, width, dtype, device)
    got = run(c, mixed, v, v_first)
    wanted = low_rank.reference(mixed, low_rank.pack_down(c.first), low_rank.pack_up(c.second, c.bias), v, v_first)
    for name, mine, other in zip(low_rank.CHAINS, got, wanted, strict=True):
        assert distance(mine, other) < tolerance, name


@pytest.mark.parametrize(("dtype", "tolerance"), KINDS)
def test_the_first_layer_has_no_v_chain(dtype: torch.dtype, tolerance: float, device: str) -> None:
    ranks = {name: rank for name, rank in RANKS.items() if name != "v"}
    c, (mixed, v, _) = chains(128, dtype, device, ranks), planes(3, 128, dtype, device)
    got = run(c, mixed, v, None)
    wanted = low_rank.reference(mixed, low_rank.pack_down(c.first), low_rank.pack_up(c.second, c.bias), v, None)
    for mine, other in zip(got, wanted, strict=True):
        assert distance(mine, other) < tolerance
    assert torch.equal(got[2], v)


def test_the_formulas_are_those_of_the_cpu() -> None:
    c, (mixed, v, v_first) = chains(128, torch.float32, "cpu"), planes(16, 128, torch.float32, "cpu")
    wanted = low_rank.reference(mixed, low_rank.pack_down(c.first), low_rank.pack_up(c.second, c.bias), v, v_first)
    middle = {"w": "tanh", "a": "none", "v": "none", "g": "sigmoid"}
    outer = {"w": "sigmoid", "a": "sigmoid", "v": "sigmoid", "g": "none"}
    x_r, x_k, x_v, x_w, x_a, x_g = mixed
    del x_r, x_k
    chain = {
        name: time_mix._chain(
            EXACT, x, (pack(c.first[name].t(), None, middle[name], 0),
                       pack(c.second[name].t(), c.bias.get(name), outer[name], 0)),
        )
        for name, x in (("w", x_w), ("a", x_a), ("v", x_v), ("g", x_g))
    }  # fmt: skip
    mine = (torch.exp(chain["w"] * time_mix.DECAY), chain["a"], v + (v_first - v) * chain["v"], chain["g"])
    for got, other in zip(mine, wanted, strict=True):
        assert distance(got, other) < 1e-5


@pytest.mark.slow("triton")
@pytest.mark.usefixtures("ordered_dot")
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
def test_a_row_has_the_same_bits_in_any_batch(dtype: torch.dtype, device: str) -> None:
    """In every width of tile, at another place."""
    width, ranks = (384, {"w": 32, "a": 24, "v": 32, "g": 72}) if device == "cpu" else (2048, RANKS)
    batches = (2, 17, 40) if device == "cpu" else (2, 3, 7, 16, 17, 33, 34, 70, 129, 2049)
    c, (mixed, v, v_first) = chains(width, dtype, device, ranks), planes(max(batches), width, dtype, device)
    alone = run(c, mixed[:, :1], v[:1], v_first[:1])
    for rows in batches:
        place = rows // 2
        got = run(c, mixed[:, :rows].roll(place, 1), v[:rows].roll(place, 0), v_first[:rows].roll(place, 0))
        for mine, other in zip(got, alone, strict=True):
            assert torch.equal(mine[place], other[0]), rows


@pytest.mark.slow("triton")
@pytest.mark.usefixtures("ordered_dot")
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
@pytest.mark.parametrize("rows", [1, 20])
def test_r_k_v_in_the_same_launch_have_the_bits_of_their_own(rows: int, dtype: torch.dtype, device: str) -> None:
    width = 128 if device == "cpu" else 2048
    down = low_rank.pack_down(chains(width, dtype, device).first)
    mixed = planes(rows, width, dtype, device)[0].contiguous()
    weight = (torch.randn(3, width, width, generator=torch.Generator().manual_seed(3)) * width**-0.5).to(device, dtype)
    ranks, alone = (torch.full((rows, down.ranks), torch.nan, dtype=dtype, device=device) for _ in range(2))
    rkv, own = (torch.full((3, rows, width), torch.nan, dtype=dtype, device=device) for _ in range(2))
    low_rank.down(mixed, down, ranks, weight, rkv)
    low_rank.down(mixed, down, alone)
    gemm(mixed[:3], weight, own)
    assert torch.equal(rkv, own)
    assert torch.equal(ranks, alone)
    assert distance(rkv, mixed[:3].double() @ weight.double().transpose(1, 2)) < dict(KINDS)[dtype]


@pytest.mark.gpu
def test_the_sizes_of_a_model(device: str) -> None:
    if device == "cpu":
        pytest.skip("needs a GPU: large shapes")
    ranks = {"w": 128, "a": 128, "v": 96, "g": 480}
    c = chains(4096, torch.float16, device, ranks)
    down, up = low_rank.pack_down(c.first), low_rank.pack_up(c.second, c.bias)
    for rows in (1, 32, 128, 129, 2000):
        mixed, v, v_first = planes(rows, 4096, torch.float16, device)
        got, wanted = run(c, mixed, v, v_first), low_rank.reference(mixed, down, up, v, v_first)
        for mine, other in zip(got, wanted, strict=True):
            assert distance(mine, other) < 2e-3
