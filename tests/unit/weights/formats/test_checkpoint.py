"""Checkpoints that load, and every refusal with its error and sentence."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from rwkv_weights.formats import load
from rwkv_weights.formats.load import (
    CheckpointError,
    CheckpointKeysError,
    CheckpointShapeError,
    UnreadableCheckpointError,
    UnsupportedArchitectureError,
)
from rwkv_weights.formats.schema import Dims
from rwkv_weights.formats.synthetic import dims_of, synthetic

DIMS = dims_of(2, 128, 257, (16, 8, 24, 40))
Tensors = dict[str, torch.Tensor]


def saved(path: Path, change: Callable[[Tensors], object] | None = None) -> Path:
    tensors = synthetic(DIMS)
    if change is not None:
        change(tensors)
    torch.save(tensors, path)
    return path


def refused(path: Path, kind: type[CheckpointError], words: str) -> None:
    with pytest.raises(kind, match=re.escape(words)) as caught:
        load.load(path)
    assert "\n" not in str(caught.value)


def test_dimensions_are_read_from_tensors(tmp_path: Path) -> None:
    found = load.load(saved(tmp_path / "any name.pth"))
    assert found.dims == DIMS == Dims(257, 2, 128, 512, (16, 8, 24, 40))
    assert found.tensors["blocks.1.att.x_r"].shape == (128,)
    assert found.tensors["blocks.1.att.r_k"].shape == (2, 64)
    assert found.dims.state_bytes == 2 * (2 * 64 * 64 + 2 * 128) * 4


def test_block_0_may_carry_a_value_residual_which_is_dropped(tmp_path: Path) -> None:
    def add(tensors: Tensors) -> None:
        tensors |= {f"blocks.0.att.{k}": tensors[f"blocks.1.att.{k}"] for k in ("v0", "v1", "v2")}

    found = load.load(saved(tmp_path / "x.pth", add))
    assert "blocks.0.att.v1" not in found.tensors


def test_one_head_and_one_layer_load(tmp_path: Path) -> None:
    dims = dims_of(1, 64, 257, (8, 8, 0, 8))
    torch.save(synthetic(dims), tmp_path / "x.pth")
    assert load.load(tmp_path / "x.pth").dims == dims


def test_the_format_of_old_torch_loads(tmp_path: Path) -> None:
    torch.save(synthetic(DIMS), tmp_path / "x.pth", _use_new_zipfile_serialization=False)
    assert load.load(tmp_path / "x.pth").dims == DIMS


@pytest.mark.parametrize(
    "key", ["blocks.1.att.v1", "blocks.1.att.v0", "head.weight", "emb.weight", "blocks.0.ffn.x_k", "blocks.0.ln0.bias"]
)
def test_a_missing_key_is_named(tmp_path: Path, key: str) -> None:
    refused(saved(tmp_path / "x.pth", lambda t: t.pop(key)), CheckpointKeysError, key)


def test_an_unknown_key_is_named(tmp_path: Path) -> None:
    path = saved(tmp_path / "x.pth", lambda t: t.update({"blocks.1.att.novel": torch.zeros(3)}))
    refused(path, CheckpointKeysError, "blocks.1.att.novel")


@pytest.mark.parametrize(
    ("key", "what"),
    [
        ("blocks.0.ffn.s_emb.weight", "RWKV-7a"),
        ("blocks.1.qkv.k_emb", "RWKV-7b"),
        ("blocks.0.ffn.enn.weight", "RWKV-8"),
        ("blocks.0.att.time_maa_x", "RWKV-4, 5 or 6"),
        ("blocks.0.att.receptance.lora_A", "adapter"),
        ("model.layers.0.attn.r_proj.weight", "Hugging Face"),
    ],
)
def test_another_architecture_is_named(tmp_path: Path, key: str, what: str) -> None:
    refused(saved(tmp_path / "x.pth", lambda t: t.update({key: torch.zeros(2, 2)})), UnsupportedArchitectureError, what)


def test_what_has_no_blocks_is_no_model(tmp_path: Path) -> None:
    torch.save({"weight": torch.zeros(2)}, tmp_path / "x.pth")
    refused(tmp_path / "x.pth", UnsupportedArchitectureError, "blocks.0")


@pytest.mark.parametrize(
    ("key", "tensor"),
    [
        ("blocks.1.att.w2", torch.zeros(17, 128)),
        ("blocks.1.att.r_k", torch.zeros(4, 32)),
        ("head.weight", torch.zeros(256, 128)),
        ("blocks.0.ffn.value.weight", torch.zeros(512, 128)),
        ("blocks.0.att.w1", torch.zeros(128)),
        ("ln_out.bias", torch.zeros(128, dtype=torch.int32)),
    ],
)
def test_a_wrong_shape_or_type_is_named(tmp_path: Path, key: str, tensor: torch.Tensor) -> None:
    refused(saved(tmp_path / "x.pth", lambda t: t.update({key: tensor})), CheckpointShapeError, key)


def test_a_width_that_is_no_multiple_of_the_head_is_refused(tmp_path: Path) -> None:
    refused(
        saved(tmp_path / "x.pth", lambda t: t.update({"emb.weight": torch.zeros(257, 100)})),
        CheckpointShapeError,
        "100",
    )


@pytest.mark.parametrize("keep", [0.0, 0.3, 0.9, 0.999])
def test_a_truncated_file_is_refused(tmp_path: Path, keep: float) -> None:
    path = saved(tmp_path / "x.pth")
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * keep)])
    refused(path, UnreadableCheckpointError, "truncated")


def test_garbage_and_absence_are_refused(tmp_path: Path) -> None:
    (tmp_path / "x.pth").write_bytes(b"not a checkpoint at all" * 100)
    refused(tmp_path / "x.pth", UnreadableCheckpointError, "corrupt")
    refused(tmp_path / "none.pth", UnreadableCheckpointError, "No such file")
    refused(tmp_path, UnreadableCheckpointError, "cannot read")


class Bomb:
    """Unpickling this would call a function."""

    def __reduce__(self) -> tuple[object, ...]:
        return print, ("executed",)


def test_nothing_in_the_file_is_executed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    torch.save({"blocks.0.ln0.weight": torch.zeros(2), "x": Bomb()}, tmp_path / "x.pth")
    refused(tmp_path / "x.pth", UnreadableCheckpointError, "plain tensors")
    assert capsys.readouterr().out == ""


def test_only_a_flat_table_of_tensors_is_taken(tmp_path: Path) -> None:
    torch.save({"state_dict": {"blocks.0.ln0.weight": torch.zeros(2)}}, tmp_path / "x.pth")
    refused(tmp_path / "x.pth", UnreadableCheckpointError, "flat table")


def test_the_recipe_is_reproducible_and_has_the_published_size() -> None:
    one, two = synthetic(DIMS, seed=3), synthetic(DIMS, seed=3)
    assert all(torch.equal(one[key], two[key]) for key in one)
    tensors = synthetic(dims_of(2, 128))
    assert (len(tensors), sum(t.numel() for t in tensors.values())) == (69, 17_233_024)
