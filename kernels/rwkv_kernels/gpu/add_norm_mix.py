"""Residual sum, LayerNorm and token shift in one pass over the residual stream.

    y = x + (delta[0] + delta[1] + ...);  n = LayerNorm(y);  out[m] = n + (before - n) * shares[m]

where `before` is n of the row before, or the last token's n as stored in the sequence's slot. The increments may be
partial sums of a split product; they are added from left to right.

A row's program computes the row before it first, with the same code, so it waits for no other program; a longer stretch
of rows shares that cost. Decode computes its rows with the same operations: a row's bits do not depend on how a prompt
is cut.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.nn import functional

from rwkv_kernels.gpu import launch_config
from rwkv_kernels.gpu.dependent_launch import await_inputs, overlap
from rwkv_kernels.gpu.row_layout import FIRST, LAST, Rows
from rwkv_kernels.gpu.variant import Variant


def add_norm_mix(
    x: Tensor,
    delta: Tensor | None,
    norm_w: Tensor,
    norm_b: Tensor,
    eps: float,
    shares: Tensor,
    shift: Tensor,
    rows: Rows,
    x_out: Tensor,
    out: Tensor,
) -> None:
    """x, x_out: [R, D] fp32, not the same memory; delta: [S, R, D] or None; norm_w, norm_b: [D] fp32; shares: [M, D]
    fp32; shift: [slots, D] fp32, a view whose slots may lie apart, read for first rows and left with the last rows' n;
    out: [M, R, D] fp16 or fp32.
    """
    count, width = x.shape
    constants, options = _build(width, eps)
    stretch = launch_config.stretch(count)

    def walk(programs: int, *, mixes: bool, leaves: bool) -> None:
        _add_norm_mix[(programs,)](
            x, x if delta is None else delta, norm_w, norm_b, shares, shift, rows.row_slot, rows.edge, rows.starts,
            x_out, out, count, width, shift.stride(0), stretch, int(mixes), int(leaves), **constants,
            PARTS=0 if delta is None else delta.shape[0], PLANES=out.shape[0], FIRST=FIRST, LAST=LAST, **options,
            **overlap(count),
        )  # fmt: skip

    if rows.decode:
        _decode_mix[(count,)](
            x, x if delta is None else delta, norm_w, norm_b, shares, shift, rows.row_slot, x_out, out, count, width,
            shift.stride(0), **constants, PARTS=0 if delta is None else delta.shape[0], PLANES=out.shape[0], **options,
            **overlap(count),
        )  # fmt: skip
    else:
        # A sequence's first and last row may be in different programs: the slot is written after all have read it.
        walk(triton.cdiv(count, stretch), mixes=True, leaves=False)
        walk(rows.slots.shape[0], mixes=False, leaves=True)


def add_norm(
    x: Tensor, delta: Tensor | None, norm_w: Tensor, norm_b: Tensor, eps: float, index: Tensor | None, out: Tensor
) -> None:
    """LayerNorm of y = x + (delta[0] + ...) in the rows of `index` (int32 [Q]; None: all). out: [Q, D] fp16 or fp32."""
    count, width = x.shape
    constants, options = _build(width, eps)
    _add_norm[(out.shape[0],)](
        x, x if delta is None else delta, norm_w, norm_b, x if index is None else index, out, count, width,
        **constants, PARTS=0 if delta is None else delta.shape[0], INDEXED=index is not None, **options,
        **overlap(out.shape[0]),
    )  # fmt: skip


def add_last(x: Tensor, delta: Tensor, rows: Rows, hidden: Tensor) -> None:
    """Add the last increment [S, R, D] to the residual x [R, D] fp32 in place, its parts from left to right, and leave
    each sequence's last row in its slot of `hidden` [slots, D] fp32."""
    count, width = x.shape
    constants, options = _build(width, 0.0)
    del constants["EPS"]
    _add_last[(count,)](
        x, delta, rows.row_slot, rows.edge, hidden, count, width, **constants, PARTS=delta.shape[0], LAST=LAST,
        **options, **overlap(count),
    )  # fmt: skip


def embed_norm(ids: Tensor, embedding: Tensor, norm_w: Tensor, norm_b: Tensor, eps: float, x_out: Tensor) -> None:
    """LayerNorm of the embeddings of ids (int64 [R]). embedding: [V, D] of any float type; x_out: [R, D] fp32."""
    width = x_out.shape[1]
    constants, options = _build(width, eps)
    _embed_norm[(ids.shape[0],)](
        ids, embedding, norm_w, norm_b, x_out, width, **constants, **options, **overlap(ids.shape[0])
    )


def _build(width: int, eps: float) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return constants and options of the three kernels. Nothing is fused, so that all variants round in the same
    places."""
    block, warps = launch_config.row(width)
    return {"EPS": eps, "BLOCK": block, "EVEN": block == width}, {"num_warps": warps, "enable_fp_fusion": False}


@triton.jit  # type: ignore[untyped-decorator]
def _live(column, width, EVEN: tl.constexpr):  # type: ignore[no-untyped-def]
    """Return the mask of the columns that exist; one that is known to be all true costs nothing."""
    return tl.full(column.shape, True, tl.int1) if EVEN else column < width


@triton.jit  # type: ignore[untyped-decorator]
def _sum(x, delta, at, live, part_stride, PARTS: tl.constexpr):  # type: ignore[no-untyped-def]
    """Return one row of y, the sum of x and the partial increments, in fp32."""
    y = tl.load(x + at, mask=live, other=0.0).to(tl.float32)
    if PARTS > 0:
        increment = tl.load(delta + at, mask=live, other=0.0).to(tl.float32)
        for part in tl.static_range(1, PARTS):
            increment += tl.load(delta + part * part_stride + at, mask=live, other=0.0).to(tl.float32)
        y += increment
    return y


@triton.jit  # type: ignore[untyped-decorator]
def _norm(y, gain, bias, live, width, EPS: tl.constexpr):  # type: ignore[no-untyped-def]
    y -= tl.sum(y, axis=0) / width
    y = tl.where(live, y, 0.0)
    y *= tl.rsqrt(tl.sum(y * y, axis=0) / width + EPS)
    return y * gain + bias


@triton.jit
def _weights(norm_w, norm_b, column, live):  # type: ignore[no-untyped-def]
    return tl.load(norm_w + column, mask=live, other=0.0), tl.load(norm_b + column, mask=live, other=0.0)


@triton.jit(do_not_specialize=["count"], do_not_specialize_on_alignment=["row_slot"])  # type: ignore[untyped-decorator]
def _decode_mix(  # type: ignore[no-untyped-def]
    x, delta, norm_w, norm_b, shares, shift, row_slot, x_out, out, count, width, slot_stride, EPS: tl.constexpr,
    BLOCK: tl.constexpr, EVEN: tl.constexpr, PARTS: tl.constexpr, PLANES: tl.constexpr, OVERLAP: tl.constexpr,
):  # fmt: skip
    """One row, which is all of its sequence. Whatever the kernel before does not write is loaded before waiting for it:
    a step of few rows is a chain of such launches, and each lasts as long as its loads one after the other."""
    column = tl.arange(0, BLOCK)
    live = _live(column, width, EVEN)
    width = width.to(tl.int64)
    part_stride = width * count
    gain, bias = _weights(norm_w, norm_b, column, live)
    held = ()
    for plane in tl.static_range(PLANES):
        held += (tl.load(shares + plane * width + column, mask=live, other=0.0),)  # type: ignore[assignment]
    row = tl.program_id(0)
    kept = shift + tl.load(row_slot + row).to(tl.int64) * slot_stride + column
    before = tl.load(kept, mask=live, other=0.0)
    await_inputs(OVERLAP)
    at = row * width + column
    y = _sum(x, delta, at, live, part_stride, PARTS)
    n = _norm(y, gain, bias, live, width, EPS)
    tl.store(x_out + at, y, mask=live)
    for plane in tl.static_range(PLANES):
        mix = n + (before - n) * held[plane]
        tl.store(out + plane * part_stride + at, mix.to(out.dtype.element_ty), mask=live)
    tl.store(kept, n, mask=live)


@triton.jit(
    do_not_specialize=["count", "stretch", "mixes", "leaves"],
    do_not_specialize_on_alignment=["row_slot", "edge", "starts"],
)  # type: ignore[untyped-decorator]
def _add_norm_mix(  # type: ignore[no-untyped-def]
    x, delta, norm_w, norm_b, shares, shift, row_slot, edge, starts, x_out, out, count, width, slot_stride, stretch,
    mixes, leaves, EPS: tl.constexpr, BLOCK: tl.constexpr, EVEN: tl.constexpr, PARTS: tl.constexpr,
    PLANES: tl.constexpr, FIRST: tl.constexpr, LAST: tl.constexpr, OVERLAP: tl.constexpr,
):  # fmt: skip
    """`mixes`: write x_out and out for a stretch of rows; `leaves`: write the shift for last rows. Without `mixes` a
    program takes the last row of one sequence.
    """
    column = tl.arange(0, BLOCK)
    live = _live(column, width, EVEN)
    width = width.to(tl.int64)
    part_stride = width * count
    await_inputs(OVERLAP)
    if mixes != 0:
        first = tl.program_id(0) * stretch
        end = min(first + stretch, count)
        detour = first - (tl.load(edge + first) & FIRST == 0).to(tl.int32)
    else:
        end = tl.load(starts + tl.program_id(0) + 1)
        first = max(end - 1, tl.load(starts + tl.program_id(0)))
        detour = first
    before = tl.zeros([BLOCK], tl.float32)
    for row in range(detour, end):
        at = row * width + column
        ends = tl.load(edge + row)
        opens = ends & FIRST != 0
        mixed = live & (row >= first) & (mixes != 0)
        kept = shift + tl.load(row_slot + row).to(tl.int64) * slot_stride + column
        before = tl.where(opens, tl.load(kept, mask=mixed & opens, other=0.0), before)
        y = _sum(x, delta, at, live, part_stride, PARTS)
        gain, bias = _weights(norm_w, norm_b, column, live)  # from the L1 cache: registers are short
        n = _norm(y, gain, bias, live, width, EPS)
        tl.store(x_out + at, y, mask=mixed)
        for plane in tl.static_range(PLANES):
            share = tl.load(shares + plane * width + column, mask=live, other=0.0)
            mix = n + (before - n) * share
            tl.store(out + plane * part_stride + at, mix.to(out.dtype.element_ty), mask=mixed)
        tl.store(kept, n, mask=live & (ends & LAST != 0) & (leaves != 0))
        before = n


@triton.jit(do_not_specialize=["count"])  # type: ignore[untyped-decorator]
def _add_norm(  # type: ignore[no-untyped-def]
    x, delta, norm_w, norm_b, index, out, count, width,
    EPS: tl.constexpr, BLOCK: tl.constexpr, EVEN: tl.constexpr, PARTS: tl.constexpr, INDEXED: tl.constexpr,
    OVERLAP: tl.constexpr,
):  # fmt: skip
    column = tl.arange(0, BLOCK)
    live = _live(column, width, EVEN)
    gain, bias = _weights(norm_w, norm_b, column, live)
    await_inputs(OVERLAP)
    row = tl.load(index + tl.program_id(0)) if INDEXED else tl.program_id(0)
    y = _sum(x, delta, row.to(tl.int64) * width + column, live, count.to(tl.int64) * width, PARTS)
    n = _norm(y, gain, bias, live, width, EPS)
    tl.store(out + tl.program_id(0).to(tl.int64) * width + column, n.to(out.dtype.element_ty), mask=live)


@triton.jit(do_not_specialize=["count"], do_not_specialize_on_alignment=["row_slot", "edge"])  # type: ignore[untyped-decorator]
def _add_last(  # type: ignore[no-untyped-def]
    x, delta, row_slot, edge, hidden, count, width,
    BLOCK: tl.constexpr, EVEN: tl.constexpr, PARTS: tl.constexpr, LAST: tl.constexpr, OVERLAP: tl.constexpr,
):  # fmt: skip
    await_inputs(OVERLAP)
    column = tl.arange(0, BLOCK)
    live = _live(column, width, EVEN)
    width = width.to(tl.int64)
    row = tl.program_id(0)
    at = row * width + column
    y = _sum(x, delta, at, live, width * count, PARTS)
    tl.store(x + at, y, mask=live)
    kept = hidden + tl.load(row_slot + row).to(tl.int64) * width + column
    tl.store(kept, y, mask=live & (tl.load(edge + row) & LAST != 0))


@triton.jit  # type: ignore[untyped-decorator]
def _embed_norm(  # type: ignore[no-untyped-def]
    ids, embedding, norm_w, norm_b, x_out, width, EPS: tl.constexpr, BLOCK: tl.constexpr, EVEN: tl.constexpr,
    OVERLAP: tl.constexpr,
):  # fmt: skip
    column = tl.arange(0, BLOCK)
    live = _live(column, width, EVEN)
    gain, bias = _weights(norm_w, norm_b, column, live)
    await_inputs(OVERLAP)
    token = tl.load(ids + tl.program_id(0))
    y = tl.load(embedding + token * width + column, mask=live, other=0.0).to(tl.float32)
    n = _norm(y, gain, bias, live, width, EPS)
    tl.store(x_out + tl.program_id(0).to(tl.int64) * width + column, n, mask=live)


def reference(
    x: Tensor,
    delta: Tensor | None,
    norm_w: Tensor,
    norm_b: Tensor,
    eps: float,
    shares: Tensor,
    shift: Tensor,
    rows: Rows,
    x_out: Tensor,
    out: Tensor,
) -> None:
    """Compute the formulas of this module's docstring in float64."""
    x_out[:] = x + (0 if delta is None else delta.double().sum(0))
    n = functional.layer_norm(x_out.double(), norm_w.shape, norm_w.double(), norm_b.double(), eps)
    first, last = rows.edge & FIRST != 0, rows.edge & LAST != 0
    before = torch.where(first[:, None], shift[rows.row_slot].double(), n.roll(1, 0))
    out[:] = n + (before - n) * shares.double()[:, None]
    shift[rows.row_slot[last]] = n[last].to(shift.dtype)


def variants() -> list[Variant]:
    """Return the variants to compile: both mixes of 1.5B and 7.2B, with and without split increments; the two norms."""
    decode = {"x": "*fp32:16", "delta": "*fp32:16", "shares": "*fp32:16", "shift": "*fp32:16", "x_out": "*fp32:16"}
    decode |= {"out": "*fp16:16", "row_slot": "*i32", "count": "i32", "slot_stride": "i32:16"}
    mixes = [_mix_variant(2048, 8, 6, "fp16"), _mix_variant(2048, 1, 1, "fp16"), _mix_variant(4096, 4, 6, "fp16"),
             _mix_variant(4096, 0, 6, "fp16"), _mix_variant(4096, 1, 6, "fp32")]  # fmt: skip
    constants, options = _build(4096, 1e-5)
    vectors = {"norm_w": "*fp32:16", "norm_b": "*fp32:16", "width": "i32:16"}
    head = {"x": "*fp32:16", "delta": "*fp32:16", "index": "*i32:16", "out": "*fp16:16", "count": "i32"}
    embed = {"ids": "*i64:16", "embedding": "*bf16:16", "x_out": "*fp32:16"}
    indexed = constants | {"PARTS": 4, "INDEXED": True}
    last = dict.fromkeys(("x", "delta", "hidden"), "*fp32:16") | {"row_slot": "*i32", "edge": "*i8"}
    last |= {"count": "i32", "width": "i32:16"}
    decoded = constants | {"PLANES": 6}
    return [
        *mixes,
        Variant("decode_mix fp16 4096", _decode_mix, vectors | decode, decoded | {"PARTS": 8}, options),
        Variant(
            "decode_mix fp32 4096", _decode_mix, vectors | decode | {"out": "*fp32:16"}, decoded | {"PARTS": 4}, options
        ),
        Variant("add_norm 4096", _add_norm, vectors | head, indexed, options),
        Variant("embed_norm 4096", _embed_norm, vectors | embed, constants, options),
        Variant("add_last 4096", _add_last, last, {"BLOCK": 4096, "EVEN": True, "PARTS": 4, "LAST": LAST}, options),
    ]


def _mix_variant(width: int, parts: int, planes: int, kind: str) -> Variant:
    constants, options = _build(width, 1e-5)
    constants |= {"PARTS": parts, "PLANES": planes, "FIRST": FIRST, "LAST": LAST}
    signature = dict.fromkeys(("x", "delta", "norm_w", "norm_b", "shares", "shift", "x_out"), "*fp32:16")
    signature |= {"out": f"*{kind}:16", "row_slot": "*i32", "edge": "*i8", "starts": "*i32"}
    signature |= dict.fromkeys(("count", "stretch", "mixes", "leaves"), "i32")
    signature |= {"width": "i32:16", "slot_stride": "i32:16"}
    name = f"add_norm_mix {kind} {width}, {parts} parts, {planes} planes"
    return Variant(name, _add_norm_mix, signature, constants, options)
