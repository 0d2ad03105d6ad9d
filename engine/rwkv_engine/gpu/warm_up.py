"""Compile the kernels of prompts and scores before the first request: a compile during a job would look like a hang."""

import torch

from rwkv_engine.gpu.runner import GpuRunner
from rwkv_engine.gpu.sequence_rows import of_sequences
from rwkv_kernels.gpu.launch_config import CHUNKED_MIN_TOKENS
from rwkv_kernels.gpu.logprobs import target_logprobs


@torch.inference_mode()
def warm_up(runner: GpuRunner, most_tokens: int) -> None:
    """Run prefills of growing size up to `most_tokens` on the scratch slot, because tiles depend on the row count."""
    size = 1
    while size <= most_tokens:
        _step(runner, size)
        size *= 2
    for sequences in (2, 64):  # several prompts in one step, short enough for the sequential recurrence
        if sequences * 8 <= most_tokens:
            _step(runner, 8, sequences)
    if most_tokens >= 2 * CHUNKED_MIN_TOKENS:
        _step(runner, CHUNKED_MIN_TOKENS, 2)


def _step(runner: GpuRunner, tokens: int, sequences: int = 1) -> None:
    model = runner.model
    rows, ids = of_sequences([(runner.pool.scratch, [0] * tokens)] * sequences, model.device)
    residual = model.step(runner.pool, runner.space, rows, ids)
    targets = torch.zeros(residual.shape[0], 1, dtype=torch.int64, device=model.device)
    best = torch.empty(residual.shape[0], dtype=torch.int32, device=model.device)
    target_logprobs(model.normed(residual), model.weights.head, targets, targets.float(), best)
