"""Matrix products of many rows on Hopper: a program for each multiprocessor, which computes one tile after the other.

The tiles are copied by the tensor memory accelerator, and those of the next result while the present one is stored.
An element has the bits of `gemm`: the same blocks of K in the same order, the weights' rows as the M of the matrix
instruction.
"""

from functools import cache
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from triton.tools.tensor_descriptor import TensorDescriptor

from rwkv_kernels.gpu import launch_config
from rwkv_kernels.gpu.variant import Variant

MOST_FP16 = tl.constexpr(65504.0)
GROUP = 16  # tiles of weights that share a batch tile while it is in L2
ALIGNED = 16  # bytes, of addresses and of all strides but the last


def suits(x: Tensor, w: Tensor, out: Tensor, splits: int) -> bool:
    """Whether this product is faster here than in `gemm`, on a GPU that can do it."""
    rows, k = x.shape[1:]
    return (
        rows >= launch_config.PERSISTENT_ROWS
        and x.dtype == torch.float16
        and k % launch_config.block_k(x.dtype) == 0
        and _tiles(out, splits) >= launch_config.PERSISTENT_TILES
        and _supported()
        and all(map(_aligned, (x, w, out)))
    )


def _tiles(out: Tensor, splits: int) -> int:
    planes, rows, n = out.shape
    tile = launch_config.persistent_tile(n, rows, out.dtype, splits)
    return planes * int(triton.cdiv(n, tile.block_n)) * int(triton.cdiv(rows, tile.block_r))


@cache
def _supported() -> bool:
    """Whether this is a GPU of the Hopper generation, for whose shared memory and matrix unit the tiles are chosen."""
    return torch.cuda.is_available() and not torch.version.hip and torch.cuda.get_device_capability()[0] == 9


@cache
def _multiprocessors(device: torch.device) -> int:
    """Return their number; in the interpreter, one of a GPU."""
    if device.type != "cuda":
        return launch_config.PROGRAMS
    return int(torch.cuda.get_device_properties(device).multi_processor_count)


def _aligned(tensor: Tensor) -> bool:
    steps = [stride * tensor.element_size() for stride in tensor.stride() if stride != 1]
    return tensor.data_ptr() % ALIGNED == 0 and all(step % ALIGNED == 0 for step in steps)


def gemm_persistent(x: Tensor, w: Tensor, out: Tensor, *, relu2: bool, splits: int) -> None:
    """Compute the same as `gemm` of fp16 tensors in the same layouts, splits one after the other.

    x [G, R, K], w [G, N, K] (or a transposed view), out [G, R, N] fp16 or fp32, addresses and strides as `suits` asks.
    """
    planes, rows, k = x.shape
    n = w.shape[1]
    transposed = w.stride(2) != 1
    constants, options = _build(n, rows, out.dtype, splits, relu2=relu2, transposed=transposed)
    block_n, block_r, block_k = (constants[f"BLOCK_{name}"] for name in "NRK")
    stored = w.transpose(1, 2) if transposed else w
    programs = min(_multiprocessors(x.device), _tiles(out, splits))
    _gemm_persistent[(programs,)](
        TensorDescriptor.from_tensor(x, [1, block_r, block_k]),
        TensorDescriptor.from_tensor(stored, [1, block_k, block_n] if transposed else [1, block_n, block_k]),
        TensorDescriptor.from_tensor(out, [1, block_r, block_n]),
        planes, rows, n, k, **constants, **options,
    )  # fmt: skip


def _build(
    n: int, rows: int, out: torch.dtype, splits: int, *, relu2: bool, transposed: bool
) -> tuple[dict[str, Any], dict[str, int]]:
    """Return the kernel's constants, and the launch options."""
    tile = launch_config.persistent_tile(n, rows, out, splits)
    constants = {
        "SPLITS": splits, "RELU2": relu2, "TRANSPOSED": transposed, "BLOCK_N": tile.block_n, "BLOCK_R": tile.block_r,
        "BLOCK_K": launch_config.block_k(torch.float16), "GROUP": GROUP,
    }  # fmt: skip
    return constants, {"num_warps": tile.warps, "num_stages": tile.stages}


@triton.jit  # type: ignore[untyped-decorator]
def _sum(  # type: ignore[no-untyped-def]
    w, x, plane, n, r, first, last, TRANSPOSED: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_R: tl.constexpr,
    BLOCK_K: tl.constexpr,
):  # fmt: skip
    """Sum blocks `first` to `last` of K in order: [BLOCK_N, BLOCK_R]."""
    sums = tl.zeros((BLOCK_N, BLOCK_R), tl.float32)
    for block in range(first, last):
        k = block * BLOCK_K
        if TRANSPOSED:
            w_tile = w.load([plane, k, n]).reshape(BLOCK_K, BLOCK_N).T
        else:
            w_tile = w.load([plane, n, k]).reshape(BLOCK_N, BLOCK_K)
        x_tile = x.load([plane, r, k]).reshape(BLOCK_R, BLOCK_K)
        sums = tl.dot(w_tile, x_tile.T, sums)
    return sums


@triton.jit(do_not_specialize=["planes", "R"])  # type: ignore[untyped-decorator]
def _gemm_persistent(  # type: ignore[no-untyped-def]
    x, w, out, planes, R, N, K, SPLITS: tl.constexpr, RELU2: tl.constexpr, TRANSPOSED: tl.constexpr,
    BLOCK_N: tl.constexpr, BLOCK_R: tl.constexpr, BLOCK_K: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    """Compute every tile whose number is this program's plus a multiple of the number of programs."""
    tiles_n = tl.cdiv(N, BLOCK_N)
    tiles_r = tl.cdiv(R, BLOCK_R)
    blocks = K // BLOCK_K
    for tile in tl.range(tl.program_id(0), planes * tiles_n * tiles_r, tl.num_programs(0), flatten=True):
        plane = tile // (tiles_n * tiles_r)
        in_plane = tile % (tiles_n * tiles_r)
        group = in_plane // (GROUP * tiles_r)
        high = min(tiles_n - group * GROUP, GROUP)
        place = in_plane % (GROUP * tiles_r)
        n = (group * GROUP + place % high) * BLOCK_N
        r = place // high * BLOCK_R
        if SPLITS == 1:
            sums = _sum(w, x, plane, n, r, 0, blocks, TRANSPOSED, BLOCK_N, BLOCK_R, BLOCK_K)
        else:
            sums = tl.zeros((BLOCK_N, BLOCK_R), tl.float32)
            for part in range(SPLITS):
                sums += _sum(w, x, plane, n, r, part * blocks // SPLITS, (part + 1) * blocks // SPLITS, TRANSPOSED,
                             BLOCK_N, BLOCK_R, BLOCK_K)  # fmt: skip
        if RELU2:
            sums = tl.maximum(sums, 0.0)
            sums *= sums
            if out.dtype == tl.float16:
                sums = tl.minimum(sums, MOST_FP16)  # an infinity would become a NaN in the next product
        out.store([plane, r, n], sums.to(out.dtype).T.reshape(1, BLOCK_R, BLOCK_N))


def variants() -> list[Variant]:
    """Return the variants to compile: each kind of product of an exact step, and the head."""
    half, full = torch.float16, torch.float32
    return [
        _variant("r k v", 512, half),
        _variant("key", 512, half, relu2=True),
        _variant("head", 512, full),
        _variant("output", 512, full, splits=8),
        _variant("output", 1024, full, splits=8),
        _variant("value", 512, full, splits=8, transposed=True),
        _variant("value", 1024, full, splits=8, transposed=True),
    ]


def _variant(
    name: str, rows: int, out: torch.dtype, *, splits: int = 1, relu2: bool = False, transposed: bool = False
) -> Variant:
    constants, options = _build(2048, rows, out, splits, relu2=relu2, transposed=transposed)
    n, r, k = (constants[f"BLOCK_{size}"] for size in "NRK")
    kind = "fp16" if out == torch.float16 else "fp32"
    signature = {
        "x": f"tensordesc<fp16[1, {r}, {k}]>",
        "w": f"tensordesc<fp16[1, {k}, {n}]>" if transposed else f"tensordesc<fp16[1, {n}, {k}]>",
        "out": f"tensordesc<{kind}[1, {r}, {n}]>",
        "planes": "i32", "R": "i32", "N": "i32:16", "K": "i32:16",
    }  # fmt: skip
    return Variant(f"gemm_persistent {name}, {rows} rows", _gemm_persistent, signature, constants, options, wgmma=True)
