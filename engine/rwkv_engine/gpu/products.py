"""The choice of the kernel for a matrix product. An exact profile always uses the one with batch-independent bits."""

from dataclasses import dataclass

import torch
from torch import Tensor

from rwkv_kernels.gpu import launch_config
from rwkv_kernels.gpu.gemm import gemm
from rwkv_kernels.gpu.sparse_value import sparse_value

LIBRARY_ROWS = 256  # from here on a product is compute-bound, where the vendor's library is faster


@dataclass(frozen=True, slots=True)
class Products:
    """The products of one profile, `exact` or not."""

    exact: bool

    def _by_library(self, x: Tensor, out: torch.dtype = torch.float16) -> bool:
        """Whether the library computes a product. It writes the type that it reads, so the fp32 logits of fp16 factors
        are always computed by the kernel."""
        halves = x.dtype == out == torch.float16
        return not self.exact and halves and x.is_cuda and x.shape[-2] >= LIBRARY_ROWS

    def planes(self, x: Tensor, weight: Tensor, out: Tensor) -> None:
        """Multiply [G, R, K] and [G, N, K] into out [G, R, N]."""
        if self._by_library(x, out.dtype):
            torch.bmm(x, weight.transpose(1, 2), out=out)
        else:
            gemm(x, weight, out)

    def relu_squared(self, x: Tensor, weight: Tensor, out: Tensor) -> None:
        """Write relu(x w^T)^2 of [R, K] and [N, K] to out [R, N]."""
        gemm(x[None], weight[None], out[None], epilogue="relu2")

    def parts(self, x: Tensor, weight: Tensor, space: Tensor, *, sparse: bool = False) -> Tensor:
        """Multiply [R, K] and [N, K] into [S, R, N], to be summed over S in order. `space`: flat fp32 memory for them.

        `sparse`: most of x is zero; for a single row the weights of zeros are not read.
        """
        rows, (width, depth) = x.shape[0], weight.shape
        if self._by_library(x):
            return torch.mm(x, weight.t())[None]
        splits = launch_config.plan(width, depth, x.dtype).splits
        serial = launch_config.serial_pays(width, rows)
        if sparse and rows == 1 and not self.exact:
            out = space[: launch_config.SPARSE_SPLITS * width].view(-1, 1, width)
            sparse_value(x, weight.t(), out)
        else:
            out = space[: (1 if serial else splits) * rows * width].view(-1, rows, width)
            gemm(x[None], weight[None], out, splits=splits, serial=serial)
        return out
