"""The WKV-7 recurrence, token by token.

Per head, with the state S in R^{64(k) x 64(v)} (keys first: a row vector times a matrix is the fast product on a CPU):

    u = kk S;   S <- diag(w) S - (kk * a)^T u + k^T v;   y = r S

which is BlinkDL's S <- S diag(w) + (S (-kk)) (kk * a)^T + v k^T, transposed. `exact_token` uses elementwise products
and sums along one axis only: batched products in BLAS change bits when the batch is one matrix. `fast_token` does not
keep that rule.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor


class Inputs(NamedTuple):
    """The inputs of the recurrence of one layer, each [R, H, N]: receptance, decay, key, value, removal key, kk * a."""

    r: Tensor
    w: Tensor
    k: Tensor
    v: Tensor
    kk: Tensor
    b: Tensor


Token = Callable[[Tensor, Inputs, Tensor], None]


def scan(token: Token, state: Tensor, inputs: Inputs, counts: Sequence[int], out: Tensor) -> None:
    """Feed rows laid out by time: first the first token of every sequence, then the second of those that have one ...

    state: [B, H, N, N], changed in place; counts[t]: how many of the first sequences have a token t; out: [R, H, N].
    """
    if len(counts) == 1:
        used = counts[0]
        token(state[:used], Inputs(*(x[:used] for x in inputs)), out[:used])
        return
    row = 0
    for count in counts:
        token(state[:count], Inputs(*(x[row : row + count] for x in inputs)), out[row : row + count])
        row += count


def exact_token(state: Tensor, x: Inputs, out: Tensor) -> None:
    """Compute one token of each sequence, with the same bits in any batch. state: [B, H, N, N]; out: [B, H, N]."""
    u = (state * x.kk.unsqueeze(-1)).sum(2)
    state.mul_(x.w.unsqueeze(-1))
    state.sub_(x.b.unsqueeze(-1) * u.unsqueeze(2)).add_(x.k.unsqueeze(-1) * x.v.unsqueeze(2))
    torch.sum(state * x.r.unsqueeze(-1), 2, out=out)


def fast_token(state: Tensor, x: Inputs, out: Tensor) -> None:
    """Compute the same as `exact_token` with batched products and fused multiply-adds."""
    batch, heads, size, _ = state.shape
    flat = (batch * heads, size, size)
    column, row = (batch * heads, size, 1), (batch * heads, 1, size)
    s = state.view(flat)
    u = torch.bmm(x.kk.reshape(row), s)
    s.mul_(x.w.reshape(column)).addcmul_(x.b.reshape(column), u, value=-1)
    s.addcmul_(x.k.reshape(column), x.v.reshape(row))
    torch.bmm(x.r.reshape(row), s, out=out.view(row))


def rounding(token: Token) -> Token:
    """Return a variant that rounds the state to fp16 after every token, as a pool of fp16 states holds it."""

    def token_and_round(state: Tensor, x: Inputs, out: Tensor) -> None:
        token(state, x, out)
        state.copy_(state.half())

    return token_and_round
