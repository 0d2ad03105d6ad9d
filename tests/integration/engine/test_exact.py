"""Profiles that promise bits have them in every setting: on the CPU here, and by the same test on a GPU."""

from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest
import torch

from rwkv_engine.cpu.model import Model
from rwkv_engine.serving.compile_requests import Compiler
from rwkv_engine.tokenizer import for_vocabulary
from rwkv_engine.verify import invariance, trial
from rwkv_engine.verify.trial import TrialSetting
from rwkv_kernels import arithmetic
from rwkv_weights.formats import load
from rwkv_weights.local.checkpoint_files import builtin_checkpoint_path
from rwkvctl.protocol.numerics import PROFILES, Numerics

GPU = torch.cuda.is_available()
EXACT: list[Numerics] = [name for name, profile in PROFILES.items() if profile.exact and (GPU or name != "exact")]
COMPILER = Compiler(for_vocabulary(257))
USUAL = 1
"""A small batch with a cache, in chunks, backwards."""


@cache
def loaded(numerics: Numerics) -> trial.EngineFactory:
    found = load.load(builtin_checkpoint_path())
    if not GPU:
        return trial.on_cpu(Model.of(found, numerics))
    from rwkv_engine.gpu.model import GpuModel

    return trial.on_gpu(GpuModel.of(found, numerics, torch.device("cuda")))


@cache
def alone(numerics: Numerics) -> invariance.ProbeAnswers:
    return invariance.answers_in(TrialSetting(), loaded(numerics), COMPILER)[0]


def settings() -> Iterator[Any]:
    """Yield every setting; on a CPU those that are slow or similar to others are a slow part."""
    for place, setting in enumerate(invariance.settings(1024, gpu=GPU)):
        usual = GPU or setting.batch == 16 or place == USUAL
        yield pytest.param(setting, id=str(setting), marks=() if usual else pytest.mark.slow("exact"))


@pytest.mark.parametrize("setting", list(settings()))
@pytest.mark.parametrize("numerics", EXACT)
def test_answers_keep_their_bits(numerics: Numerics, setting: TrialSetting) -> None:
    there, peak = invariance.answers_in(setting, loaded(numerics), COMPILER)
    assert peak == setting.batch or setting.prefill_tokens <= setting.batch * invariance.MEAN_PROMPT
    assert there == alone(numerics)


def test_exact_is_fp32_on_a_cpu() -> None:
    assert arithmetic.of("exact") is arithmetic.of("fp32")


def test_the_comparison_sees_a_profile_that_promises_nothing() -> None:
    found = list(invariance.comparisons(loaded("fast"), COMPILER, [TrialSetting(), TrialSetting(33)]))
    assert not found[0].differing
    assert found[1].differing


def test_a_state_in_fp16_changes_bits_and_little_else() -> None:
    whole, half = alone("exact"), alone("exact-fp16-state")
    assert whole != half
    scored = [probe for probe in whole if probe[0].startswith("choices")]
    gaps = [
        abs(a.logprob - b.logprob)
        for probe in scored
        for a, b in zip(whole[probe][0], half[probe][0], strict=True)  # type: ignore[index]
    ]
    assert 0 < max(gaps) < 0.1
