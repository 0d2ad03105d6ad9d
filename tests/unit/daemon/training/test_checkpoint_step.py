"""What the names of checkpoints say of their steps."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rwkv_daemon.training.checkpoint_step import step_of
from rwkvctl.protocol.training.watches import FINAL_STEP


@pytest.mark.parametrize(
    ("name", "step"),
    [
        ("rwkv-12.pth", 12),
        ("rwkv-0.pth", 0),
        ("rwkv-init.pth", 0),
        ("rwkv-final.pth", FINAL_STEP),
        ("step1200.pth", 1200),
        ("step 20.pth", 20),
        ("global_step500/model.safetensors", 500),
        ("run7/step-00500/model.pth", 500),
        ("checkpoint-500/pytorch_model.pth", 500),
        ("checkpoint_3.safetensors", 3),
        ("checkpoint500", 500),
        ("run/1200.pth", 1200),
        ("1200/model.pth", 1200),
        ("out/final", FINAL_STEP),
        ("final/model.pth", FINAL_STEP),
        ("epoch1/rwkv-12.pth", 12),
        ("step1000-epoch2.pth", 1000),
        ("epoch_3", 3),
        ("ckpt_1000_loss2.91.pth", 1000),
        ("rwkv-12-of-100.pth", 12),
        ("rwkv7-g1d-1.5b-20260101-ctx4096.pth", None),
        ("rwkv7.pth", None),
        ("best.pth", None),
        ("misstep9.pth", None),
        ("ckpt-0.98.pth", None),
        ("rwkv-step-1e5.pth", None),
        ("final_model.pth", FINAL_STEP),
        ("rwkv-final-v2.pth", FINAL_STEP),
        ("latest.pth", None),
        ("rwkv-12345678901234567890.pth", None),
    ],
)
def test_a_name_says_its_step(name: str, step: int | None) -> None:
    assert step_of(name) == step


@pytest.mark.parametrize(
    ("pattern", "name", "step"),
    [
        ("ckpt_{}_of", "ckpt_40_of_90.pth", 40),
        ("ckpt_{}_of", "rwkv-12.pth", None),
        ("(.*)*{}", "(.*)*7.pth", 7),
        ("ckpt_{}_of", "ckpt_final.pth", FINAL_STEP),
        ("ckpt_{}_of", "step9.pth", None),
    ],
)
def test_a_pattern_says_where_the_step_stands(pattern: str, name: str, step: int | None) -> None:
    assert step_of(name, pattern) == step


@given(st.text(alphabet="step-_0123456789/epochfinal.", max_size=300))
def test_every_name_says_a_step_that_can_be_stored_or_none(name: str) -> None:
    step = step_of(name)
    assert step is None or 0 <= step <= FINAL_STEP
