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

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.nn import functional

from rwkv_kernels.gpu import launch
from rwkv_kernels.gpu.rows import Rows
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
    """Feed every row to its sequence's state and write what the layer reads from it.

    r, k, v, a, g, out: [R, D] fp16 or fp32; w: [R, D] fp32, the decay itself; k_k, k_a, r_k, norm_w, norm_b: [D] fp32;
    eps: of the group norm; state: [slots, H, 64 (k), 64 (v)] fp32 or fp16, a view whose slots may lie apart, changed in
    place. An fp16 state is rounded after every token.
    """
    assert state.stride()[1:] == (HEAD * HEAD, HEAD, 1)
    shape = launch.recurrence(r.dtype)
    _wkv7[r.shape[1] // HEAD, rows.slots.shape[0]](
        r, k, v, a, g, w, k_k, k_a, r_k, norm_w, norm_b, state, rows.starts, rows.slots, out,
        r.shape[1], state.stride(0),
        EPS=eps, FLOOR=NORM_FLOOR, **_axes(shape), num_warps=shape.warps,
    )  # fmt: skip


def _axes(shape: launch.Recurrence) -> dict[str, int]:
    return {"WARPS": shape.warps, "KEYS": shape.keys, "VALUES": shape.values}


@triton.jit
def _token(r, k, a, w, v, row, end, width, key, value):  # type: ignore[no-untyped-def]
    """What one token feeds a head: four vectors over the keys and one over the values, zeros past the end."""
    at = row * width
    live = row < end
    return (
        tl.load(r + at + key, mask=live, other=0.0),
        tl.load(k + at + key, mask=live, other=0.0),
        tl.load(a + at + key, mask=live, other=0.0),
        tl.load(w + at + key, mask=live, other=0.0),
        tl.load(v + at + value, mask=live, other=0.0),
    )


@triton.jit
def _over_keys(x):  # type: ignore[no-untyped-def]
    return tl.sum(tl.sum(x, axis=0, keep_dims=True), axis=2, keep_dims=True)


@triton.jit
def _over_values(x):  # type: ignore[no-untyped-def]
    return tl.sum(tl.sum(tl.sum(x, axis=4, keep_dims=True), axis=3, keep_dims=True), axis=1, keep_dims=True)


@triton.jit(do_not_specialize_on_alignment=["starts", "slots"])  # type: ignore[untyped-decorator]
def _wkv7(  # type: ignore[no-untyped-def]
    r, k, v, a, g, w, k_k, k_a, r_k, norm_w, norm_b, state, starts, slots, out, width, slot_stride,
    EPS: tl.constexpr, FLOOR: tl.constexpr, WARPS: tl.constexpr, KEYS: tl.constexpr, VALUES: tl.constexpr,
):  # fmt: skip
    """Five axes, by who holds them: a thread's keys, warps, lanes over keys, lanes over values, a thread's values.

    They stand so that the layout triton picks for the state's wide loads puts each axis there. Vectors over keys are
    spread over warps and value lanes by hand: every thread loads its own copy, and none passes through shared memory.
    """
    head = tl.program_id(0)
    sequence = tl.program_id(1)
    first = tl.load(starts + sequence)
    end = tl.load(starts + sequence + 1)
    slot = tl.load(slots + sequence).to(tl.int64)
    width = width.to(tl.int64)

    PER: tl.constexpr = 64 // KEYS
    LANES: tl.constexpr = 64 // WARPS // VALUES
    lane = tl.arange(0, KEYS)[None, None, :, None, None]
    key = tl.arange(0, PER)[:, None, None, None, None] + lane * PER
    value = (
        tl.arange(0, WARPS)[None, :, None, None, None] * (64 // WARPS)
        + tl.arange(0, LANES)[None, None, None, :, None] * VALUES
        + tl.arange(0, VALUES)[None, None, None, None, :]
    )
    cells = state + slot * slot_stride + head * 4096 + key * 64 + value
    key = head * 64 + tl.broadcast_to(key, [PER, WARPS, KEYS, LANES, 1])
    value = head * 64 + tl.broadcast_to(value, [1, WARPS, KEYS, LANES, VALUES])

    S = tl.load(cells).to(tl.float32)
    kk_share = tl.load(k_k + key)
    rate_share = tl.load(k_a + key)
    # The next token's vectors are always on their way while the present one is worked on.
    r_next, k_next, a_next, w_next, v_next = _token(r, k, a, w, v, first, end, width, key, value)
    for block in range(first, end, KEYS):
        rows = block + lane
        live = rows < end
        at = rows * width + value
        gate = tl.load(g + at, mask=live, other=0.0)
        y = tl.zeros([1, WARPS, KEYS, LANES, VALUES], tl.float32)
        for row in range(block, min(block + KEYS, end)):
            r_t = r_next.to(tl.float32)
            k_t = k_next.to(tl.float32)
            a_t = a_next.to(tl.float32)
            w_t = w_next
            v_t = v_next.to(tl.float32)
            r_next, k_next, a_next, w_next, v_next = _token(r, k, a, w, v, row + 1, end, width, key, value)
            kk = k_t * kk_share
            scale = 1.0 / tl.maximum(tl.sqrt(_over_keys(kk * kk)), FLOOR)
            u = _over_keys(S * kk) * scale * scale
            k_t = k_t * (1.0 + (a_t - 1.0) * rate_share)
            S = S * w_t + (k_t * v_t - kk * a_t * u)
            y = tl.where(lane == row - block, _over_keys(S * r_t), y)
            S = S.to(state.dtype.element_ty).to(tl.float32)
        # Each key lane now holds the reading of one token; these rows are in the first cache already.
        r_b = tl.load(r + at, mask=live, other=0.0).to(tl.float32)
        k_b = tl.load(k + at, mask=live, other=0.0).to(tl.float32)
        a_b = tl.load(a + at, mask=live, other=0.0).to(tl.float32)
        v_b = tl.load(v + at, mask=live, other=0.0).to(tl.float32)
        weight = tl.load(norm_w + value)
        bias = tl.load(norm_b + value)
        k_b *= 1.0 + (a_b - 1.0) * tl.load(k_a + value)
        bonus = _over_values(r_b * k_b * tl.load(r_k + value))
        y -= _over_values(y) / 64
        y = y * tl.rsqrt(_over_values(y * y) / 64 + EPS) * weight + bias
        y = (y + bonus * v_b) * gate.to(tl.float32)
        tl.store(out + at, y.to(out.dtype.element_ty), mask=live)
    tl.store(cells, S.to(state.dtype.element_ty))


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
    """The formulas of the head of this file in float64, one token of one sequence at a time."""
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
    """The three pairs of types a profile has; a head is a head in any size of model."""
    pairs = [(torch.float16, "fp32"), (torch.float16, "fp16"), (torch.float32, "fp32")]
    return [_variant(dtype, state) for dtype, state in pairs]


def _variant(dtype: torch.dtype, state: str) -> Variant:
    kind = "fp16" if dtype == torch.float16 else "fp32"
    shape = launch.recurrence(dtype)
    signature = dict.fromkeys(("r", "k", "v", "a", "g", "out"), f"*{kind}:16") | {"state": f"*{state}:16"}
    signature |= dict.fromkeys(("w", "k_k", "k_a", "r_k", "norm_w", "norm_b"), "*fp32:16")
    signature |= {"starts": "*i32", "slots": "*i32", "width": "i32:16", "slot_stride": "i32:16"}
    constants = {"EPS": 64e-5, "FLOOR": NORM_FLOOR} | _axes(shape)
    return Variant(f"wkv7 {kind} state {state}", _wkv7, signature, constants, {"num_warps": shape.warps})
