# ruff: noqa: INP001
"""The sparse value product of one token, at several shares of zeros, beside the dense one."""

import sys
from collections.abc import Iterator

import harness
import torch

from rwkv_kernels.gpu import gemm, launch_config, sparse_value

ZEROS = (0.0, 0.5, 0.8, 0.85, 0.9)


def pair(width: int, zeros: float) -> list[harness.BenchCase]:
    """Return the cases of the sparse and the dense product. `bytes` are those of the rows that matter, for both."""
    hidden = torch.randn(1, 4 * width, device="cuda").square().half()
    hidden[torch.rand(1, 4 * width, device="cuda") < zeros] = 0.0
    w_t = torch.randn(4 * width, width, device="cuda").mul_((4 * width) ** -0.5).half()
    splits = launch_config.plan(width, 4 * width).splits
    out = torch.empty(splits, 1, width, device="cuda")
    w = w_t.t()[None]

    def sparse() -> None:
        sparse_value.sparse_value(hidden, w_t, out)

    def dense() -> None:
        gemm.gemm(hidden[None], w, out, splits=splits)

    def error() -> float:
        sparse()
        return harness.distance(out.sum(0), hidden.float() @ w_t.float())

    live = int((hidden != 0).sum()) * width * 2 + out.nbytes
    name = f"D {width}, {zeros:.0%} zeros"
    return [
        harness.BenchCase(f"{name}, sparse", sparse, error, 1e-5, live),
        harness.BenchCase(f"{name}, dense", dense, None, 0.0, live),
    ]


def cases() -> Iterator[harness.BenchCase]:
    """Yield the cases of every model width and share of zeros."""
    for width in harness.WIDTHS:
        for zeros in ZEROS:
            yield from pair(width, zeros)


if __name__ == "__main__":
    sys.exit(harness.main("sparse_value", cases))
