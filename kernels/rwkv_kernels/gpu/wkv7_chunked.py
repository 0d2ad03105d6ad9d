"""The WKV-7 recurrence in chunks of 16 tokens, with matrix products: for prompts, which the token-sequential wkv7 walks
token by token. The same numbers to the precision of the products, not the same bits.

Within a chunk, with P_t the product of the decays w_1 .. w_t (by key; w > exp(-exp(-0.5)) = 0.545, so 1 / P < 17000):

    alpha = kk * P_{t-1};  rho = r * P;  beta = b / P;  kappa = k' / P           [16, 64], b = kk * a
    (I + L) U = alpha S + N V,  L = below(alpha beta^T), N = below(alpha kappa^T)
    Y = rho S + (on or below)(rho kappa^T) V - (on or below)(rho beta^T) U
    S <- diag(P_16) (S + kappa^T V - beta^T U)

U is what the chunk's tokens read with kk. Formulas: the WY form of a product of rank-one updates, as in the delta rule
of Yang et al. 2024, "Parallelizing Linear Transformers with the Delta Rule". With (I + L)^-1 multiplied in,

    U = A S + B V;   Y = C S + D V;   S <- diag(P_16) S + E^T V + F^T U

where A, C, E, F [16, 64] and B, D [16, 16] do not depend on S: `_prepare` finds them for all chunks at once, and
`_scan` takes each head of each sequence through its chunks, with S in registers.
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
CHUNK_ROWS = tl.constexpr(CHUNK)
STAGES = tl.constexpr(launch_config.SCAN_STAGES)
SEARCHED = (64, 1024)  # numbers of sequences among which a chunk searches its own: two kernels
WIDE = tl.constexpr(CHUNK * HEAD)
NARROW = tl.constexpr(CHUNK * CHUNK)
PLAN = tl.constexpr(4 * CHUNK * HEAD)  # numbers of one chunk and head: A, C, E, F
SIDE = tl.constexpr(HEAD + CHUNK + 2 * CHUNK * CHUNK)  # in fp32: P_16, the bonus of each token, B, D
FP16_DIVISOR = tl.constexpr(16.0)


def room(rows: int, sequences: int, heads: int, dtype: torch.dtype) -> int:
    """Return the bytes that a launch allocates for the plans of its chunks."""
    each: int = dtype.itemsize * PLAN.value + 4 * SIDE.value
    return heads * (rows // CHUNK + sequences) * each


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
    """Compute the same as wkv7.wkv7. An fp16 state is rounded once, at the end; a number that is not finite spoils all
    tokens of its chunk. `room` bytes are allocated."""
    count, width = r.shape
    heads, sequences = width // HEAD, rows.slots.shape[0]
    assert state.stride()[1:] == (HEAD * HEAD, HEAD, 1)
    chunks = count // CHUNK + sequences  # an upper bound: every sequence may end in a partial chunk
    plans = torch.empty(chunks * heads * PLAN.value, dtype=r.dtype, device=r.device)
    sides = torch.empty(chunks * heads * SIDE.value, dtype=torch.float32, device=r.device)
    prepare, scan = launch_config.chunk_options()
    precision = launch_config.chunk_products(r.dtype)
    _prepare[heads, chunks](
        r, k, a, w, k_k, k_a, r_k, plans, sides, rows.starts, sequences, width, heads, FLOOR=NORM_FLOOR,
        PRECISION=precision, SEQUENCES=searched(sequences), **prepare,
    )  # fmt: skip
    _scan[heads, sequences](
        v, g, norm_w, norm_b, plans, sides, state, rows.starts, rows.slots, out, width, heads, state.stride(0),
        EPS=eps, PRECISION=precision, **scan,
    )  # fmt: skip


def searched(sequences: int) -> int:
    """Return the number of sequences for which the plans' kernel is compiled."""
    return next(most for most in SEARCHED if sequences <= most)


@triton.jit  # type: ignore[untyped-decorator]
def _place(starts, sequences, chunk, SEQUENCES: tl.constexpr):  # type: ignore[no-untyped-def]
    """Return the first row and the end of a chunk; none (end <= first) for a number that no chunk has.

    Sequence i's chunks are numbered from starts[i] // CHUNK + i: with gaps, but known without counting.
    """
    each = tl.arange(0, SEQUENCES)
    begins = tl.load(starts + each, mask=each < sequences, other=0) // CHUNK_ROWS + each
    sequence = tl.sum(((begins <= chunk) & (each < sequences)).to(tl.int32), axis=0) - 1
    begin = tl.load(starts + sequence)
    first = begin + (chunk - begin // CHUNK_ROWS - sequence) * CHUNK_ROWS
    return first, tl.minimum(first + CHUNK_ROWS, tl.load(starts + sequence + 1))


@triton.jit  # type: ignore[untyped-decorator]
def _rounded(x, PRECISION: tl.constexpr):  # type: ignore[no-untyped-def]
    """Round to the 11 bits that a tf32 product takes of a factor; it would cut the others off, always towards zero."""
    if PRECISION == "tf32":
        rounded = ((x.to(tl.int32, bitcast=True) + 0x1000) & -0x2000).to(tl.float32, bitcast=True)
        x = tl.where(x == x, rounded, x)  # noqa: PLR0124  a NaN of a GPU has bits that the sum would turn into a zero's
    return x


@triton.jit
def _product(x, y, add):  # type: ignore[no-untyped-def]
    """Return add + x y with 22 bits of each factor, or 2^-25: high and low halves in fp16, without the product of both
    lows."""
    x_high, y_high = x.to(tl.float16), y.to(tl.float16)
    x_low, y_low = (x - x_high.to(tl.float32)).to(tl.float16), (y - y_high.to(tl.float32)).to(tl.float16)
    return tl.dot(x_high, y_high, tl.dot(x_high, y_low, tl.dot(x_low, y_high, add)))


@triton.jit
def _inverse(L):  # type: ignore[no-untyped-def]
    """Return (I + L)^-1 of a strictly lower triangular L [16, 16].

    Both halves on the diagonal first, (I - H)(I + H^2)(I + H^4), then what couples them. A sum of powers of the whole L
    would cancel numbers in the thousands; those of a half stay below 36 even for one token repeated.
    """
    token, other = tl.arange(0, CHUNK_ROWS)[:, None], tl.arange(0, CHUNK_ROWS)[None, :]
    half = tl.where(token // (CHUNK_ROWS // 2) == other // (CHUNK_ROWS // 2), L, 0.0)
    nothing = tl.zeros((CHUNK_ROWS, CHUNK_ROWS), tl.float32)
    square = _product(half, half, nothing)
    halves = tl.where(token == other, 1.0, 0.0) - half
    halves = _product(halves, square, halves)
    halves = _product(halves, _product(square, square, nothing), halves)
    return _product(-halves, _product(L - half, halves, nothing), halves)


@triton.jit(do_not_specialize=["sequences", "heads"])  # type: ignore[untyped-decorator]
def _prepare(  # type: ignore[no-untyped-def]
    r, k, a, w, k_k, k_a, r_k, plans, sides, starts, sequences, width, heads, FLOOR: tl.constexpr,
    PRECISION: tl.constexpr, SEQUENCES: tl.constexpr,
):  # fmt: skip
    """Compute the plan of one chunk and head. Rows past the end neither add nor remove. Grid: (heads, chunks)."""
    head = tl.program_id(0)
    chunk = tl.program_id(1)
    first, end = _place(starts, sequences, chunk, SEQUENCES)
    if first >= end:
        return
    token, other = tl.arange(0, CHUNK_ROWS)[:, None], tl.arange(0, CHUNK_ROWS)[None, :]
    column = tl.arange(0, 64)[None, :]
    at = (first + token) * width.to(tl.int64) + head * 64 + column
    live = first + token < end
    key = tl.load(k + at, mask=live, other=0.0).to(tl.float32)
    rate = tl.load(a + at, mask=live, other=0.0).to(tl.float32)
    reader = tl.load(r + at, mask=live, other=0.0)
    kk = key * tl.load(k_k + head * 64 + column)
    kk = kk * tl.rsqrt(tl.maximum(tl.sum(kk * kk, axis=1), FLOOR * FLOOR))[:, None]
    replaced = key * (1.0 + (rate - 1.0) * tl.load(k_a + head * 64 + column))
    bonus = tl.sum(reader.to(tl.float32) * replaced * tl.load(r_k + head * 64 + column), axis=1)
    faded = tl.log2(tl.load(w + at, mask=live, other=1.0))

    # P is relative to its geometric middle, which keeps it and 1 / P within 2^7, and r and k' are divided by
    # FP16_DIVISOR: so products in fp16 are finite for activations of up to 8,000.
    half = 0.5 * tl.sum(faded, axis=0)[None, :]
    reach = tl.cumsum(faded, axis=0) - half
    middle = tl.exp2(half)
    kind = plans.dtype.element_ty
    alpha = (kk * tl.exp2(reach - faded)).to(kind)
    back = tl.exp2(-reach)
    beta = kk * rate * back
    kappa = replaced * back

    place = (chunk * heads + head).to(tl.int64)
    wide = plans + place * PLAN + token * 64 + column
    tl.store(wide + 2 * WIDE, (kappa * middle).to(kind))
    tl.store(wide + 3 * WIDE, (beta * -middle).to(kind))
    beta, kappa = tl.trans(beta.to(kind)), tl.trans((kappa / FP16_DIVISOR).to(kind))
    rho = (reader.to(tl.float32) * (tl.exp2(reach) / FP16_DIVISOR)).to(kind)
    L = tl.where(token > other, tl.dot(alpha, beta, input_precision=PRECISION), 0.0)
    N = tl.where(token > other, tl.dot(alpha, kappa, input_precision=PRECISION), 0.0).to(kind)
    by_beta = tl.where(token >= other, tl.dot(rho, beta, input_precision=PRECISION), 0.0).to(kind)
    by_kappa = tl.where(token >= other, tl.dot(rho, kappa, input_precision=PRECISION), 0.0)
    inverse = _inverse(L).to(kind)
    A = tl.dot(inverse, alpha, input_precision=PRECISION)
    B = tl.dot(inverse, N, input_precision=PRECISION)
    tl.store(wide, (A * middle).to(kind))
    C = rho.to(tl.float32) - tl.dot(by_beta, A.to(kind), input_precision=PRECISION)
    tl.store(wide + WIDE, (C * middle * FP16_DIVISOR).to(kind))
    D = by_kappa - tl.dot(by_beta, B.to(kind), input_precision=PRECISION)
    side = sides + place * SIDE
    narrow = side + 64 + CHUNK_ROWS + token * CHUNK_ROWS + other
    tl.store(narrow, _rounded(B * FP16_DIVISOR, PRECISION))
    tl.store(narrow + NARROW, _rounded(D * (FP16_DIVISOR * FP16_DIVISOR), PRECISION))
    tl.store(side + column, middle * middle)
    tl.store(side + 64 + tl.arange(0, CHUNK_ROWS), bonus)


@triton.jit(do_not_specialize=["heads"])  # type: ignore[untyped-decorator]
def _scan(  # type: ignore[no-untyped-def]
    v, g, norm_w, norm_b, plans, sides, state, starts, slots, out, width, heads, slot_stride, EPS: tl.constexpr,
    PRECISION: tl.constexpr,
):  # fmt: skip
    """Feed all chunks of one sequence to one head's state. Grid: (heads, sequences)."""
    head = tl.program_id(0)
    sequence = tl.program_id(1)
    begin = tl.load(starts + sequence)
    end = tl.load(starts + sequence + 1)
    if begin >= end:
        return
    token, other = tl.arange(0, CHUNK_ROWS)[:, None], tl.arange(0, CHUNK_ROWS)[None, :]
    key, value = tl.arange(0, 64)[:, None], tl.arange(0, 64)[None, :]
    column = head * 64 + value
    cells = state + tl.load(slots + sequence).to(tl.int64) * slot_stride + head * 4096 + key * 64 + value
    S = tl.load(cells).to(tl.float32)
    chunk = ((begin // CHUNK_ROWS + sequence) * heads + head).to(tl.int64)
    wide, side = plans + chunk * PLAN + token * 64 + value, sides + chunk * SIDE
    for first in tl.range(begin, end, CHUNK_ROWS, num_stages=STAGES):
        at = (first + token) * width.to(tl.int64) + column
        live = first + token < end
        V = tl.load(v + at, mask=live, other=0.0)
        V32, narrow = V.to(tl.float32), side + 64 + CHUNK_ROWS + token * CHUNK_ROWS + other
        U = tl.dot(tl.load(narrow), V32, input_precision=PRECISION)
        rounded = _rounded(S, PRECISION)
        U = tl.dot(tl.load(wide).to(tl.float32), rounded, U, input_precision=PRECISION)
        y = tl.dot(tl.load(narrow + NARROW), V32, input_precision=PRECISION)
        y = tl.dot(tl.load(wide + WIDE).to(tl.float32), rounded, y, input_precision=PRECISION)
        S = S * tl.load(side + tl.arange(0, 64))[:, None]
        S = tl.dot(tl.trans(tl.load(wide + 2 * WIDE)), V, S, input_precision=PRECISION)
        F = tl.trans(tl.load(wide + 3 * WIDE)).to(tl.float32)
        S = tl.dot(F, _rounded(U, PRECISION), S, input_precision=PRECISION)

        y -= (tl.sum(y, axis=1) / 64)[:, None]
        y *= tl.rsqrt(tl.sum(y * y, axis=1) / 64 + EPS)[:, None]
        bonus = tl.load(side + 64 + tl.arange(0, CHUNK_ROWS))[:, None]
        gate = tl.load(g + at, mask=live, other=0.0).to(tl.float32)
        y = (y * tl.load(norm_w + column) + tl.load(norm_b + column) + bonus * V32) * gate
        tl.store(out + at, y.to(out.dtype.element_ty), mask=live)
        wide += heads.to(tl.int64) * PLAN
        side += heads.to(tl.int64) * SIDE
    tl.store(cells, S.to(state.dtype.element_ty))


def variants() -> list[Variant]:
    """Return the variants to compile: both launches for fp16 activations."""
    half = dict.fromkeys(("r", "k", "v", "a", "g", "out", "plans"), "*fp16:16")
    full = dict.fromkeys(("w", "k_k", "k_a", "r_k", "norm_w", "norm_b", "sides", "state"), "*fp32:16")
    every = half | full | {"starts": "*i32", "slots": "*i32", "sequences": "i32", "width": "i32:16", "heads": "i32"}
    every |= {"slot_stride": "i32:16"}
    constants = {"PRECISION": "tf32", "SEQUENCES": SEARCHED[-1], "EPS": 64e-5, "FLOOR": NORM_FLOOR}
    return [
        Variant(
            f"wkv7_chunked {kernel.__name__}", kernel,
            {name: kind for name, kind in every.items() if name in kernel.arg_names},
            {name: value for name, value in constants.items() if name in kernel.arg_names}, options,
        )
        for kernel, options in zip((_prepare, _scan), launch_config.chunk_options(), strict=True)
    ]  # fmt: skip
