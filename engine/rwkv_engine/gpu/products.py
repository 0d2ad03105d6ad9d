"""Which kernel computes a matrix product: in an exact profile the one whose bits do not depend on the batch, always."""

from dataclasses import dataclass

import torch
from torch import Tensor

from rwkv_kernels.gpu import launch_config
from rwkv_kernels.gpu.gemm import gemm
from rwkv_kernels.gpu.sparse_value import sparse_value

LIBRARY_ROWS = 256  # from here on a product is bound by arithmetic, where the vendor's library is the faster one


@dataclass(frozen=True, slots=True)
class Products:
    """`exact` as in the profile; a type other than fp16 has no use for the library's fp16 products."""

    exact: bool

    def _by_library(self, x: Tensor, out: torch.dtype = torch.float16) -> bool:
        """The library writes what it reads: a product of halves into fp32, the logits, is always the kernel's."""
        halves = x.dtype == out == torch.float16
        return not self.exact and halves and x.is_cuda and x.shape[-2] >= LIBRARY_ROWS

    def planes(self, x: Tensor, weight: Tensor, out: Tensor) -> None:
        """[G, R, K] and [G, N, K] -> out [G, R, N]."""
        if self._by_library(x, out.dtype):
            torch.bmm(x, weight.transpose(1, 2), out=out)
        else:
            gemm(x, weight, out)

    def relu_squared(self, x: Tensor, weight: Tensor, out: Tensor) -> None:
        """[R, K] and [N, K] -> out [R, N]: relu(x w^T)^2."""
        gemm(x[None], weight[None], out[None], epilogue="relu2")

    def parts(self, x: Tensor, weight: Tensor, space: Tensor, *, sparse: bool = False) -> Tensor:
        """[R, K] and [N, K] -> [S, R, N], to be summed over S in order. `space`: room for them, flat, fp32.

        `sparse`: most of x is zero; where one row is alone, the weights of those are not read.
        """
        rows, (width, depth) = x.shape[0], weight.shape
        if self._by_library(x):
            return torch.mm(x, weight.t())[None]
        splits = launch_config.plan(width, depth, x.dtype).splits
        serial = launch_config.serial_pays(width, rows)
        out = space[: (1 if serial else splits) * rows * width].view(-1, rows, width)
        if sparse and rows == 1 and not self.exact:
            sparse_value(x, weight.t(), out)
        else:
            gemm(x[None], weight[None], out, splits=splits, serial=serial)
        return out
