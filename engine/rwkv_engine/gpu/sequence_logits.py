"""Logits of one sequence straight from the kernels, for checks against other arithmetic."""

from collections.abc import Sequence

import torch
from torch import Tensor

from rwkv_engine.gpu.runner import GpuRunner
from rwkv_engine.verify.trial import EngineFactory, TrialSetting


def sequence_logits(loaded: EngineFactory, ids: Sequence[int]) -> Tensor:
    """Return the logits [T, V] of a sequence from the empty state, on the current device."""
    runner = loaded(TrialSetting(1, len(ids), graphs=False)).runner
    assert isinstance(runner, GpuRunner)
    residual = runner.prefill.feed([(0, ids)])
    return runner.model.logits(residual, torch.empty(len(ids), runner.model.dims.vocabulary, device=residual.device))
