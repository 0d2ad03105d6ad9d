"""Log-probabilities of given tokens, without the logits: a product with the head that keeps only its softmax sums.

Each program makes one tile of logits and leaves three numbers a row: the greatest logit, the sum of exp(logit -
greatest) and the first id that has it; a target's logit comes from the same accumulator. A second kernel combines a
row's tiles in one fixed tree. The tile's height over the vocabulary is fixed, so a row has the same bits in any batch.
"""

from dataclasses import dataclass
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from rwkv_kernels.gpu import launch_config
from rwkv_kernels.gpu.gemm import GROUP, sum_blocks
from rwkv_kernels.gpu.variant import Variant

NO_ID = tl.constexpr(2**31 - 1)


@dataclass(frozen=True, slots=True)
class Partials:
    """The results of the tiles for each of `rows` rows: [rows, tiles] greatest logit and sum fp32, first best id
    int32."""

    top: Tensor
    total: Tensor
    best: Tensor

    @classmethod
    def allocate(cls, rows: int, vocabulary: int, dtype: torch.dtype, device: torch.device | str) -> "Partials":
        """Allocate the partials of `rows` rows; their number of tiles depends on the type of the activations,
        `dtype`."""
        shape = rows, triton.cdiv(vocabulary, launch_config.logprob_tile(rows, dtype).block_n)
        top, total = (torch.empty(shape, dtype=torch.float32, device=device) for _ in range(2))
        return cls(top, total, torch.empty(shape, dtype=torch.int32, device=device))


@triton.jit(do_not_specialize=["Q", "J"])  # type: ignore[untyped-decorator]
def tiles_kernel(  # type: ignore[no-untyped-def]
    hidden, head, targets, logits, tops, totals, bests, Q, V, D, J, stride_q, stride_v, EVEN_K: tl.constexpr,
    EVEN_N: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_R: tl.constexpr, BLOCK_K: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    """Compute one tile of logits [BLOCK_N ids, BLOCK_R rows]. Grid: (tiles,). `logits` [Q, J] takes the targets'
    logits."""
    tiles_v = tl.cdiv(V, BLOCK_N)
    tiles_q = tl.cdiv(Q, BLOCK_R)
    group = tl.program_id(0) // (GROUP * tiles_q)
    high = min(tiles_v - group * GROUP, GROUP)
    place = tl.program_id(0) % (GROUP * tiles_q)
    tile = group * GROUP + place % high
    first = tile * BLOCK_N
    q = (place // high * BLOCK_R).to(tl.int64)

    in_v = tl.arange(0, BLOCK_N)
    in_q = tl.arange(0, BLOCK_R)
    in_k = tl.arange(0, BLOCK_K)
    live_v = in_v < V - first
    live_q = in_q < Q - q
    w = head + first.to(tl.int64) * stride_v + (in_v[:, None] * stride_v + in_k[None, :])
    x = hidden + q * stride_q + (in_q[None, :] * stride_q + in_k[:, None])
    sums = sum_blocks(w, x, 0, tl.cdiv(D, BLOCK_K), D, 1, live_v, live_q, EVEN_K, EVEN_N, BLOCK_N, BLOCK_R, BLOCK_K)
    if not EVEN_N:
        sums = tl.where(live_v[:, None], sums, float("-inf"))

    top, best = tl.max(sums, 0, return_indices=True)  # of equals the first
    total = tl.sum(tl.exp(sums - top[None, :]), 0)
    at = (q + in_q) * tiles_v + tile
    tl.store(tops + at, top, mask=live_q)
    tl.store(totals + at, total, mask=live_q)
    tl.store(bests + at, first + best, mask=live_q)

    for j in range(J):
        target = tl.load(targets + (q + in_q) * J + j, mask=live_q, other=-1).to(tl.int32) - first
        mine = (target >= 0) & (target < BLOCK_N)
        logit = tl.sum(tl.where(in_v[:, None] == target[None, :], sums, 0.0), 0)
        tl.store(logits + (q + in_q) * J + j, logit, mask=mine)


@triton.jit(do_not_specialize=["J"])  # type: ignore[untyped-decorator]
def combine_kernel(  # type: ignore[no-untyped-def]
    targets, tops, totals, bests, logprobs, best_out, tiles, J, TILES: tl.constexpr,
):  # fmt: skip
    """Combine the tiles of one row. Grid: (Q,). `logprobs` [Q, J] holds the targets' logits and takes their
    log-probabilities."""
    q = tl.program_id(0).to(tl.int64)
    tile = tl.arange(0, TILES)
    live = tile < tiles
    tile_top = tl.load(tops + q * tiles + tile, mask=live, other=float("-inf"))
    top = tl.max(tile_top, 0)
    best = tl.load(bests + q * tiles + tile, mask=live, other=NO_ID)
    tl.store(best_out + q, tl.min(tl.where(tile_top == top, best, NO_ID), 0))
    total = tl.sum(tl.load(totals + q * tiles + tile, mask=live, other=0.0) * tl.exp(tile_top - top), 0)
    rest = tl.log(total)
    for j in range(J):
        at = q * J + j
        given = tl.load(targets + at) >= 0
        logit = tl.load(logprobs + at, mask=given, other=0.0)
        tl.store(logprobs + at, tl.where(given, (logit - top) - rest, 0.0))


def target_logprobs(
    hidden: Tensor, head: Tensor, targets: Tensor, out_logprobs: Tensor, out_best: Tensor,
    partials: Partials | None = None,
) -> None:  # fmt: skip
    """Compute log p(target | row) for up to J targets a row, and each row's most likely id (the lowest among equals).

    hidden [Q, D] and head [V, D] of fp16 or fp32, D contiguous; targets [Q, J] int64, -1 where there is none (its
    log-probability is given as 0); out_logprobs [Q, J] fp32; out_best [Q] int32. `partials` for Q rows or more: with
    them nothing is allocated here.
    """
    rows, width = hidden.shape
    vocabulary, many = head.shape[0], targets.shape[1]
    assert hidden.stride(1) == head.stride(1) == 1
    assert hidden.dtype == head.dtype
    assert targets.is_contiguous()
    assert out_logprobs.is_contiguous()
    held = partials or Partials.allocate(rows, vocabulary, hidden.dtype, hidden.device)
    constants, options = _build(vocabulary, width, rows, hidden.dtype)
    tiles = triton.cdiv(vocabulary, constants["BLOCK_N"])
    assert held.top.shape[0] >= rows
    assert held.top.shape[1] == tiles
    tiles_kernel[(tiles * triton.cdiv(rows, constants["BLOCK_R"]),)](
        hidden, head, targets, out_logprobs, held.top, held.total, held.best, rows, vocabulary, width, many,
        hidden.stride(0), head.stride(0), **constants, **options,
    )  # fmt: skip
    combine_kernel[(rows,)](
        targets, held.top, held.total, held.best, out_logprobs, out_best, tiles, many,
        TILES=triton.next_power_of_2(tiles), num_warps=launch_config.COMBINE_WARPS,
    )  # fmt: skip


def _build(vocabulary: int, width: int, rows: int, dtype: torch.dtype) -> tuple[dict[str, Any], dict[str, int]]:
    """Return the kernel's constants, and the launch options, for one shape."""
    tile, step = launch_config.logprob_tile(rows, dtype), launch_config.block_k(dtype)
    constants = {
        "EVEN_K": width % step == 0, "EVEN_N": vocabulary % tile.block_n == 0, "BLOCK_N": tile.block_n,
        "BLOCK_R": tile.block_r, "BLOCK_K": step, "GROUP": GROUP,
    }  # fmt: skip
    return constants, {"num_warps": tile.warps, "num_stages": tile.stages}


def reference(hidden: Tensor, head: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """Compute the same in plain torch: log-probabilities [Q, J] and best ids [Q]."""
    logits = hidden.float() @ head.float().T
    picked = torch.log_softmax(logits, -1).gather(1, targets.clamp(min=0))
    return torch.where(targets >= 0, picked, 0.0), logits.argmax(-1).int()


def variants() -> list[Variant]:
    """Return the variants to compile: the head of 1.5B and 7.2B with one row, many rows, fp32."""
    half, full = torch.float16, torch.float32
    shapes = [(2048, 1, half), (2048, 64, half), (4096, 4096, half), (2048, 64, full)]
    kinds = {"targets": "*i64:16", "logits": "*fp32:16", "tops": "*fp32:16", "totals": "*fp32:16", "bests": "*i32:16"}
    found = []
    for width, rows, dtype in shapes:
        kind = "fp16" if dtype == half else "fp32"
        constants, options = _build(65536, width, rows, dtype)
        signature = {"hidden": f"*{kind}:16", "head": f"*{kind}:16", "Q": "i32", "V": "i32:16", "D": "i32:16"}
        signature |= {"J": "i32", "stride_q": "i32:16", "stride_v": "i32:16"} | kinds
        name = f"logprobs {kind} [{rows}, {width}] x [65536, {width}]"
        found.append(Variant(name, tiles_kernel, signature, constants, options, wgmma=dtype == half))
    signature = {"targets": "*i64:16", "tops": "*fp32:16", "totals": "*fp32:16", "bests": "*i32:16"}
    signature |= {"logprobs": "*fp32:16", "best_out": "*i32:16", "tiles": "i32:16", "J": "i32"}
    options = {"num_warps": launch_config.COMBINE_WARPS}
    return [*found, Variant("logprobs combine", combine_kernel, signature, {"TILES": 512}, options)]
