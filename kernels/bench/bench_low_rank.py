# ruff: noqa: INP001
"""The four low-rank chains, down and up, at the ranks of the public models."""

import sys
from collections.abc import Iterator

import harness
import torch
from torch import Tensor

from rwkv_kernels.gpu import low_rank

RANKS = {768: (64, 64, 32, 128), 2048: (96, 96, 64, 256), 4096: (128, 128, 96, 480)}
COMPARED_ROWS = 8192


def normal(*shape: int) -> Tensor:
    """Return fp16 weights [in, out] of variance 1/in."""
    return (torch.randn(*shape, device="cuda") * shape[0] ** -0.5).half()


def pair(width: int, count: int) -> list[harness.BenchCase]:
    """Return the cases of both launches of one layer, down and up, with `count` rows."""
    ranks = dict(zip(low_rank.CHAINS, RANKS[width], strict=True))
    down = low_rank.pack_down({name: normal(width, rank) for name, rank in ranks.items()})
    up = low_rank.pack_up(
        {name: normal(rank, width) for name, rank in ranks.items()},
        {name: torch.randn(width, device="cuda") for name in "wav"},
    )
    mixed = torch.randn(6, count, width, device="cuda", dtype=torch.float16)
    v, v_first, rate, gate = torch.randn(4, count, width, device="cuda", dtype=torch.float16)
    decay = torch.empty(count, width, device="cuda")
    hidden = torch.empty(count, down.ranks, dtype=torch.float16, device="cuda")

    def go_down() -> None:
        low_rank.down(mixed, down, hidden)

    def go_up() -> None:
        low_rank.up(hidden, up, v, v_first, decay, rate, gate)

    def error() -> float:
        wanted = low_rank.reference(mixed, down, up, v, v_first)
        go_down()
        go_up()
        return max(harness.distance(*both) for both in zip((decay, rate, v, gate), wanted, strict=True))

    compare = error if count <= COMPARED_ROWS else None
    plane, product = v.nbytes, 2 * count * width * down.ranks
    first, second = 4 * plane + down.weight.nbytes + hidden.nbytes, 7 * plane + up.weight.nbytes + hidden.nbytes
    return [
        harness.BenchCase(f"D {width} down, {count} rows", go_down, compare, 2e-3, first, product),
        harness.BenchCase(f"D {width} up, {count} rows", go_up, compare, 2e-3, second, product),
    ]


def cases() -> Iterator[harness.BenchCase]:
    """Yield the cases of every model width, at the decode and prefill sizes."""
    for width in harness.WIDTHS:
        for count in (*harness.DECODE, *(sequences * tokens for sequences, tokens in harness.PREFILL)):
            yield from pair(width, count)


if __name__ == "__main__":
    sys.exit(harness.main("low_rank", cases))
