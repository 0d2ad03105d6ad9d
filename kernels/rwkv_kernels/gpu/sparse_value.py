"""The value product of channel mixing for one token, which reads only the weights of non-zero inputs.

After relu-squared most of the hidden numbers are 0 (80 to 90 % in trained checkpoints), and a row of the transposed
weight [F, D] whose hidden number is 0 adds nothing: its loads are masked, so they move no bytes. The sums have another
order than the matrix unit's, so a profile that promises bits does not use this kernel. For more than one token it does
not pay, because few rows are zero for all of them.
"""

from itertools import pairwise

import torch
import triton
import triton.language as tl
from torch import Tensor

from rwkv_kernels.gpu import launch_config
from rwkv_kernels.gpu.dependent_launch import await_inputs, overlap
from rwkv_kernels.gpu.variant import Variant


@triton.jit  # type: ignore[untyped-decorator]
def sparse_value_kernel(  # type: ignore[no-untyped-def]
    hidden, w_t, out, F, D, stride_f, SPLITS: tl.constexpr, FOLD: tl.constexpr, STAGES: tl.constexpr,
    BLOCK_F: tl.constexpr, BLOCK_D: tl.constexpr, OVERLAP: tl.constexpr,
):  # fmt: skip
    """Compute BLOCK_D outputs over one split of the hidden numbers. Grid: (tiles of D, splits).

    Few of the loads are unmasked, so many must be in flight: STAGES - 1 tiles of rows. FOLD rows are summed at the end.
    """
    await_inputs(OVERLAP)
    split = tl.program_id(1)
    blocks = tl.cdiv(F, BLOCK_F)
    d = tl.program_id(0) * BLOCK_D + tl.arange(0, BLOCK_D)
    sums = tl.zeros((FOLD, BLOCK_D), tl.float32)
    for block in tl.range(split * blocks // SPLITS, (split + 1) * blocks // SPLITS, num_stages=STAGES):
        f = block * BLOCK_F + tl.arange(0, BLOCK_F)
        share = tl.load(hidden + f, mask=f < F, other=0.0)
        wanted = (share != 0.0)[:, None] & (d < D)[None, :]
        rows = tl.load(w_t + f[:, None].to(tl.int64) * stride_f + d[None, :], mask=wanted, other=0.0)
        products = share.to(tl.float32)[:, None] * rows.to(tl.float32)
        sums += tl.sum(tl.reshape(products, (BLOCK_F // FOLD, FOLD, BLOCK_D)), 0)  # a thread's own rows
    sums = tl.sum(sums, 0)
    tl.store(out + split * D + d, sums, mask=d < D)


def sparse_value(hidden: Tensor, w_t: Tensor, out: Tensor) -> None:
    """Multiply hidden [1, F] after relu-squared by w_t [F, D] of the same type: out [splits, 1, D] fp32, partial sums.

    The caller chooses the number of splits (`launch_config.SPARSE_SPLITS`); each covers its share of F.
    """
    splits, _, width = out.shape
    assert hidden.shape == (1, w_t.shape[0])
    assert w_t.shape[1] == width
    assert hidden.stride(1) == w_t.stride(1) == 1
    assert out.is_contiguous()
    sparse_value_kernel[(triton.cdiv(width, launch_config.SPARSE_D), splits)](
        hidden, w_t, out, w_t.shape[0], width, w_t.stride(0), SPLITS=splits, FOLD=launch_config.SPARSE_FOLD,
        STAGES=launch_config.SPARSE_STAGES, BLOCK_F=launch_config.SPARSE_F, BLOCK_D=launch_config.SPARSE_D,
        num_warps=launch_config.SPARSE_WARPS, **overlap(1),
    )  # fmt: skip


def reference(hidden: Tensor, w_t: Tensor, splits: int) -> Tensor:
    """Compute the same in plain torch: [splits, 1, D]."""
    blocks = -(-w_t.shape[0] // launch_config.SPARSE_F)
    edges = [part * blocks // splits * launch_config.SPARSE_F for part in range(splits + 1)]
    cuts = [slice(first, end) for first, end in pairwise(edges)]
    return torch.stack([hidden[:, cut].float() @ w_t[cut].float() for cut in cuts])


def variants() -> list[Variant]:
    """Return the variants to compile: the value product of 1.5B and 7.2B, fp16."""
    signature = {"hidden": "*fp16:16", "w_t": "*fp16:16", "out": "*fp32:16", "F": "i32:16", "D": "i32:16"}
    signature |= {"stride_f": "i32:16"}
    blocks = {
        "FOLD": launch_config.SPARSE_FOLD,
        "STAGES": launch_config.SPARSE_STAGES,
        "BLOCK_F": launch_config.SPARSE_F,
        "BLOCK_D": launch_config.SPARSE_D,
    }
    return [
        Variant(
            f"sparse_value fp16 [1, {4 * width}] x [{4 * width}, {width}] splits {splits}", sparse_value_kernel,
            signature, {"SPLITS": splits} | blocks, {"num_warps": launch_config.SPARSE_WARPS},
        )
        for width in (2048, 4096) for splits in (launch_config.SPARSE_SPLITS,)
    ]  # fmt: skip
