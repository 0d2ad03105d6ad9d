"""The WKV-7 recurrence in chunks of 16 tokens, with matrix products: for prompts, which the token-sequential wkv7 walks
token by token. The same numbers to the precision of the products, not the same bits.

Within a chunk, with P_t the product of the decays w_1 .. w_t (by key; w > exp(-exp(-0.5)) = 0.545, so 1 / P < 17000):

    alpha = kk * P_{t-1};  rho = r * P;  beta = b / P;  kappa = k' / P           [16, 64], b = kk * a
    (I + L) U = alpha S + N V,  L = below(alpha beta^T), N = below(alpha kappa^T)
    Y = rho S + (on or below)(rho kappa^T) V - (on or below)(rho beta^T) U
    S <- diag(P_16) (S + kappa^T V - beta^T U)

U is what the chunk's tokens read with kk. One program takes one head of one sequence through all its chunks and holds
S in registers; a chunk's inputs are loaded while the one before it is computed. Formulas: the WY form of a product of
rank-one updates, as in the delta rule of Yang et al. 2024, "Parallelizing Linear Transformers with the Delta Rule".
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
    """Compute the same as wkv7.wkv7. An fp16 state is rounded once, at the end."""
    assert state.stride()[1:] == (HEAD * HEAD, HEAD, 1)
    _chunks[r.shape[1] // HEAD, rows.slots.shape[0]](
        r, k, v, a, g, w, k_k, k_a, r_k, norm_w, norm_b, state, rows.starts, rows.slots, out, r.shape[1],
        state.stride(0), EPS=eps, **_build(),
    )  # fmt: skip


def _build() -> dict[str, object]:
    """Return the kernel's constants and the launch options."""
    return {
        "FLOOR": NORM_FLOOR, "CHUNK": CHUNK, "PRECISION": launch_config.chunk_products(), "num_warps": launch_config.CHUNK_WARPS, "num_stages": 1, "enable_fp_fusion": True,
    }  # fmt: skip


@triton.jit
def _inputs(r, k, v, a, g, w, first, end, width, column, CHUNK: tl.constexpr):  # type: ignore[no-untyped-def]
    """Load a chunk of one head; rows past the end neither add to the state nor remove from it."""
    row = first + tl.arange(0, CHUNK)[:, None]
    at = row * width.to(tl.int64) + column
    live = row < end
    return (
        tl.load(r + at, mask=live, other=0.0),
        tl.load(k + at, mask=live, other=0.0),
        tl.load(v + at, mask=live, other=0.0),
        tl.load(a + at, mask=live, other=0.0),
        tl.load(g + at, mask=live, other=0.0),
        tl.load(w + at, mask=live, other=1.0),
    )


@triton.jit
def _stack(upper, lower):  # type: ignore[no-untyped-def]
    """Return one matrix above the other."""
    both = tl.permute(tl.join(upper, lower), (2, 0, 1))
    return tl.reshape(both, (2 * upper.shape[0], upper.shape[1]))


@triton.jit
def _split(both, ROWS: tl.constexpr, COLUMNS: tl.constexpr):  # type: ignore[no-untyped-def]
    """Return the upper and the lower half of a matrix."""
    return tl.split(tl.permute(tl.reshape(both, (2, ROWS, COLUMNS)), (1, 2, 0)))


@triton.jit  # type: ignore[untyped-decorator]
def _inverse(L, CHUNK: tl.constexpr):  # type: ignore[no-untyped-def]
    """Return (I + L)^-1 of a strictly lower triangular L [16, 16].

    Both halves on the diagonal first, (I - H)(I + H^2)(I + H^4), then what couples them. A sum of powers of the whole L
    would cancel numbers in the thousands; those of a half stay below 36 even for one token repeated.
    """
    token, other = tl.arange(0, CHUNK)[:, None], tl.arange(0, CHUNK)[None, :]
    half = tl.where(token // (CHUNK // 2) == other // (CHUNK // 2), L, 0.0)
    square = tl.dot(half, half, input_precision="ieee")
    halves = tl.where(token == other, 1.0, 0.0) - half
    halves = tl.dot(halves, square, halves, input_precision="ieee")
    fourth = tl.dot(square, square, input_precision="ieee")
    halves = tl.dot(halves, fourth, halves, input_precision="ieee")
    coupling = tl.dot(L - half, halves, input_precision="ieee")
    return halves - tl.dot(halves, coupling, input_precision="ieee")


@triton.jit  # type: ignore[untyped-decorator]
def _chunks(  # type: ignore[no-untyped-def]
    r, k, v, a, g, w, k_k, k_a, r_k, norm_w, norm_b, state, starts, slots, out, width, slot_stride,
    EPS: tl.constexpr, FLOOR: tl.constexpr, CHUNK: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Feed all tokens of one sequence to one head's state. Grid: (heads, sequences)."""
    head = tl.program_id(0)
    sequence = tl.program_id(1)
    begin = tl.load(starts + sequence)
    end = tl.load(starts + sequence + 1)
    token, other = tl.arange(0, CHUNK)[:, None], tl.arange(0, CHUNK)[None, :]
    key, value = tl.arange(0, 64)[:, None], tl.arange(0, 64)[None, :]
    column = head * 64 + value

    cells = state + tl.load(slots + sequence).to(tl.int64) * slot_stride + head * 4096 + key * 64 + value
    S = tl.load(cells).to(tl.float32)
    R, K, V, A, G, W = _inputs(r, k, v, a, g, w, begin, end, width, column, CHUNK)
    for first in range(begin, end, CHUNK):
        rate, V32 = A.to(tl.float32), V.to(tl.float32)
        faded = tl.log2(W)
        reach = tl.cumsum(faded, axis=0)  # P = 2^reach
        whole = tl.exp2(tl.sum(faded, axis=0))[None, :]
        kk = K.to(tl.float32) * tl.load(k_k + column)
        kk = kk * tl.rsqrt(tl.maximum(tl.sum(kk * kk, axis=1), FLOOR * FLOOR))[:, None]
        replaced = K.to(tl.float32) * (1.0 + (rate - 1.0) * tl.load(k_a + column))
        own = tl.sum(R.to(tl.float32) * replaced * tl.load(r_k + column), axis=1)[:, None]
        alpha = kk * tl.exp2(reach - faded)
        rho = R.to(tl.float32) * tl.exp2(reach)
        inverse_P = tl.exp2(-reach)
        beta = kk * rate * inverse_P
        kappa = replaced * inverse_P
        gate = G.to(tl.float32)
        R, K, V, A, G, W = _inputs(r, k, v, a, g, w, first + CHUNK, end, width, column, CHUNK)

        reads, writes = _stack(alpha, rho), _stack(beta, kappa)
        by_alpha, by_rho = _split(tl.dot(reads, tl.trans(writes), input_precision=PRECISION), CHUNK, 2 * CHUNK)
        L, N = tl.split(tl.permute(tl.reshape(by_alpha, (CHUNK, 2, CHUNK)), (0, 2, 1)))
        alpha_S, rho_S = _split(tl.dot(reads, S, input_precision=PRECISION), CHUNK, 64)
        N = tl.where(token > other, N, 0.0)
        L = tl.where(token > other, L, 0.0)
        U = tl.dot(N, V32, alpha_S, input_precision=PRECISION)
        U = tl.dot(_inverse(L, CHUNK), U, input_precision=PRECISION)
        both = _stack(-U, V32)
        wide = tl.arange(0, 2 * CHUNK)[None, :]
        y = tl.dot(tl.where(token >= wide % CHUNK, by_rho, 0.0), both, rho_S, input_precision=PRECISION)
        S = tl.dot(tl.trans(writes * whole), both, S * tl.trans(whole), input_precision=PRECISION)

        y -= (tl.sum(y, axis=1) / 64)[:, None]
        y *= tl.rsqrt(tl.sum(y * y, axis=1) / 64 + EPS)[:, None]
        y = (y * tl.load(norm_w + column) + tl.load(norm_b + column) + own * V32) * gate
        row = first + token
        tl.store(out + row * width.to(tl.int64) + column, y.to(out.dtype.element_ty), mask=row < end)
    tl.store(cells, S.to(state.dtype.element_ty))


def variants() -> list[Variant]:
    """Return the variant to compile, for fp16 activations."""
    half = dict.fromkeys(("r", "k", "v", "a", "g", "out"), "*fp16:16")
    full = dict.fromkeys(("w", "k_k", "k_a", "r_k", "norm_w", "norm_b", "state"), "*fp32:16")
    every = half | full | {"starts": "*i32", "slots": "*i32", "width": "i32:16", "slot_stride": "i32:16"}
    built = _build()
    options = {name: built.pop(name) for name in ("num_warps", "num_stages", "enable_fp_fusion")}
    return [Variant("wkv7_chunked", _chunks, every, built | {"EPS": 64e-5}, options)]
