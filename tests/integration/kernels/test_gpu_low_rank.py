"""The low-rank chains: the formulas, the CPU's arithmetic, and a row's bits in any batch."""

from dataclasses import dataclass

import pytest
import torch
from torch import Tensor

from rwkv_kernels import time_mix
from rwkv_kernels.arithmetic import EXACT
from rwkv_kernels.gpu import launch_config, low_rank
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


def run(
    c: Chains, mixed: Tensor, v: Tensor, v_first: Tensor | None, scratch: low_rank.Scratch | None = None
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return (w, a, v, g) of both launches; outputs are filled with NaN before."""
    down, up = low_rank.pack_down(c.first), low_rank.pack_up(c.second, c.bias)
    scratch = scratch or low_rank.Scratch.allocate(down.ranks, v.device)
    rows, width = v.shape
    hidden = torch.full((rows, down.ranks), torch.nan, dtype=v.dtype, device=v.device)
    w = torch.full((rows, width), torch.nan, device=v.device)
    v, a, g = v.clone(), torch.full_like(v, torch.nan), torch.full_like(v, torch.nan)
    low_rank.down(mixed.contiguous(), down, hidden, scratch)
    assert not scratch.arrivals.any()
    low_rank.up(hidden, up, v, v_first, w, a, g)
    return w, a, v, g


def distance(got: Tensor, wanted: Tensor) -> float:
    return float((got.double() - wanted.double()).norm() / wanted.double().norm())


@pytest.mark.parametrize(("dtype", "tolerance"), KINDS)
@pytest.mark.parametrize("rows", [1, *(pytest.param(rows, marks=pytest.mark.slow("triton")) for rows in (19, 150))])
def test_it_computes_its_formulas(rows: int, dtype: torch.dtype, tolerance: float, device: str) -> None:
    """With sums side by side and in turn, tiles that overhang, ranks of any size."""
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
def test_a_row_has_the_same_bits_in_any_batch(dtype: torch.dtype, device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In every width of tile, at another place, with sums side by side and in turn."""
    width, ranks = (384, {"w": 32, "a": 24, "v": 32, "g": 72}) if device == "cpu" else (2048, RANKS)
    monkeypatch.setattr(launch_config, "SIDE_BY_SIDE_ROWS", 33)
    c, (mixed, v, v_first) = chains(width, dtype, device, ranks), planes(70, width, dtype, device)
    alone = run(c, mixed[:, :1], v[:1], v_first[:1])
    for rows in (2, 17, 40) if device == "cpu" else (2, 3, 7, 16, 17, 33, 34, 70):
        place = rows // 2
        got = run(c, mixed[:, :rows].roll(place, 1), v[:rows].roll(place, 0), v_first[:rows].roll(place, 0))
        for mine, other in zip(got, alone, strict=True):
            assert torch.equal(mine[place], other[0]), rows


@pytest.mark.slow("triton")
def test_a_scratch_serves_many_layers(device: str) -> None:
    """One after the other, of other shapes, without being cleared."""
    scratch = low_rank.Scratch.allocate(sum(RANKS.values()), device)
    scratch.parts.fill_(torch.nan)
    for rows, ranks in ((5, RANKS), (1, {"w": 32, "a": 16, "g": 64}), (5, RANKS)):
        c, (mixed, v, v_first) = chains(384, torch.float16, device, ranks), planes(rows, 384, torch.float16, device)
        first = v_first if "v" in ranks else None
        fresh, shared = run(c, mixed, v, first), run(c, mixed, v, first, scratch)
        for mine, other in zip(fresh, shared, strict=True):
            assert torch.equal(mine, other)


def test_every_size_of_a_model_has_its_splits() -> None:
    """The sums side by side fit the scratch, and a chain's tiles keep a good part of the GPU busy."""
    for width, ranks in ((768, (64, 64, 32, 128)), (2048, (96, 96, 64, 256)), (4096, (128, 128, 96, 480))):
        constants, _ = low_rank._down_build(ranks, width, 1, torch.float16)
        assert not constants["SERIAL"]
        assert 1 < constants["SPLITS"] <= launch_config.MOST_SPLITS
        serial, _ = low_rank._down_build(ranks, width, 1000, torch.float16)
        assert serial["SERIAL"]
        assert serial["SPLITS"] == constants["SPLITS"]


@pytest.mark.gpu
def test_the_sizes_of_a_model(device: str) -> None:
    if device == "cpu":
        pytest.skip("needs a GPU: large shapes")
    ranks = {"w": 128, "a": 128, "v": 96, "g": 480}
    c = chains(4096, torch.float16, device, ranks)
    down, up = low_rank.pack_down(c.first), low_rank.pack_up(c.second, c.bias)
    scratch = low_rank.Scratch.allocate(down.ranks, device)
    for rows in (1, 32, 128, 129, 2000):
        mixed, v, v_first = planes(rows, 4096, torch.float16, device)
        got, wanted = run(c, mixed, v, v_first, scratch), low_rank.reference(mixed, down, up, v, v_first)
        for mine, other in zip(got, wanted, strict=True):
            assert distance(mine, other) < 2e-3
        for _ in range(200):  # the programs of a tile arrive in any order
            for mine, other in zip(run(c, mixed, v, v_first, scratch), got, strict=True):
                assert torch.equal(mine, other)
