# ruff: noqa: INP001
"""Log-probabilities of targets without logits, beside the product and softmax that make them."""

import sys
from collections.abc import Iterator

import harness
import torch

from rwkv_kernels.gpu import logprobs

VOCABULARY = 65536
COMPARED_ROWS = 1024
SCORED = (4096, 32768)  # rows of a prefill that are scored


def case(width: int, rows: int) -> harness.BenchCase:
    """Return the case of `rows` rows with one target each."""
    hidden = torch.randn(rows, width, device="cuda", dtype=torch.float16)
    head = torch.randn(VOCABULARY, width, device="cuda").mul_(width**-0.5).half()
    targets = torch.randint(VOCABULARY, (rows, 1), device="cuda")
    out, best = torch.empty(rows, 1, device="cuda"), torch.empty(rows, dtype=torch.int32, device="cuda")
    partials = logprobs.Partials.allocate(rows, VOCABULARY, hidden.dtype, "cuda")

    def go() -> None:
        logprobs.target_logprobs(hidden, head, targets, out, best, partials)

    def error() -> float:
        wanted, _ = logprobs.reference(hidden, head, targets)
        go()
        return harness.distance(out, wanted)

    moved = hidden.nbytes + head.nbytes + 2 * (partials.top.nbytes + partials.total.nbytes + partials.best.nbytes)
    compare = error if rows <= COMPARED_ROWS else None
    return harness.BenchCase(f"D {width}, {rows} rows", go, compare, 2e-3, moved, 2 * rows * width * VOCABULARY)


def cases() -> Iterator[harness.BenchCase]:
    """Yield the cases of every model width, at the numbers of rows of decode and of scoring."""
    for width in harness.WIDTHS:
        for rows in (*harness.DECODE, *SCORED):
            yield case(width, rows)


if __name__ == "__main__":
    sys.exit(harness.main("logprobs", cases))
