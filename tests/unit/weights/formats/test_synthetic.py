"""Random checkpoints: their names and shapes, and how sparse their feed-forward is where that is set."""

from pathlib import Path

import pytest
import torch
from torch.nn import functional

from rwkv_weights.formats import load, synthetic
from rwkv_weights.formats.schema import expected

SMALL = synthetic.dims_of(2, 256, vocabulary=257)
TOKENS = 64


def same_numbers(key: str) -> bool:
    return "ln2" not in key and "ffn.key" not in key


@pytest.mark.parametrize("width", [64, 256])
def test_a_drawn_checkpoint_is_what_a_loaded_one_would_be(tmp_path: Path, width: int) -> None:
    dims = synthetic.dims_of(2, width, vocabulary=257)
    drawn = synthetic.drawn_on("cpu", dims, seed=3)
    loaded = load.load(synthetic.write(tmp_path / "x.pth", dims, seed=3))
    assert drawn.dims == loaded.dims
    assert {key: tensor.shape for key, tensor in drawn.tensors.items()} == {
        key: tensor.shape for key, tensor in loaded.tensors.items()
    }
    assert {key: tuple(tensor.shape) for key, tensor in drawn.tensors.items()} == expected(
        dims, block0_has_value_residual=False
    )
    assert {tensor.dtype for tensor in drawn.tensors.values()} == {torch.bfloat16}
    assert all(torch.equal(drawn.tensors[key], loaded.tensors[key]) for key in drawn.tensors if same_numbers(key))


@pytest.mark.parametrize("zero_share", [0.85, 0.9])
def test_the_share_of_zeros_is_the_one_asked_for(zero_share: float) -> None:
    """Measured on what the feed-forward of each layer is given: a normalised residual and the one before it, mixed."""
    tensors = synthetic.drawn_on("cpu", SMALL, zero_share).tensors
    x = torch.randn(TOKENS + 1, SMALL.width, generator=torch.Generator().manual_seed(1))
    for layer in range(SMALL.layers):
        norm, ffn = f"blocks.{layer}.ln2", f"blocks.{layer}.ffn"
        weight, bias = (tensors[f"{norm}.{part}"].float() for part in ("weight", "bias"))
        xx = functional.layer_norm(x, (SMALL.width,), weight, bias, 1e-5)
        mixed = xx[1:] + (xx[:-1] - xx[1:]) * tensors[f"{ffn}.x_k"].float()
        hidden = torch.relu(mixed @ tensors[f"{ffn}.key.weight"].float().t())
        assert float((hidden == 0).float().mean()) == pytest.approx(zero_share, abs=0.03)
