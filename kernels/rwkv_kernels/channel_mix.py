"""RWKV-7's channel mixing: the relu-squared feed-forward of one layer."""

from dataclasses import dataclass

from torch import Tensor

from rwkv_kernels import token_shift
from rwkv_kernels.arithmetic import Arithmetic
from rwkv_kernels.linear import Linear


@dataclass(frozen=True, slots=True)
class ChannelMix:
    """`share` is [1, 1, D]; `key` has a relu fused in."""

    share: Tensor
    key: Linear
    value: Linear


def channel_mix(do: Arithmetic, p: ChannelMix, xx: Tensor, before: Tensor) -> Tensor:
    """Return the residual's increment [R, D] from the rows xx and the rows before them, both [R, D]."""
    hidden = do.rows(token_shift.mix(xx, before, p.share)[0], p.key)
    return do.rows(hidden.mul_(hidden), p.value)
