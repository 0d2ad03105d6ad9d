# ruff: noqa: INP001
"""One draw a row from the whole vocabulary: greedy, whole, cut by top-p and top-k, peaked and flat, with penalties."""

import sys
from collections.abc import Iterator

import harness
import torch

from rwkv_kernels.draw import Draw
from rwkv_kernels.gpu import sampler
from rwkv_kernels.gpu.slot_draws import SlotDraws

VOCABULARY = 65536
LEDGER = 4096
KINDS = {
    "greedy": Draw(),
    "whole": Draw(temperature=1.0),
    "top-p 0.5": Draw(temperature=1.0, top_p=0.5),
    "top-k 50, top-p 0.9": Draw(temperature=0.8, top_k=50, top_p=0.9),
}
SPREADS = {"peaked": 3.0, "flat": 0.5}  # of normal logits: a few hundred, and most ids lie in a nucleus of 0.5
COMPARED_ROWS = 32


def case(kind: str, spread: str, rows: int, noted: int) -> harness.BenchCase:
    """Return the case of one draw a row; `noted` is the number of distinct tokens in every ledger."""
    draw = KINDS[kind]
    draws = SlotDraws.allocate(rows + 1, "cuda", VOCABULARY, LEDGER)
    draws.temperature.fill_(draw.temperature)
    draws.top_k.fill_(draw.top_k)
    draws.top_p.fill_(draw.top_p)
    draws.key.copy_(torch.arange(rows + 1))
    logits = torch.randn(rows, VOCABULARY, device="cuda") * SPREADS[spread]
    slots = torch.arange(rows, dtype=torch.int32, device="cuda")
    ids, logprobs = torch.empty(rows, dtype=torch.int64, device="cuda"), torch.empty(rows, device="cuda")

    def error() -> float:
        """Return the share of rows whose id differs: at most one, whose uniform lies on a step of the CDF."""
        draws.position.zero_()
        fresh = logits.clone()
        sampler.sample(fresh, slots, draws, ids, logprobs)
        settings = [Draw(draw.temperature, draw.top_k, draw.top_p, key) for key in range(rows)]
        wanted, _ = sampler.reference(logits.cpu(), settings)
        return sum(map(int.__ne__, ids.tolist(), wanted)) / rows

    def go() -> None:
        sampler.sample(logits, slots, draws, ids, logprobs)

    compare = error if rows <= COMPARED_ROWS and not noted else None
    if noted:
        draws.presence.fill_(1e-6)
        draws.position.fill_(noted)
        draws.ledger_used.fill_(noted)
        draws.ledger_ids[:, :noted] = torch.randperm(VOCABULARY, device="cuda")[:noted].int()
    name = f"{kind}, {spread}, {rows} rows" + (f", {noted} noted" if noted else "")
    return harness.BenchCase(name, go, compare, 1 / rows, logits.nbytes)


def cases() -> Iterator[harness.BenchCase]:
    """Yield the cases of decode, which alone draws. `bytes` counts the logits once."""
    for rows in harness.DECODE:
        for kind in KINDS:
            for spread in SPREADS:
                yield case(kind, spread, rows, 0)
        yield case("top-p 0.5", "peaked", rows, 1000)


if __name__ == "__main__":
    sys.exit(harness.main("sampler", cases))
