"""The WKV-7 recurrence of one layer with everything around it that belongs to one head.

For each sequence and head, token by token, with the state S in R^{64(k) x 64(v)}:

    kk = k * k_k / max(|k * k_k|, 1e-12);   k' = k * (1 + (a - 1) * k_a)
    u = kk S;   S <- diag(w) S - (kk * a)^T u + k'^T v;   y = r S
    out = (GroupNorm(y) * norm_w + norm_b + sum(r * k' * r_k) * v) * g

Source of the formulas: BlinkDL/RWKV-LM, RWKV-v7/rwkv_v7_numpy.py.

One program holds a whole head in registers and walks its tokens: the state is read once and written once, and the group
norm needs no second launch. Decode is the same loop with one turn, so a prompt has the same bits however it is cut.
Splitting the values over programs would gain little: the warps of a program split them already, each with all keys of
its values, so that both sums over keys are shuffles inside a warp and a token passes no barrier. The norm waits until
every key lane can take one token of a block, and then crosses the warps once for all of them.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.nn import functional

from rwkv_kernels.gpu import launch_config
from rwkv_kernels.gpu.dependent_launch import await_inputs, overlap
from rwkv_kernels.gpu.row_layout import Rows
from rwkv_kernels.gpu.variant import Variant

HEAD = 64
NORM_FLOOR = 1e-12


def wkv7(
    r: Tensor,
    k: Tensor,
    v: Tensor,
    a: Tensor,
    g: Tensor,
    w: Tensor,
    k_k: Tensor,
    k_a: Tensor,
    r_k: Tensor,
    norm_w: Tensor,
    norm_b: Tensor,
    eps: float,
    state: Tensor,
    rows: Rows,
    out: Tensor,
) -> None:
    """Feed every row to its sequence's state and write what the layer reads from it. Rows of no sequence are not
    written; a sequence without rows keeps its state.

    r, k, v, a, g, out: [R, D] fp16 or fp32; w: [R, D] fp32, the decay itself; k_k, k_a, r_k, norm_w, norm_b: [D] fp32;
    eps: of the group norm; state: [slots, H, 64 (k), 64 (v)] fp32 or fp16, a view whose slots may lie apart, changed in
    place. An fp16 state is rounded after every token.
    """
    assert state.stride()[1:] == (HEAD * HEAD, HEAD, 1)
    constants, options = _build(r.dtype, eps)
    if rows.decode:
        _wkv7_decode[r.shape[1] // HEAD, rows.slots.shape[0]](
            r, k, v, a, g, w, k_k, k_a, r_k, norm_w, norm_b, state, rows.slots, out, r.shape[1], state.stride(0),
            **constants, **options, **launch_config.decode_registers(r.shape[0]), **overlap(r.shape[0]),
        )  # fmt: skip
        return
    _wkv7[r.shape[1] // HEAD, rows.slots.shape[0]](
        r, k, v, a, g, w, k_k, k_a, r_k, norm_w, norm_b, state, rows.starts, rows.slots, out,
        r.shape[1], state.stride(0),
        **constants, **options, **overlap(r.shape[0]),
    )  # fmt: skip


def _build(dtype: torch.dtype, eps: float) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the kernel's constants, and the launch options."""
    shape = launch_config.recurrence(dtype)
    constants = {"EPS": eps, "FLOOR": NORM_FLOOR, "WARPS": shape.warps, "KEYS": shape.keys, "LANES": shape.lanes}
    return constants, {"num_warps": shape.warps, "enable_fp_fusion": True}


@triton.jit
def _token(r, k, a, w, v, row, end, width, key, value):  # type: ignore[no-untyped-def]
    """Load what one token feeds a head: four vectors over the keys and one over the values, zeros past the end."""
    at = row * width
    live = row < end
    return (
        tl.load(r + at + key, mask=live, other=0.0),
        tl.load(k + at + key, mask=live, other=0.0),
        tl.load(a + at + key, mask=live, other=0.0),
        tl.load(w + at + key, mask=live, other=0.0),
        tl.load(v + at + value, mask=live, other=0.0),
    )


@triton.jit  # type: ignore[untyped-decorator]
def _keys(x, WARPS: tl.constexpr, KEYS: tl.constexpr, LANES: tl.constexpr):  # type: ignore[no-untyped-def]
    """Reshape [threads, a thread's keys] to the five axes, in fp32."""
    x = tl.permute(tl.reshape(x, [WARPS, KEYS, LANES, 64 // KEYS]), [3, 0, 1, 2])
    return tl.reshape(x, [64 // KEYS, WARPS, KEYS, LANES, 1]).to(tl.float32)


@triton.jit  # type: ignore[untyped-decorator]
def _values(x, WARPS: tl.constexpr, KEYS: tl.constexpr, LANES: tl.constexpr):  # type: ignore[no-untyped-def]
    """Reshape [threads, a thread's values] to the five axes, in fp32."""
    return tl.reshape(x, [1, WARPS, KEYS, LANES, 64 // (WARPS * LANES)]).to(tl.float32)


@triton.jit  # type: ignore[untyped-decorator]
def _value(thread, WARPS: tl.constexpr, KEYS: tl.constexpr, LANES: tl.constexpr):  # type: ignore[no-untyped-def]
    """Return the index, among the 64 values of a head, of the first one that a thread holds."""
    return (thread // (KEYS * LANES) * LANES + thread % LANES) * (64 // (WARPS * LANES))


@triton.jit
def _over_keys(x):  # type: ignore[no-untyped-def]
    return tl.sum(tl.sum(x, axis=0, keep_dims=True), axis=2, keep_dims=True)


@triton.jit
def _over_values(x):  # type: ignore[no-untyped-def]
    return tl.sum(tl.sum(tl.sum(x, axis=4, keep_dims=True), axis=3, keep_dims=True), axis=1, keep_dims=True)


@triton.jit  # type: ignore[untyped-decorator]
def _finish(  # type: ignore[no-untyped-def]
    y, r, k, v, a, gate, k_a, r_k, norm_w, norm_b, live,
    EPS: tl.constexpr, WARPS: tl.constexpr, KEYS: tl.constexpr, LANES: tl.constexpr,
):  # fmt: skip
    """Apply group norm, bonus and gate to a block, one token for each lane over keys. Its rows are in the L1 cache."""
    r = _values(tl.load(r, mask=live, other=0.0), WARPS, KEYS, LANES)
    k = _values(tl.load(k, mask=live, other=0.0), WARPS, KEYS, LANES)
    v = _values(tl.load(v, mask=live, other=0.0), WARPS, KEYS, LANES)
    a = _values(tl.load(a, mask=live, other=0.0), WARPS, KEYS, LANES)
    weight = _values(tl.load(norm_w), WARPS, KEYS, LANES)
    bias = _values(tl.load(norm_b), WARPS, KEYS, LANES)
    k *= 1.0 + (a - 1.0) * _values(tl.load(k_a), WARPS, KEYS, LANES)
    bonus = _over_values(r * k * _values(tl.load(r_k), WARPS, KEYS, LANES))
    y -= _over_values(y) / 64
    y = y * tl.rsqrt(_over_values(y * y) / 64 + EPS) * weight + bias
    return (y + bonus * v) * _values(gate, WARPS, KEYS, LANES)


@triton.jit  # type: ignore[untyped-decorator]
def _fed(S, k, v, a, w, kk_share, rate_share, FLOOR: tl.constexpr):  # type: ignore[no-untyped-def]
    """Return the state after one token."""
    kk = k * kk_share
    scale = 1.0 / tl.maximum(tl.sqrt(_over_keys(kk * kk)), FLOOR)
    u = _over_keys(S * kk) * scale * scale
    k = k * (1.0 + (a - 1.0) * rate_share)
    return S * w + (k * v - kk * a * u)


@triton.jit  # type: ignore[untyped-decorator]
def _thread(head, WARPS: tl.constexpr, KEYS: tl.constexpr, LANES: tl.constexpr):  # type: ignore[no-untyped-def]
    """Return for each thread of a head's program its lane over the keys, and the columns of its keys and values."""
    thread = tl.arange(0, WARPS * KEYS * LANES)[:, None]
    lane = thread // LANES % KEYS
    key = head * 64 + lane * (64 // KEYS) + tl.arange(0, 64 // KEYS)[None, :]
    value = head * 64 + _value(thread, WARPS, KEYS, LANES) + tl.arange(0, 64 // (WARPS * LANES))[None, :]
    return lane, key, value


@triton.jit  # type: ignore[untyped-decorator]
def _cells(head, WARPS: tl.constexpr, KEYS: tl.constexpr, LANES: tl.constexpr):  # type: ignore[no-untyped-def]
    """Return where in its slot each cell of a head's state lies: for one of a thread's keys after the other, the values
    of all threads."""
    THREADS: tl.constexpr = WARPS * KEYS * LANES
    PER: tl.constexpr = 64 // KEYS
    cell = tl.arange(0, PER * THREADS)[:, None]
    cell = (cell // LANES % KEYS * PER + cell // THREADS) * 64 + _value(cell % THREADS, WARPS, KEYS, LANES)
    return head * 4096 + cell + tl.arange(0, 64 // (WARPS * LANES))[None, :]


@triton.jit(do_not_specialize_on_alignment=["slots"])  # type: ignore[untyped-decorator]
def _wkv7_decode(  # type: ignore[no-untyped-def]
    r, k, v, a, g, w, k_k, k_a, r_k, norm_w, norm_b, state, slots, out, width, slot_stride,
    EPS: tl.constexpr, FLOOR: tl.constexpr, WARPS: tl.constexpr, KEYS: tl.constexpr, LANES: tl.constexpr,
    OVERLAP: tl.constexpr,
):  # fmt: skip
    """One token of each sequence, with the operations of `_wkv7` in their order. Large batches are bound by the traffic
    of states: no register is spent on the next token, so that more programs fit a multiprocessor."""
    THREADS: tl.constexpr = WARPS * KEYS * LANES
    PER: tl.constexpr = 64 // KEYS
    VALUES: tl.constexpr = 64 // (WARPS * LANES)
    head = tl.program_id(0)
    row = tl.program_id(1)
    lane, key, value = _thread(head, WARPS, KEYS, LANES)
    cells = state + tl.load(slots + row).to(tl.int64) * slot_stride + _cells(head, WARPS, KEYS, LANES)
    S = tl.reshape(tl.load(cells), [PER, WARPS, KEYS, LANES, VALUES]).to(tl.float32)
    kk_share = _keys(tl.load(k_k + key), WARPS, KEYS, LANES)
    rate_share = _keys(tl.load(k_a + key), WARPS, KEYS, LANES)
    await_inputs(OVERLAP)  # the slots and their states are older than the kernel before this one
    from_keys, from_values = row * width.to(tl.int64) + key, row * width.to(tl.int64) + value
    k_t = _keys(tl.load(k + from_keys), WARPS, KEYS, LANES)
    a_t = _keys(tl.load(a + from_keys), WARPS, KEYS, LANES)
    w_t = _keys(tl.load(w + from_keys), WARPS, KEYS, LANES)
    r_t = _keys(tl.load(r + from_keys), WARPS, KEYS, LANES)
    v_t = _values(tl.load(v + from_values), WARPS, KEYS, LANES)
    S = _fed(S, k_t, v_t, a_t, w_t, kk_share, rate_share, FLOOR)
    only = tl.arange(0, KEYS)[None, None, :, None, None] == 0  # one token, for one of the lanes over keys
    y = tl.where(only, _over_keys(S * r_t), tl.zeros([1, WARPS, KEYS, LANES, VALUES], tl.float32))
    tl.store(cells, tl.reshape(S, [PER * THREADS, VALUES]).to(state.dtype.element_ty))
    live = lane == 0
    gate = tl.load(g + from_values, mask=live, other=0.0)
    y = _finish(
        y, r + from_values, k + from_values, v + from_values, a + from_values, gate, k_a + value, r_k + value,
        norm_w + value, norm_b + value, live, EPS, WARPS, KEYS, LANES,
    )  # fmt: skip
    tl.store(out + from_values, tl.reshape(y, [THREADS, VALUES]).to(out.dtype.element_ty), mask=live)


@triton.jit(do_not_specialize_on_alignment=["starts", "slots"])  # type: ignore[untyped-decorator]
def _wkv7(  # type: ignore[no-untyped-def]
    r, k, v, a, g, w, k_k, k_a, r_k, norm_w, norm_b, state, starts, slots, out, width, slot_stride,
    EPS: tl.constexpr, FLOOR: tl.constexpr, WARPS: tl.constexpr, KEYS: tl.constexpr, LANES: tl.constexpr,
    OVERLAP: tl.constexpr,
):  # fmt: skip
    """The state has five axes: a thread's keys, warps, lanes over keys, lanes over values, a thread's values.

    Tensors are loaded with two axes, the second contiguous, so that a wide load has one natural layout: rows go to
    lanes, then warps, then a thread's registers. Each thread thus loads its own copy of its inputs, and nothing
    passes through shared memory; reshaping moves no data.
    """
    head = tl.program_id(0)
    sequence = tl.program_id(1)
    first = tl.load(starts + sequence)
    end = tl.load(starts + sequence + 1)
    slot = tl.load(slots + sequence).to(tl.int64)
    if first >= end:  # other sequences have rows, and their programs wait for the kernel before
        return
    width = width.to(tl.int64)

    THREADS: tl.constexpr = WARPS * KEYS * LANES
    PER: tl.constexpr = 64 // KEYS
    VALUES: tl.constexpr = 64 // (WARPS * LANES)
    lane, key, value = _thread(head, WARPS, KEYS, LANES)
    cells = state + slot * slot_stride + _cells(head, WARPS, KEYS, LANES)

    S = tl.reshape(tl.load(cells), [PER, WARPS, KEYS, LANES, VALUES]).to(tl.float32)
    kk_share = _keys(tl.load(k_k + key), WARPS, KEYS, LANES)
    rate_share = _keys(tl.load(k_a + key), WARPS, KEYS, LANES)
    await_inputs(OVERLAP)  # the slots and their states are older than the kernel before this one
    # The next token's vectors are always being loaded while the present token is computed.
    r_next, k_next, a_next, w_next, v_next = _token(r, k, a, w, v, first, end, width, key, value)
    for block in range(first, end, KEYS):
        live = block + lane < end
        at = (block + lane) * width + value
        gate = tl.load(g + at, mask=live, other=0.0)
        y = tl.zeros([1, WARPS, KEYS, LANES, VALUES], tl.float32)
        for row in range(block, min(block + KEYS, end)):
            r_t = _keys(r_next, WARPS, KEYS, LANES)
            k_t = _keys(k_next, WARPS, KEYS, LANES)
            a_t = _keys(a_next, WARPS, KEYS, LANES)
            w_t = _keys(w_next, WARPS, KEYS, LANES)
            v_t = _values(v_next, WARPS, KEYS, LANES)
            r_next, k_next, a_next, w_next, v_next = _token(r, k, a, w, v, row + 1, end, width, key, value)
            S = _fed(S, k_t, v_t, a_t, w_t, kk_share, rate_share, FLOOR)
            here = tl.arange(0, KEYS)[None, None, :, None, None] == row - block
            y = tl.where(here, _over_keys(S * r_t), y)
            S = S.to(state.dtype.element_ty).to(tl.float32)
        y = _finish(
            y, r + at, k + at, v + at, a + at, gate, k_a + value, r_k + value, norm_w + value, norm_b + value, live,
            EPS, WARPS, KEYS, LANES,
        )  # fmt: skip
        tl.store(out + at, tl.reshape(y, [THREADS, VALUES]).to(out.dtype.element_ty), mask=live)
    tl.store(cells, tl.reshape(S, [PER * THREADS, VALUES]).to(state.dtype.element_ty))


def reference(
    r: Tensor,
    k: Tensor,
    v: Tensor,
    a: Tensor,
    g: Tensor,
    w: Tensor,
    k_k: Tensor,
    k_a: Tensor,
    r_k: Tensor,
    norm_w: Tensor,
    norm_b: Tensor,
    eps: float,
    state: Tensor,
    rows: Rows,
    out: Tensor,
) -> None:
    """Compute the formulas of this module's docstring in float64, one token of one sequence at a time."""
    heads = (-1, HEAD)
    for slot, first, end in zip(rows.slots.tolist(), rows.starts.tolist(), rows.starts.tolist()[1:], strict=False):
        for row in range(first, end):
            r_t, k_t, v_t, a_t, w_t = (x[row].double().view(heads) for x in (r, k, v, a, w))
            kk = k_t * k_k.double().view(heads)
            kk = kk / kk.norm(dim=1, keepdim=True).clamp_min(NORM_FLOOR)
            k_t = k_t * (1 + (a_t - 1) * k_a.double().view(heads))
            S = state[slot].double()
            u = torch.einsum("hk,hkv->hv", kk, S)
            S = w_t[:, :, None] * S - torch.einsum("hk,hv->hkv", kk * a_t, u) + torch.einsum("hk,hv->hkv", k_t, v_t)
            state[slot] = S
            y = functional.layer_norm(torch.einsum("hk,hkv->hv", r_t, S), (HEAD,), eps=eps)
            y = y * norm_w.double().view(heads) + norm_b.double().view(heads)
            y = y + (r_t * k_t * r_k.double().view(heads)).sum(1, keepdim=True) * v_t
            out[row] = y.view(-1) * g[row].double()


def variants() -> list[Variant]:
    """Return the variants to compile: the three pairs of types that profiles have; heads are alike in all models."""
    pairs = [(torch.float16, "fp32"), (torch.float16, "fp16"), (torch.float32, "fp32")]
    return [_variant(*pair, rows) for pair in pairs for rows in (0, 1, 512)]


def _variant(dtype: torch.dtype, state: str, rows: int) -> Variant:
    """Return the variant of a decode step of so many rows; 0: of prompts."""
    kind = "fp16" if dtype == torch.float16 else "fp32"
    signature = dict.fromkeys(("r", "k", "v", "a", "g", "out"), f"*{kind}:16") | {"state": f"*{state}:16"}
    signature |= dict.fromkeys(("w", "k_k", "k_a", "r_k", "norm_w", "norm_b"), "*fp32:16")
    signature |= {"starts": "*i32", "slots": "*i32", "width": "i32:16", "slot_stride": "i32:16"}
    constants, options = _build(dtype, 64e-5)
    if not rows:
        return Variant(f"wkv7 {kind} state {state}", _wkv7, signature, constants, options)
    del signature["starts"]
    options |= launch_config.decode_registers(rows)
    return Variant(f"wkv7 decode {rows} {kind} state {state}", _wkv7_decode, signature, constants, options)
