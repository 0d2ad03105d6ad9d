"""The WKV-7 recurrence in chunks of 16 tokens, with matrix products: for few long prompts, where walking the tokens one
by one leaves most of a GPU idle. The same numbers as wkv7 to fp32's precision, not the same bits.

Within a chunk, with P_t the product of the decays w_1 .. w_t (by key; w > exp(-exp(-0.5)) = 0.545, so 1 / P < 17000):

    alpha = kk * P_{t-1};  rho = r * P;  beta = b / P;  kappa = k' / P           [16, 64], b = kk * a
    (I + L) U = alpha S + N V,  L = below(alpha beta^T), N = below(alpha kappa^T)
    Y = rho S + (on or below)(rho kappa^T) V - (on or below)(rho beta^T) U
    S <- diag(P_16) (S + kappa^T V - beta^T U)

U is what the chunk's tokens read with kk. It is linear in S, so a chunk acts as S <- M S + G, Y = Q S + Y0, and
`_prepare` finds M, G, Q and Y0 of all chunks at once. Only `_scan`, one product a chunk, goes through a prompt in
order, columns of S apart from each other; it leaves in G's place the state each chunk begins with. `_finish` reads it.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from rwkv_kernels.gpu import launch_config
from rwkv_kernels.gpu.row_layout import Rows
from rwkv_kernels.gpu.variant import Variant
from rwkv_kernels.gpu.wkv7 import HEAD, NORM_FLOOR

CHUNK = 16
SEARCHED = (
    64  # the least number of sequences that a chunk searches for its own: one compiled kernel for all smaller numbers
)
PLAN = 2 * HEAD * HEAD + 2 * CHUNK * HEAD  # fp32 numbers of one chunk and head: M, G, Q, Y0


def room(rows: int, sequences: int, heads: int) -> int:
    """Return the bytes that a launch allocates for M, G, Q and Y0 of its chunks."""
    return 4 * PLAN * heads * (rows // CHUNK + sequences)


def wkv7_chunked(
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
    """Compute the same as wkv7.wkv7. An fp16 state is rounded once, at the end; `room` bytes are allocated."""
    count, width = r.shape
    heads, sequences = width // HEAD, rows.slots.shape[0]
    assert state.stride()[1:] == (HEAD * HEAD, HEAD, 1)
    chunks = count // CHUNK + sequences  # an upper bound: every sequence may end in a partial chunk
    plans = torch.empty(chunks * heads * PLAN, dtype=torch.float32, device=r.device)
    constants = {"CHUNK": CHUNK, "PRECISION": launch_config.fp32_products(), "enable_fp_fusion": True}
    search = {"SEQUENCES": max(SEARCHED, triton.next_power_of_2(sequences))}
    _prepare[chunks, heads](
        r, k, v, a, w, k_k, k_a, plans, rows.starts, sequences, width, heads,
        FLOOR=NORM_FLOOR, **constants, **search, num_warps=launch_config.PREPARE_WARPS, num_stages=1,
    )  # fmt: skip
    _scan[heads, sequences, HEAD // launch_config.SCAN_VALUES](
        plans, state, rows.starts, rows.slots, state.stride(0), heads,
        VALUES=launch_config.SCAN_VALUES, **constants, num_warps=launch_config.SCAN_WARPS, num_stages=1,
    )  # fmt: skip
    _finish[chunks, heads](
        r, k, v, a, g, k_a, r_k, norm_w, norm_b, plans, rows.starts, sequences, out, width, heads,
        EPS=eps, **constants, **search, num_warps=launch_config.FINISH_WARPS, num_stages=1,
    )  # fmt: skip


@triton.jit  # type: ignore[untyped-decorator]
def _place(starts, sequences, chunk, CHUNK: tl.constexpr, SEQUENCES: tl.constexpr):  # type: ignore[no-untyped-def]
    """Return the first row and the end of a chunk; none (end <= first) for a number that no chunk has.

    Sequence i's chunks are numbered from starts[i] // CHUNK + i: with gaps, but known without counting.
    """
    each = tl.arange(0, SEQUENCES)
    begins = tl.load(starts + each, mask=each < sequences, other=0) // CHUNK + each
    sequence = tl.sum(((begins <= chunk) & (each < sequences)).to(tl.int32), axis=0) - 1
    begin = tl.load(starts + sequence)
    first = begin + (chunk - begin // CHUNK - sequence) * CHUNK
    return first, tl.minimum(first + CHUNK, tl.load(starts + sequence + 1))


@triton.jit
def _tile(x, at, live, other):  # type: ignore[no-untyped-def]
    return tl.load(x + at, mask=live, other=other).to(tl.float32)


@triton.jit(do_not_specialize=["sequences", "heads"])  # type: ignore[untyped-decorator]
def _prepare(  # type: ignore[no-untyped-def]
    r, k, v, a, w, k_k, k_a, plans, starts, sequences, width, heads,
    FLOOR: tl.constexpr, CHUNK: tl.constexpr, PRECISION: tl.constexpr, SEQUENCES: tl.constexpr,
):  # fmt: skip
    """Compute M [64, 64], G [64, 64], Q [16, 64] and Y0 [16, 64] of one chunk and head. Rows past the end are
    ignored."""
    chunk = tl.program_id(0)
    head = tl.program_id(1)
    first, end = _place(starts, sequences, chunk, CHUNK, SEQUENCES)
    if first >= end:
        return
    token = tl.arange(0, CHUNK)[:, None]
    column = tl.arange(0, 64)[None, :]
    at = (first + token) * width.to(tl.int64) + head * 64 + column
    live = first + token < end

    other = tl.arange(0, CHUNK)[None, :]
    row = tl.arange(0, 64)[:, None]
    plan = plans + (chunk * heads + head).to(tl.int64) * (2 * 4096 + 2 * CHUNK * 64)

    rate = _tile(a, at, live, 0.0)
    key = _tile(k, at, live, 0.0)
    decay = tl.load(w + at, mask=live, other=1.0)
    P = tl.cumprod(decay, axis=0)
    whole = tl.sum(tl.where(token == CHUNK - 1, P, 0.0), axis=0)[None, :]
    kk = key * tl.load(k_k + head * 64 + column)
    kk = kk / tl.maximum(tl.sqrt(tl.sum(kk * kk, axis=1)), FLOOR)[:, None]
    alpha = kk * (P / decay)
    beta = kk * rate / P
    kappa = key * (1.0 + (rate - 1.0) * tl.load(k_a + head * 64 + column)) / P

    # (I + L)^-1 row by row, because a product of powers of L would lose precision to cancellation.
    L_t = tl.where(token < other, tl.dot(beta, tl.trans(alpha), input_precision=PRECISION), 0.0)
    inverse = tl.where(token == other, 1.0, 0.0)
    for step in range(1, CHUNK):
        weights = tl.sum(tl.where(other == step, L_t, 0.0), axis=1)[:, None]
        inverse -= tl.where(token == step, tl.sum(weights * inverse, axis=0)[None, :], 0.0)

    # This order keeps the fewest matrices alive at once.
    W = tl.dot(inverse, alpha, input_precision=PRECISION)
    M = tl.where(row == column, whole, 0.0) - tl.dot(tl.trans(beta * whole), W, input_precision=PRECISION)
    tl.store(plan + row * 64 + column, M)
    rho = _tile(r, at, live, 0.0) * P
    read = tl.where(token >= other, tl.dot(rho, tl.trans(beta), input_precision=PRECISION), 0.0)
    tl.store(plan + 8192 + token * 64 + column, rho - tl.dot(read, W, input_precision=PRECISION))
    N = tl.where(token > other, tl.dot(alpha, tl.trans(kappa), input_precision=PRECISION), 0.0)
    V = _tile(v, at, live, 0.0)
    U0 = tl.dot(inverse, tl.dot(N, V, input_precision=PRECISION), input_precision=PRECISION)
    Y0 = -tl.dot(read, U0, input_precision=PRECISION)
    read = tl.where(token >= other, tl.dot(rho, tl.trans(kappa), input_precision=PRECISION), 0.0)
    tl.store(plan + 8192 + CHUNK * 64 + token * 64 + column, tl.dot(read, V, Y0, input_precision=PRECISION))
    G = tl.dot(tl.trans(beta * -whole), U0, input_precision=PRECISION)
    G = tl.dot(tl.trans(kappa * whole), V, G, input_precision=PRECISION)
    tl.store(plan + 4096 + row * 64 + column, G)


@triton.jit(do_not_specialize=["heads"])  # type: ignore[untyped-decorator]
def _scan(  # type: ignore[no-untyped-def]
    plans, state, starts, slots, slot_stride, heads,
    VALUES: tl.constexpr, CHUNK: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Take VALUES columns of one head's state through all chunks of its sequence."""
    head = tl.program_id(0)
    sequence = tl.program_id(1)
    begin = tl.load(starts + sequence)
    chunks = tl.cdiv(tl.load(starts + sequence + 1) - begin, CHUNK)
    row = tl.arange(0, 64)[:, None]
    column = tl.program_id(2) * VALUES + tl.arange(0, VALUES)[None, :]
    cells = state + tl.load(slots + sequence).to(tl.int64) * slot_stride + head * 4096 + row * 64 + column
    step = heads.to(tl.int64) * (2 * 4096 + 2 * CHUNK * 64)
    plan = plans + (begin // CHUNK + sequence) * step + head * (2 * 4096 + 2 * CHUNK * 64)

    move = plan + row * 64 + tl.arange(0, 64)[None, :]
    gain = plan + 4096 + row * 64 + column

    S = tl.load(cells).to(tl.float32)
    M_next = tl.load(move, mask=chunks > 0, other=0.0)
    G_next = tl.load(gain, mask=chunks > 0, other=0.0)
    for chunk in range(chunks):
        M = M_next
        G = G_next
        tl.debug_barrier()  # all threads have read what each of them overwrites below
        M_next = tl.load(move + (chunk + 1) * step, mask=chunk + 1 < chunks, other=0.0)
        G_next = tl.load(gain + (chunk + 1) * step, mask=chunk + 1 < chunks, other=0.0)
        tl.store(gain + chunk * step, S)
        S = tl.dot(M, S, G, input_precision=PRECISION)
    tl.store(cells, S.to(state.dtype.element_ty))


@triton.jit(do_not_specialize=["sequences", "heads"])  # type: ignore[untyped-decorator]
def _finish(  # type: ignore[no-untyped-def]
    r, k, v, a, g, k_a, r_k, norm_w, norm_b, plans, starts, sequences, out, width, heads,
    EPS: tl.constexpr, CHUNK: tl.constexpr, PRECISION: tl.constexpr, SEQUENCES: tl.constexpr,
):  # fmt: skip
    """Compute Y of one chunk and head, then its norm, bonus and gate as in wkv7."""
    chunk = tl.program_id(0)
    head = tl.program_id(1)
    first, end = _place(starts, sequences, chunk, CHUNK, SEQUENCES)
    if first >= end:
        return
    token = tl.arange(0, CHUNK)[:, None]
    column = tl.arange(0, 64)[None, :]
    at = (first + token) * width.to(tl.int64) + head * 64 + column
    live = first + token < end

    plan = plans + (chunk * heads + head).to(tl.int64) * (2 * 4096 + 2 * CHUNK * 64)
    S = tl.load(plan + 4096 + tl.arange(0, 64)[:, None] * 64 + column)
    Q = tl.load(plan + 8192 + token * 64 + column)
    y = tl.dot(Q, S, tl.load(plan + 8192 + CHUNK * 64 + token * 64 + column), input_precision=PRECISION)
    y -= (tl.sum(y, axis=1) / 64)[:, None]
    y *= tl.rsqrt(tl.sum(y * y, axis=1) / 64 + EPS)[:, None]
    y = y * tl.load(norm_w + head * 64 + column) + tl.load(norm_b + head * 64 + column)
    key = _tile(k, at, live, 0.0) * (1.0 + (_tile(a, at, live, 0.0) - 1.0) * tl.load(k_a + head * 64 + column))
    bonus = tl.sum(_tile(r, at, live, 0.0) * key * tl.load(r_k + head * 64 + column), axis=1)[:, None]
    y = (y + bonus * _tile(v, at, live, 0.0)) * _tile(g, at, live, 0.0)
    tl.store(out + at, y.to(out.dtype.element_ty), mask=live)


def variants() -> list[Variant]:
    """Return the variants to compile: the three launches for fp16 activations and few sequences."""
    half = dict.fromkeys(("r", "k", "v", "a", "g", "out"), "*fp16:16")
    full = dict.fromkeys(("w", "k_k", "k_a", "r_k", "norm_w", "norm_b", "plans", "state"), "*fp32:16")
    every = half | full | {"starts": "*i32", "slots": "*i32", "sequences": "i32", "width": "i32:16", "heads": "i32:16"}
    every |= {"slot_stride": "i32:16"}
    constants = {"CHUNK": CHUNK, "PRECISION": "tf32x3", "SEQUENCES": 4, "EPS": 64e-5, "FLOOR": NORM_FLOOR}
    constants["VALUES"] = launch_config.SCAN_VALUES
    launches = [(_prepare, launch_config.PREPARE_WARPS), (_scan, launch_config.SCAN_WARPS),
                (_finish, launch_config.FINISH_WARPS)]  # fmt: skip
    return [
        Variant(
            f"wkv7_chunked {kernel.__name__}", kernel,
            {name: kind for name, kind in every.items() if name in kernel.arg_names},
            {name: value for name, value in constants.items() if name in kernel.arg_names},
            {"num_warps": warps, "num_stages": 1},
        )
        for kernel, warps in launches
    ]  # fmt: skip
