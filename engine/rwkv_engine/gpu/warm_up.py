"""Compile the kernels of prompts and scores before the first request: a compile during a job would look like a hang."""

import torch

from rwkv_engine.gpu.runner import GpuRunner
from rwkv_engine.gpu.sequence_rows import of_sequences
from rwkv_kernels.gpu.logprobs import target_logprobs
from rwkv_kernels.gpu.wkv7_chunked import SEARCHED


@torch.inference_mode()
def warm_up(runner: GpuRunner, most_tokens: int) -> None:
    """Run prefills of growing size up to `most_tokens` on the scratch slot, because tiles depend on the row count."""
    size = 1
    while size <= most_tokens:
        _step(runner, size)
        size *= 2
    for sequences in (2, SEARCHED[0] + 1):  # several prompts in one step, of lengths for either kind of recurrence
        for tokens in (8, 16, 32, 64):
            if sequences * tokens <= most_tokens:
                _step(runner, tokens, sequences)


def _step(runner: GpuRunner, tokens: int, sequences: int = 1) -> None:
    model = runner.model
    rows, ids = of_sequences([(runner.pool.scratch, [0] * tokens)] * sequences, model.device)
    residual = model.step(runner.pool, runner.space, rows, ids)
    targets = torch.zeros(residual.shape[0], 1, dtype=torch.int64, device=model.device)
    best = torch.empty(residual.shape[0], dtype=torch.int32, device=model.device)
    target_logprobs(model.normed(residual), model.weights.head, targets, targets.float(), best)
