"""The four low-rank chains of the time mix: decay w, rate a, value gate v and output gate g, two launches a layer.

    down:  h = x_w w1, x_a a1, x_v v1, x_g g1, side by side; tanh on w's, sigmoid on g's
    up:    w = exp(-exp(-0.5) * sigmoid(w0 + h w2));  a = sigmoid(a0 + h a2);  g = h g2
           v <- v + (v_first - v) * sigmoid(v0 + h v2)                                   (not in the first layer)

Source of the formulas: BlinkDL/RWKV-LM, RWKV-v7/rwkv_v7_numpy.py.

As in gemm, the weights' rows are the M of the matrix instruction and only the tile's width follows R. With few rows the
ranks alone make too few tiles for a GPU, and r, k and v, which have the same inputs, leave some of its multiprocessors
idle: `down` then computes both in one launch.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from rwkv_kernels.gpu import launch_config
from rwkv_kernels.gpu.dependent_launch import await_inputs, overlap
from rwkv_kernels.gpu.gemm import sum_blocks
from rwkv_kernels.gpu.variant import Variant

CHAINS = "wavg"
DECAY = -math.exp(-0.5)
SIZES = {"count": "i32", "width": "i32:16"}


@dataclass(frozen=True, slots=True)
class Down:
    """First matrices of the chains, [all ranks, D]; `chains`: the rank of each of w a v g, 0 for a missing v."""

    weight: Tensor
    chains: tuple[int, int, int, int]

    @property
    def ranks(self) -> int:
        return sum(self.chains)


@dataclass(frozen=True, slots=True)
class Up:
    """Second matrices, [D, all ranks], and the biases [3, D] of w a v in fp32."""

    weight: Tensor
    bias: Tensor
    chains: tuple[int, int, int, int]


def pack_down(weights: Mapping[str, Tensor]) -> Down:
    """Pack the matrices w1, a1, g1 and, except in the first layer, v1, given as "w", "a", "g", "v", each [D, rank]."""
    return Down(
        torch.cat([weights[name].t() for name in CHAINS if name in weights]).contiguous(), _chains(weights, axis=1)
    )


def pack_up(weights: Mapping[str, Tensor], biases: Mapping[str, Tensor]) -> Up:
    """Pack the chains' second matrices, each [rank, D], and the vectors w0, a0 and v0, given as "w", "a", "v"."""
    weight = torch.cat([weights[name] for name in CHAINS if name in weights]).t().contiguous()
    bias = torch.stack([biases.get(name, torch.zeros_like(biases["w"])) for name in "wav"])
    return Up(weight, bias.float(), _chains(weights, axis=0))


def _chains(weights: Mapping[str, Tensor], axis: int) -> tuple[int, int, int, int]:
    w, a, v, g = (weights[name].shape[axis] if name in weights else 0 for name in CHAINS)
    return w, a, v, g


def down(
    mixed: Tensor, weights: Down, out: Tensor, rkv_weight: Tensor | None = None, rkv: Tensor | None = None
) -> None:
    """Compute what the chains have between their two matrices.

    mixed: [6, R, D], planes r k v w a g; out: [R, all ranks] of the same type.

    With rkv_weight [3, D, D], the same launch computes rkv [3, R, D], the products of the first three planes, with the
    bits of `gemm`.
    """
    _, count, width = mixed.shape
    planes = 0 if rkv_weight is None else 3
    constants, options = _down_build(weights.chains, count, mixed.dtype, planes)
    tiles = sum(triton.cdiv(rank, constants["BLOCK_N"]) for rank in (*weights.chains, *planes * [width]))
    _down[(tiles * triton.cdiv(count, constants["BLOCK_R"]),)](
        mixed, weights.weight, out, weights.weight if rkv_weight is None else rkv_weight, out if rkv is None else rkv,
        count, width, **constants, **options, **overlap(count),
    )  # fmt: skip


def up(
    hidden: Tensor, weights: Up, v: Tensor, v_first: Tensor | None, w_out: Tensor, a_out: Tensor, g_out: Tensor
) -> None:
    """Compute the results of the chains.

    hidden: [R, all ranks] from `down`; v: [R, D], changed in place where there is a v chain; v_first: [R, D], or
    None where there is none; w_out: [R, D] fp32; a_out, g_out: [R, D]. All but w_out are of hidden's type.
    """
    count, width = a_out.shape
    assert (v_first is None) == (weights.chains[2] == 0)
    constants, options = _up_build(weights.chains, count, hidden.dtype)
    tiles = triton.cdiv(width, launch_config.MATRIX_ROWS) * triton.cdiv(count, constants["BLOCK_R"])
    _up[tiles, 3 if v_first is None else 4](
        hidden, weights.weight, weights.bias, v, v if v_first is None else v_first, w_out, a_out, g_out, count, width,
        **constants, **options, **overlap(count),
    )  # fmt: skip


def _down_build(
    chains: tuple[int, int, int, int], rows: int, dtype: torch.dtype, planes: int
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The kernel's constants, and the launch options, for one shape."""
    tile = launch_config.down_tile(rows, dtype)
    constants = _ranks(chains) | {
        "PLANES": planes, "BLOCK_N": tile.block_n, "BLOCK_R": tile.block_r, "BLOCK_K": launch_config.block_k(dtype),
    }  # fmt: skip
    return constants, {"num_warps": tile.warps, "num_stages": tile.stages}


def _up_build(
    chains: tuple[int, int, int, int], rows: int, dtype: torch.dtype
) -> tuple[dict[str, Any], dict[str, Any]]:
    block_r, options = launch_config.up_tile(rows, dtype)
    blocks = {"BLOCK_N": launch_config.MATRIX_ROWS, "BLOCK_R": block_r, "BLOCK_K": launch_config.block_k(dtype)}
    return _ranks(chains) | blocks | {"DECAY": DECAY}, options


def _ranks(chains: tuple[int, int, int, int]) -> dict[str, Any]:
    return {f"RANK_{name.upper()}": rank for name, rank in zip(CHAINS, chains, strict=True)}


def variants() -> list[Variant]:
    """Return the variants to compile: both launches at 1.5B and 7.2B with few rows, r, k and v in the same launch, and
    with more; the first layer; fp32."""
    half, full = torch.float16, torch.float32
    small, large = (96, 96, 64, 256), (128, 128, 96, 480)
    shapes = [(small, 2048, 1, half), (large, 4096, 1, half), (large, 4096, 64, half), (large, 4096, 128, half),
              (large, 4096, 1024, half), ((128, 128, 0, 480), 4096, 1024, half), (small, 2048, 64, full)]  # fmt: skip
    return [make(*shape) for shape in shapes for make in (_down_variant, _up_variant)]


def _down_variant(chains: tuple[int, int, int, int], width: int, rows: int, dtype: torch.dtype) -> Variant:
    constants, options = _down_build(chains, rows, dtype, 3 if rows <= launch_config.JOINT_ROWS else 0)
    kind = "*fp16:16" if dtype == torch.float16 else "*fp32:16"
    signature = dict.fromkeys(("mixed", "weight", "out", "rkv_weight", "rkv"), kind)
    name = f"low_rank down {kind[1:5]} [{rows}, {width}] {chains}"
    return Variant(name, _down, signature | SIZES, constants, options, wgmma=dtype == torch.float16)


def _up_variant(chains: tuple[int, int, int, int], width: int, rows: int, dtype: torch.dtype) -> Variant:
    constants, options = _up_build(chains, rows, dtype)
    kind = "*fp16:16" if dtype == torch.float16 else "*fp32:16"
    signature = dict.fromkeys(("hidden", "weight", "v", "v_first", "a_out", "g_out"), kind)
    signature |= {"bias": "*fp32:16", "w_out": "*fp32:16"}
    name = f"low_rank up {kind[1:5]} [{rows}, {width}] {chains}"
    return Variant(name, _up, signature | SIZES, constants, options, wgmma=dtype == torch.float16)


@triton.jit  # type: ignore[untyped-decorator]
def _pick(chain, w: tl.constexpr, a: tl.constexpr, v: tl.constexpr, g: tl.constexpr):  # type: ignore[no-untyped-def]
    return tl.where(chain == 0, w, tl.where(chain == 1, a, tl.where(chain == 2, v, g)))


@triton.jit
def _sigmoid(x):  # type: ignore[no-untyped-def]
    return 1.0 / (1.0 + tl.exp(-x))


@triton.jit(do_not_specialize=["count"])  # type: ignore[untyped-decorator]
def _down(  # type: ignore[no-untyped-def]
    mixed, weight, out, rkv_weight, rkv, count, width,
    RANK_W: tl.constexpr, RANK_A: tl.constexpr, RANK_V: tl.constexpr, RANK_G: tl.constexpr, PLANES: tl.constexpr,
    BLOCK_N: tl.constexpr, BLOCK_R: tl.constexpr, BLOCK_K: tl.constexpr, OVERLAP: tl.constexpr,
):  # fmt: skip
    """Compute one tile of one chain or, where there are PLANES, of r, k or v."""
    A: tl.constexpr = (RANK_W + BLOCK_N - 1) // BLOCK_N
    V: tl.constexpr = A + (RANK_A + BLOCK_N - 1) // BLOCK_N
    G: tl.constexpr = V + (RANK_V + BLOCK_N - 1) // BLOCK_N
    CHAINED: tl.constexpr = G + (RANK_G + BLOCK_N - 1) // BLOCK_N
    RANKS: tl.constexpr = RANK_W + RANK_A + RANK_V + RANK_G
    across = tl.cdiv(width, BLOCK_N)
    tiles = CHAINED + PLANES * across
    tile = tl.program_id(0) % tiles
    r = tl.program_id(0) // tiles * BLOCK_R + tl.arange(0, BLOCK_R)
    live_r = r < count
    wide = width.to(tl.int64)
    in_k = tl.arange(0, BLOCK_K)

    chained = (PLANES == 0) | (tile < CHAINED)
    chain = (tile >= A).to(tl.int32) + (tile >= V).to(tl.int32) + (tile >= G).to(tl.int32)
    if chained:
        plane = _pick(chain, 3, 4, 2, 5)
        n = (tile - _pick(chain, 0, A, V, G)) * BLOCK_N + tl.arange(0, BLOCK_N)
        live_n = n < _pick(chain, RANK_W, RANK_A, RANK_V, RANK_G)
        n += _pick(chain, 0, RANK_W, RANK_W + RANK_A, RANK_W + RANK_A + RANK_V)
        rows = weight
    else:
        plane = (tile - CHAINED) // across
        n = (tile - CHAINED) % across * BLOCK_N + tl.arange(0, BLOCK_N)
        live_n = n < width
        rows = rkv_weight + plane * (wide * wide)
    w = rows + n[:, None] * wide + in_k[None, :]
    x = mixed + plane * (wide * count) + (r[None, :] * wide + in_k[:, None])
    live = live_n[:, None] & live_r[None, :]
    await_inputs(OVERLAP)
    sums = sum_blocks(w, x, 0, width // BLOCK_K, width, 1, live_n, live_r, True, False, BLOCK_N, BLOCK_R, BLOCK_K)
    if chained:
        if chain == 0:
            sums = 1.0 - 2.0 / (1.0 + tl.exp(2.0 * sums))
        if chain == 3:
            sums = _sigmoid(sums)
        tl.store(out + r[None, :].to(tl.int64) * RANKS + n[:, None], sums.to(out.dtype.element_ty), mask=live)
    else:
        tl.store(
            rkv + plane * (wide * count) + (r[None, :] * wide + n[:, None]), sums.to(rkv.dtype.element_ty), mask=live
        )


@triton.jit(do_not_specialize=["count"])  # type: ignore[untyped-decorator]
def _up(  # type: ignore[no-untyped-def]
    hidden, weight, bias, v, v_first, w_out, a_out, g_out, count, width,
    RANK_W: tl.constexpr, RANK_A: tl.constexpr, RANK_V: tl.constexpr, RANK_G: tl.constexpr, DECAY: tl.constexpr,
    BLOCK_N: tl.constexpr, BLOCK_R: tl.constexpr, BLOCK_K: tl.constexpr, OVERLAP: tl.constexpr,
):  # fmt: skip
    """Compute one tile of one chain; the longest chain, g, starts first."""
    RANKS: tl.constexpr = RANK_W + RANK_A + RANK_V + RANK_G
    chain = (tl.program_id(1) + 3) % 4
    rank = _pick(chain, RANK_W, RANK_A, RANK_V, RANK_G)
    start = _pick(chain, 0, RANK_W, RANK_W + RANK_A, RANK_W + RANK_A + RANK_V)
    tiles = tl.cdiv(width, BLOCK_N)
    n = tl.program_id(0) % tiles * BLOCK_N + tl.arange(0, BLOCK_N)
    r = tl.program_id(0) // tiles * BLOCK_R + tl.arange(0, BLOCK_R)
    live = r[None, :] < count
    in_k = tl.arange(0, BLOCK_K)
    w = weight + start + n[:, None] * RANKS + in_k[None, :]
    h = hidden + start + (r[None, :].to(tl.int64) * RANKS + in_k[:, None])
    await_inputs(OVERLAP)
    sums = tl.zeros((BLOCK_N, BLOCK_R), tl.float32)
    for k in range(0, rank, BLOCK_K):
        live_k = in_k < rank - k
        w_tile = tl.load(w + k, mask=live_k[None, :], other=0.0)
        h_tile = tl.load(h + k, mask=live_k[:, None] & live, other=0.0)
        sums = tl.dot(w_tile, h_tile, sums, input_precision="ieee")

    at = r[None, :] * width.to(tl.int64) + n[:, None]
    live = live & (n[:, None] < width)
    if chain == 3:
        tl.store(g_out + at, sums.to(g_out.dtype.element_ty), mask=live)
    else:
        share = _sigmoid(sums + tl.load(bias + chain * width + n)[:, None])
        if chain == 0:
            tl.store(w_out + at, tl.exp(share * DECAY), mask=live)
        elif chain == 1:
            tl.store(a_out + at, share.to(a_out.dtype.element_ty), mask=live)
        elif RANK_V > 0:
            own = tl.load(v + at, mask=live, other=0.0).to(tl.float32)
            first = tl.load(v_first + at, mask=live, other=0.0).to(tl.float32)
            tl.store(v + at, (own + (first - own) * share).to(v.dtype.element_ty), mask=live)


def reference(
    mixed: Tensor, down: Down, up: Up, v: Tensor, v_first: Tensor | None
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return (w, a, v, g) in float64: both launches' formulas, without rounding between them."""
    w1, a1, v1, g1 = down.weight.double().split(down.chains)  # type: ignore[no-untyped-call]
    w2, a2, v2, g2 = up.weight.double().split(up.chains, 1)  # type: ignore[no-untyped-call]
    w0, a0, v0 = up.bias.double()
    _, _, x_v, x_w, x_a, x_g = mixed.double()
    w = torch.exp(DECAY * torch.sigmoid(w0 + torch.tanh(x_w @ w1.t()) @ w2.t()))
    a = torch.sigmoid(a0 + x_a @ a1.t() @ a2.t())
    g = torch.sigmoid(x_g @ g1.t()) @ g2.t()
    mine = v.double()
    if v_first is not None:
        mine = mine + (v_first.double() - mine) * torch.sigmoid(v0 + x_v @ v1.t() @ v2.t())
    return w, a, mine, g
