"""Compile the kernels of prompts and scores before the first request: a compile during a job would look like a hang."""

from collections.abc import Iterator

import torch

from rwkv_engine.gpu.prefill import Prefill
from rwkv_kernels.gpu.logprobs import target_logprobs
from rwkv_kernels.gpu.wkv7_chunked import SEARCHED

MANY = SEARCHED[0] + 1  # sequences


@torch.inference_mode()
def warm_up(prefill: Prefill, most_tokens: int) -> None:
    """Run the steps of `shapes` on the scratch slot."""
    for sequences, tokens in shapes(most_tokens):
        _step(prefill, tokens, sequences)


def shapes(most_tokens: int) -> Iterator[tuple[int, int]]:
    """Yield (sequences, tokens of each) of prefills of up to `most_tokens`: one prompt of growing size, because tiles
    depend on the row count; then several, of lengths for either kind of recurrence."""
    sizes = [1 << power for power in range(most_tokens.bit_length())]
    several = [(2, tokens) for tokens in (8, 16, 64)] + [(MANY, tokens) for tokens in (8, 12, 15, 16, 32, 64)]
    for sequences, tokens in [(1, size) for size in sizes] + several + [(40, 5)]:
        if sequences * tokens <= most_tokens:
            yield sequences, tokens


def _step(prefill: Prefill, tokens: int, sequences: int) -> None:
    model = prefill.model
    residual = prefill.feed([(prefill.pool.scratch, [0] * tokens)] * sequences)
    targets = torch.zeros(residual.shape[0], 1, dtype=torch.int64, device=model.device)
    best = torch.empty(residual.shape[0], dtype=torch.int32, device=model.device)
    target_logprobs(model.normed(residual), model.weights.head, targets, targets.float(), best)
