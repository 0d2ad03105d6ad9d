"""LayerNorm and the per-head GroupNorm. Both work row by row, so their bits are the same in any batch."""

from dataclasses import dataclass

from torch import Tensor
from torch.nn import functional

LAYER_EPS = 1e-5
HEAD_EPS = 64e-5  # 1e-5 * 8^2, as in BlinkDL's ln_x


@dataclass(frozen=True, slots=True)
class Norm:
    """Weight and bias [D] of a norm, in fp32."""

    weight: Tensor
    bias: Tensor


def layer_norm(x: Tensor, norm: Norm) -> Tensor:
    """Normalise each row: [R, D] -> [R, D]."""
    return functional.layer_norm(x, norm.weight.shape, norm.weight, norm.bias, LAYER_EPS)


def head_norm(y: Tensor, norm: Norm) -> Tensor:
    """Normalise each head: [R, H, N] -> [R, H, N], with weight and bias of the whole width."""
    heads = y.shape[1:]
    out = functional.layer_norm(y, heads[1:], None, None, HEAD_EPS)
    return out.mul_(norm.weight.view(heads)).add_(norm.bias.view(heads))
