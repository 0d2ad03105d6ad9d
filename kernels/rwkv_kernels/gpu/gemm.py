"""Matrix products with the operands swapped, Y^T = W X^T: a row of Y has the same bits in any batch.

The weights' rows are the M of the matrix instruction (64 of them, whatever the batch) and the batch's rows its N, so a
decode step pads only the small side, and memory-bound steps pay nothing for it. Every element is summed over K in
blocks of one fixed size, in order, in fp32; how K is cut into separate sums (`splits`) depends on the weights' shape.
Only the tile's width, which decides which program computes an element, depends on R.
"""

from typing import Any, Literal

import torch
import triton
import triton.language as tl
from torch import Tensor

from rwkv_kernels.gpu import gemm_persistent, launch_config
from rwkv_kernels.gpu.dependent_launch import await_inputs, overlap
from rwkv_kernels.gpu.gemm_persistent import MOST_FP16
from rwkv_kernels.gpu.variant import Variant

Epilogue = Literal["none", "relu2"]
GROUP = 8  # tiles of weights that share a batch tile while it is in L2


@triton.jit  # type: ignore[untyped-decorator]
def sum_blocks(  # type: ignore[no-untyped-def]
    w, x, first, last, K, stride_wk, live_n, live_r, EVEN_K: tl.constexpr, EVEN_N: tl.constexpr,
    BLOCK_N: tl.constexpr, BLOCK_R: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """Sum blocks `first` to `last` of K in order: [BLOCK_N, BLOCK_R]. w, x: pointers to block 0 of each tile."""
    at = tl.arange(0, BLOCK_K)
    sums = tl.zeros((BLOCK_N, BLOCK_R), tl.float32)
    for block in range(first, last):
        k = block * BLOCK_K
        live_k = at < K - k
        w_live = live_k[None, :] if EVEN_N else live_n[:, None] & live_k[None, :]
        x_live = live_r[None, :] if EVEN_K else live_r[None, :] & live_k[:, None]
        if EVEN_K and EVEN_N:
            w_tile = tl.load(w + k.to(tl.int64) * stride_wk)
        else:
            w_tile = tl.load(w + k.to(tl.int64) * stride_wk, mask=w_live, other=0.0)
        x_tile = tl.load(x + k, mask=x_live, other=0.0)
        sums = tl.dot(w_tile, x_tile, sums, input_precision="ieee")
    return sums


@triton.jit(do_not_specialize=["R"])  # type: ignore[untyped-decorator]
def gemm_kernel(  # type: ignore[no-untyped-def]
    x, w, out, R, N, K, stride_xg, stride_xr, stride_wg, stride_wn, stride_wk, stride_os, stride_or,
    SPLITS: tl.constexpr, SERIAL: tl.constexpr, RELU2: tl.constexpr, EVEN_K: tl.constexpr, EVEN_N: tl.constexpr,
    BLOCK_N: tl.constexpr, BLOCK_R: tl.constexpr, BLOCK_K: tl.constexpr, GROUP: tl.constexpr,
    OVERLAP: tl.constexpr,
):  # fmt: skip
    """Compute one tile of one plane and, unless SERIAL, of one split. Grid: (tiles, splits or 1, planes)."""
    tiles_n = tl.cdiv(N, BLOCK_N)
    tiles_r = tl.cdiv(R, BLOCK_R)
    group = tl.program_id(0) // (GROUP * tiles_r)
    high = min(tiles_n - group * GROUP, GROUP)
    place = tl.program_id(0) % (GROUP * tiles_r)
    n = ((group * GROUP + place % high) * BLOCK_N).to(tl.int64)
    r = (place // high * BLOCK_R).to(tl.int64)
    split = tl.program_id(1)
    plane = tl.program_id(2).to(tl.int64)

    in_n = tl.arange(0, BLOCK_N)
    in_r = tl.arange(0, BLOCK_R)
    in_k = tl.arange(0, BLOCK_K)
    live_n = in_n < N - n
    live_r = in_r < R - r
    w += plane * stride_wg + n * stride_wn + (in_n[:, None] * stride_wn + in_k[None, :] * stride_wk)
    x += plane * stride_xg + r * stride_xr + (in_r[None, :] * stride_xr + in_k[:, None])
    await_inputs(OVERLAP)

    blocks = tl.cdiv(K, BLOCK_K)
    if SERIAL:
        sums = tl.zeros((BLOCK_N, BLOCK_R), tl.float32)
        for part in range(SPLITS):
            sums += sum_blocks(w, x, part * blocks // SPLITS, (part + 1) * blocks // SPLITS, K, stride_wk,
                                live_n, live_r, EVEN_K, EVEN_N, BLOCK_N, BLOCK_R, BLOCK_K)  # fmt: skip
    else:
        sums = sum_blocks(w, x, split * blocks // SPLITS, (split + 1) * blocks // SPLITS, K, stride_wk,
                           live_n, live_r, EVEN_K, EVEN_N, BLOCK_N, BLOCK_R, BLOCK_K)  # fmt: skip
    if RELU2:
        sums = tl.maximum(sums, 0.0)
        sums *= sums
        if out.dtype.element_ty == tl.float16:
            sums = tl.minimum(sums, MOST_FP16)  # an infinity would become a NaN in the next product
    out += (plane + split) * stride_os + r * stride_or + n
    tl.store(out + in_r[None, :].to(tl.int64) * stride_or + in_n[:, None], sums.to(out.dtype.element_ty),
             mask=live_n[:, None] & live_r[None, :])  # fmt: skip


def gemm(
    x: Tensor, w: Tensor, out: Tensor, *, epilogue: Epilogue = "none", splits: int = 1, serial: bool = False
) -> None:
    """Compute out = epilogue(x w^T) for each of G planes, of any R.

    x [G, R, K] fp16 or fp32, any strides with K contiguous; w [G, N, K] of the same type, any strides (a transposed
    view is read as fast); out [G, R, N] fp16 or fp32, N contiguous. `epilogue` "relu2": max(., 0)^2.

    splits > 1 (one plane, no epilogue): `plan(N, K).splits` separate sums over K. They are written side by side, out
    [splits, R, N] fp32, for the consumer to add from left to right; `serial` adds them here in that order, out [1, R,
    N], with the same bits. Serial is for many rows (`launch_config.serial_pays`), where there are enough programs and
    partial sums cost bandwidth.
    """
    planes, rows, k = x.shape
    n = w.shape[1]
    assert x.stride(2) == out.stride(2) == 1
    assert w.shape == (planes, n, k)
    assert splits == 1 or (planes == 1 and epilogue == "none" and out.dtype == torch.float32)
    assert out.shape == (planes if splits == 1 or serial else splits, rows, n)
    if (splits == 1 or serial) and gemm_persistent.suits(x, w, out, splits):
        gemm_persistent.gemm_persistent(x, w, out, relu2=epilogue == "relu2", splits=splits)
        return
    constants, options = _build(planes, n, k, rows, x.dtype, epilogue, splits, serial)
    tiles = triton.cdiv(n, constants["BLOCK_N"]) * triton.cdiv(rows, constants["BLOCK_R"])
    gemm_kernel[(tiles, 1 if serial else splits, planes)](
        x, w, out, rows, n, k, x.stride(0), x.stride(1), *w.stride(), out.stride(0), out.stride(1),
        **constants, **options, **overlap(rows),
    )  # fmt: skip


def _build(
    planes: int, n: int, k: int, rows: int, dtype: torch.dtype, epilogue: Epilogue, splits: int, serial: bool
) -> tuple[dict[str, Any], dict[str, int]]:
    """Return the kernel's constants, and the launch options, for one shape."""
    tile, step = launch_config.gemm_tile(planes * n, rows, dtype, serial=serial), launch_config.block_k(dtype)
    constants = {
        "SPLITS": splits, "SERIAL": serial, "RELU2": epilogue == "relu2", "EVEN_K": k % step == 0,
        "EVEN_N": n % tile.block_n == 0, "BLOCK_N": tile.block_n, "BLOCK_R": tile.block_r, "BLOCK_K": step,
        "GROUP": GROUP,
    }  # fmt: skip
    return constants, {"num_warps": tile.warps, "num_stages": tile.stages}


def reference(x: Tensor, w: Tensor, *, epilogue: Epilogue = "none", splits: int = 1) -> Tensor:
    """Compute the same in plain torch and fp32: [G, R, N], or [splits, R, N] where K is cut."""
    blocks = -(-x.shape[2] // (step := launch_config.block_k(x.dtype)))
    parts = []
    for part in range(splits):
        cut = slice(part * blocks // splits * step, (part + 1) * blocks // splits * step)
        parts.append(x[:, :, cut].float() @ w[:, :, cut].float().transpose(1, 2))
    y = torch.cat(parts)
    return torch.relu(y).square() if epilogue == "relu2" else y


def variants() -> list[Variant]:
    """Return the variants to compile: shapes of 1.5B and 7.2B, one of each tile, plain and transposed weights, fp32."""
    half, full = torch.float16, torch.float32
    return [
        _variant("r k v of 1.5B", 2048, 2048, 1, half, planes=3),
        _variant("r k v of 7.2B", 4096, 4096, 1024, half, planes=3),
        _variant("output of 1.5B", 2048, 2048, 16, half, splits=8),
        _variant("output of 7.2B", 4096, 4096, 1024, half, splits=4, serial=True),
        _variant("key of 1.5B", 8192, 2048, 32, half, epilogue="relu2"),
        _variant("key of 7.2B", 16384, 4096, 4096, half, epilogue="relu2"),
        _variant("value of 1.5B", 2048, 8192, 1, half, splits=8, transposed=True),
        _variant("value of 1.5B", 2048, 8192, 64, half, splits=8, transposed=True),
        _variant("value of 7.2B", 4096, 16384, 1024, half, splits=4, serial=True, transposed=True),
        _variant("value of 7.2B", 4096, 16384, 32768, half, splits=4, serial=True, transposed=True),
        _variant("value of 7.2B", 4096, 16384, 32768, half, transposed=True),
        _variant("head of 1.5B", 65536, 2048, 128, half),
        _variant("head of 1.5B", 65536, 2048, 16, full),
        _variant("value of 1.5B", 2048, 8192, 1024, full, splits=8, serial=True, transposed=True),
    ]


def _variant(
    name: str, n: int, k: int, rows: int, dtype: torch.dtype, *, planes: int = 1, epilogue: Epilogue = "none",
    splits: int = 1, serial: bool = False, transposed: bool = False,
) -> Variant:  # fmt: skip
    constants, options = _build(planes, n, k, rows, dtype, epilogue, splits, serial)
    kind = "fp16" if dtype == torch.float16 else "fp32"
    wide = {"R": "i32", "N": "i32:16", "K": "i32:16", "stride_xg": "i32:16", "stride_xr": "i32:16"}
    wide |= dict.fromkeys(("stride_wg", "stride_wn", "stride_wk", "stride_os", "stride_or"), "i32:16")
    unit = "stride_wn" if transposed else "stride_wk"
    del wide[unit]
    out = "*fp16:16" if epilogue == "relu2" and kind == "fp16" else "*fp32:16"
    shape = f"{name} {kind} [{rows}, {k}] x [{n}, {k}]{'t' * transposed} splits {splits}{' serial' * serial}"
    return Variant(
        f"gemm {shape}", gemm_kernel, {"x": f"*{kind}:16", "w": f"*{kind}:16", "out": out} | wide,
        constants | {unit: 1}, options, wgmma=kind == "fp16",
    )  # fmt: skip
