"""RWKV-7's time mixing (x070): everything of one layer between its first LayerNorm and the residual sum.

Source of the formulas: BlinkDL/RWKV-LM, RWKV-v7/rwkv_v7_numpy.py.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from rwkv_kernels import token_shift, wkv7
from rwkv_kernels.arithmetic import Arithmetic
from rwkv_kernels.linear import Linear
from rwkv_kernels.norm import Norm, head_norm

DECAY = -math.exp(-0.5)
NORM_FLOOR = 1e-12


@dataclass(frozen=True, slots=True)
class TimeMix:
    """One layer's weights. Pairs are (down, up) of a low-rank chain; `shares` is [6, 1, D] in the order r w k v a g.

    `keep_k` and `k_a` are 1 - k_a and k_a [D]; `k_k` and `r_k` are [H, N]. `value` is None in block 0.
    """

    shares: Tensor
    receptance: Linear
    key: Linear
    values: Linear
    output: Linear
    decay: tuple[Linear, Linear]
    rate: tuple[Linear, Linear]
    gate: tuple[Linear, Linear]
    value: tuple[Linear, Linear] | None
    k_k: Tensor
    k_a: Tensor
    keep_k: Tensor
    r_k: Tensor
    norm: Norm


def time_mix(
    do: Arithmetic, p: TimeMix, xx: Tensor, before: Tensor, v_first: Tensor | None, state: Tensor, counts: Sequence[int]
) -> tuple[Tensor, Tensor]:
    """xx, before: [R, D]; state: [B, H, N, N], changed in place; counts: see wkv7.scan.

    Returns the residual's increment [R, D] and the first layer's values [R, D] (v_first, or this layer's if None).
    """
    x_r, x_w, x_k, x_v, x_a, x_g = token_shift.mix(xx, before, p.shares)
    r, k, v = do.rows(x_r, p.receptance), do.rows(x_k, p.key), do.rows(x_v, p.values)
    w = do.exp_(_chain(do, x_w, p.decay).mul_(DECAY))
    a = _chain(do, x_a, p.rate)
    if p.value is not None and v_first is not None:
        v = torch.sub(v_first, v).mul_(_chain(do, x_v, p.value)).add_(v)
    heads = (xx.shape[0], *p.r_k.shape)
    kk = unit(k.view(heads) * p.k_k)
    k = k.mul_((a * p.k_a).add_(p.keep_k)).view(heads)
    inputs = wkv7.Inputs(r.view(heads), w.view(heads), k, v.view(heads), kk, kk * a.view(heads))
    y = read(do, p, inputs, state, counts)
    return do.rows(y.mul_(_chain(do, x_g, p.gate)), p.output), v if v_first is None else v_first


def read(do: Arithmetic, p: TimeMix, inputs: wkv7.Inputs, state: Tensor, counts: Sequence[int]) -> Tensor:
    """Run the recurrence; return its normalised output with the bonus of the present token, [R, D]."""
    y = torch.empty_like(inputs.r) if sum(counts) == inputs.r.shape[0] else torch.zeros_like(inputs.r)
    wkv7.scan(do.token, state, inputs, counts, y)
    bonus = (inputs.r * inputs.k).mul_(p.r_k).sum(-1, keepdim=True)
    return head_norm(y, p.norm).add_(bonus * inputs.v).view(y.shape[0], -1)


def unit(x: Tensor) -> Tensor:
    """Scale [R, H, N] to length one per head, in place."""
    return x.div_((x * x).sum(-1, keepdim=True).sqrt_().clamp_min_(NORM_FLOOR))


def _chain(do: Arithmetic, x: Tensor, pair: tuple[Linear, Linear]) -> Tensor:
    down, up = pair
    return do.rows(do.rows(x, down), up)
