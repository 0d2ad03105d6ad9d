# ruff: noqa: INP001
"""The matrix products of a layer and the head, as a decode step and a prefill launch them."""

import sys
from collections.abc import Iterator

import harness
import torch
from torch import Tensor

from rwkv_kernels.gpu import gemm, launch_config

COMPARED = 1 << 28  # elements of weights and outputs, above which the reference is not run
VOCABULARY = 65536


def normal(*shape: int) -> Tensor:
    """Return fp16 activations from the standard normal distribution."""
    return torch.randn(*shape, device="cuda", dtype=torch.float16)


def weights(*shape: int) -> Tensor:
    """Return fp16 weights [..., K] of variance 1/K, so that products with `normal` are about one."""
    return normal(*shape).mul_(shape[-1] ** -0.5)


def product(
    name: str, x: Tensor, w: Tensor, kind: torch.dtype, epilogue: gemm.Epilogue = "none", *, cut: bool = False
) -> harness.BenchCase:
    """Return the case of x [G, R, K] times w [G, N, K]; `cut`: summed as the shape's plan says."""
    planes, rows, k = x.shape
    n = w.shape[1]
    splits = launch_config.plan(n, k).splits if cut else 1
    serial = splits > 1 and launch_config.serial_pays(n, rows)
    out = torch.empty(planes if serial else max(planes, splits), rows, n, dtype=kind, device="cuda")

    def go() -> None:
        gemm.gemm(x, w, out, epilogue=epilogue, splits=splits, serial=serial)

    def error() -> float:
        wanted = gemm.reference(x, w, epilogue=epilogue)
        go()
        return harness.distance(out.float().sum(0, keepdim=True) if cut else out, wanted)

    how = f", {splits} splits{' serial' * serial}" if cut else ""
    moved = x.nbytes + w.numel() * w.element_size() + out.nbytes
    compare = error if w.numel() + out.numel() < COMPARED else None
    return harness.BenchCase(f"{name}, {rows} rows{how}", go, compare, 2e-3, moved, 2 * planes * rows * n * k)


def cases() -> Iterator[harness.BenchCase]:
    """Yield the cases of every model width, decode and prefill; the head only for rows that are drawn from."""
    for width in harness.WIDTHS:
        square, key = weights(3, width, width), weights(1, 4 * width, width)
        value_t, head = weights(4 * width, width), weights(1, VOCABULARY, width)
        for rows in (*harness.DECODE, *(sequences * tokens for sequences, tokens in harness.PREFILL)):
            mixed, hidden = normal(6, rows, width), normal(1, rows, 4 * width)
            yield product(f"D {width} r k v", mixed[:3], square, torch.float16)
            yield product(f"D {width} output", mixed[:1], square[:1], torch.float32, cut=True)
            yield product(f"D {width} key", mixed[:1], key, torch.float16, "relu2")
            yield product(f"D {width} value", hidden, value_t.t()[None], torch.float32, cut=True)
            if rows in harness.DECODE:
                yield product(f"D {width} head", mixed[:1], head, torch.float32)


if __name__ == "__main__":
    sys.exit(harness.main("gemm", cases))
