"""The Hugging Face layout gives the very numbers of the .pth, and everything else in it is refused by name."""

import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
import torch
from safetensors.torch import save_file

from rwkv_engine.cpu.layout import lay_out
from rwkv_engine.cpu.model import Model
from rwkv_engine.cpu.state_pool import StatePool
from rwkv_weights.errors import (
    CheckpointError,
    CheckpointKeysError,
    CheckpointShapeError,
    UnreadableCheckpointError,
    UnsupportedArchitectureError,
)
from rwkv_weights.formats import hf_names, index, load
from rwkv_weights.formats.schema import expected
from rwkv_weights.formats.synthetic import dims_of, synthetic

DIMS = dims_of(3, 128, 257, (16, 8, 24, 40))
CONFIG = {"model_type": "rwkv7", "hidden_size": 128, "head_dim": 64}
Tensors = dict[str, torch.Tensor]


@pytest.fixture(scope="module")
def tensors() -> Tensors:
    return synthetic(DIMS, seed=5)


@pytest.fixture
def pth(tmp_path: Path, tensors: Tensors) -> Path:
    torch.save(tensors, tmp_path / "x.pth")
    return tmp_path / "x.pth"


def refused(path: Path, kind: type[CheckpointError], words: str) -> None:
    with pytest.raises(kind, match=re.escape(words)) as caught:
        load.load(path)
    assert "\n" not in str(caught.value)


@torch.inference_mode()
def logits(path: Path) -> torch.Tensor:
    model = Model.of(load.load(path), "fp32")
    pool = StatePool.allocate(model.dims, 4)
    pool.clear(0)
    return model.logits(model.step(pool, lay_out([[0, 5, 9, 200, 17]], [0], model.do.row_multiple)))


WAYS: dict[str, Callable[[ModuleType, Path, Tensors], Path]] = {
    "one file": lambda layout, folder, t: layout.write(folder, t, config=CONFIG),
    "four shards": lambda layout, folder, t: layout.write(folder, t, shards=4, config=CONFIG),
    "no config": lambda layout, folder, t: layout.write(folder, t),
    "the file itself": lambda layout, folder, t: layout.write(folder, t) / "model.safetensors",
    "the index itself": lambda layout, folder, t: layout.write(folder, t, shards=2) / "model.safetensors.index.json",
    "rwkv7-hf's native name": lambda layout, folder, t: layout.write(
        folder, t, config=CONFIG | {"model_type": "rwkv7_native", "attention_hidden_size": 128}
    ),
}


@pytest.mark.parametrize("way", WAYS)
def test_logits_are_those_of_the_pth_bit_for_bit(
    hf_layout: ModuleType, tmp_path: Path, pth: Path, tensors: Tensors, way: str
) -> None:
    path = WAYS[way](hf_layout, tmp_path / "hf", tensors)
    assert torch.equal(logits(path).view(torch.int32), logits(pth).view(torch.int32))


def test_every_tensor_is_the_same_and_lies_in_the_file(
    hf_layout: ModuleType, tmp_path: Path, pth: Path, tensors: Tensors
) -> None:
    ours, theirs = load.load(pth), load.load(hf_layout.write(tmp_path / "hf", tensors))
    assert ours.dims == theirs.dims
    assert ours.tensors.keys() == theirs.tensors.keys()
    for key, tensor in ours.tensors.items():
        assert torch.equal(tensor, theirs.tensors[key]), key
    turned = theirs.tensors["blocks.1.att.w1"]
    assert turned.stride() == (1, 128), "a view, not a copy"


def test_blinkdl_names_in_safetensors_load(tmp_path: Path, pth: Path, tensors: Tensors) -> None:
    save_file(tensors, tmp_path / "x.safetensors")
    assert torch.equal(logits(tmp_path / "x.safetensors"), logits(pth))


def test_a_value_residual_in_block_0_is_dropped(hf_layout: ModuleType, tmp_path: Path, tensors: Tensors) -> None:
    more = tensors | {f"blocks.0.att.{k}": tensors[f"blocks.1.att.{k}"].clone() for k in ("v0", "v1", "v2")}
    assert "blocks.0.att.v1" not in load.load(hf_layout.write(tmp_path / "hf", more)).tensors


def test_every_known_key_has_a_name_there_and_comes_back(
    hf_layout: ModuleType,
) -> None:
    shapes = expected(DIMS, block0_has_value_residual=True)
    theirs = {key: hf_layout.one(key, torch.zeros(shape)) for key, shape in shapes.items()}
    assert {hf_names.name_of(name)[0] for name, _ in theirs.values()} == set(shapes)
    for key, (name, tensor) in theirs.items():
        assert hf_names.name_of(name) == (key, tuple(tensor.shape) != shapes[key] or key[-1] in "12"), name


def test_the_file_may_lie_where_its_types_may_not(
    hf_layout: ModuleType, tmp_path: Path, pth: Path, tensors: Tensors
) -> None:
    path = hf_layout.write(tmp_path / "hf", tensors) / "model.safetensors"
    data = path.read_bytes()
    length = int.from_bytes(data[:8], "little")
    header = data[8 : 8 + length].rstrip() + b" "
    header += b" " * (1 - len(header) % 2)  # an odd header: every number lies across its type's border
    path.write_bytes(len(header).to_bytes(8, "little") + header + data[8 + length :])
    assert torch.equal(logits(path), logits(pth))


# -- refusals


@pytest.mark.parametrize(
    ("key", "kind", "words"),
    [
        ("blocks.0.ffn.s_emb.weight", UnsupportedArchitectureError, "RWKV-7a"),
        ("blocks.1.qkv.k_emb", UnsupportedArchitectureError, "RWKV-7b"),
        ("blocks.0.ffn.enn.weight", UnsupportedArchitectureError, "RWKV-8"),
        ("blocks.0.att.receptance.lora_A", UnsupportedArchitectureError, "adapter"),
        ("blocks.0.att.time_state", UnsupportedArchitectureError, "initial state"),
        ("blocks.0.att.novel", CheckpointKeysError, "blocks.0.att.novel"),
    ],
)
@pytest.mark.parametrize("ending", ["safetensors", "pth"])
def test_other_models_are_refused_by_name(
    tmp_path: Path, tensors: Tensors, key: str, kind: type[CheckpointError], words: str, ending: str
) -> None:
    more = tensors | {key: torch.zeros(2, 2)}
    path = tmp_path / f"x.{ending}"
    save_file(more, path) if ending == "safetensors" else torch.save(more, path)
    refused(path, kind, words)


@pytest.mark.parametrize(
    ("key", "words"),
    [
        ("model.layers.0.ffn.s_emb.weight", "RWKV-7a"),
        ("model.layers.1.qkv.k_emb", "RWKV-7b"),
        ("base_model.model.model.layers.0.attn.r_proj.lora_A.weight", "adapter"),
        ("model.layers.0.self_attn.q_proj.weight", "transformer"),
        ("model.layers.0.attn.x_x", "another model in the Hugging Face layout"),
        ("model.layers.0.attn.g_lora.lora.2.bias", "another model in the Hugging Face layout"),
        ("model.layers.00.attn.r_k", "another model in the Hugging Face layout"),
    ],
)
def test_other_models_are_refused_in_the_layout_too(
    hf_layout: ModuleType, tmp_path: Path, tensors: Tensors, key: str, words: str
) -> None:
    save_file(hf_layout.to_hf(tensors) | {key: torch.zeros(2, 2)}, tmp_path / "model.safetensors")
    refused(tmp_path, UnsupportedArchitectureError, words)


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"model_type": "rwkv6"}, "its config.json says 'rwkv6'"),
        ({"model_type": "llama"}, "its config.json says 'llama'"),
        ({"hidden_size": 128, "attention_hidden_size": 256}, "its attention is 256 wide and its model 128"),
        ({"head_dim": 32}, "its heads are 32 wide, not 64"),
    ],
)
def test_a_config_that_says_otherwise_is_refused(
    hf_layout: ModuleType, tmp_path: Path, tensors: Tensors, config: dict[str, object], words: str
) -> None:
    refused(hf_layout.write(tmp_path / "hf", tensors, config=config), UnsupportedArchitectureError, words)


def test_a_missing_and_a_misshapen_tensor_are_named(hf_layout: ModuleType, tmp_path: Path, tensors: Tensors) -> None:
    fewer = {key: tensor for key, tensor in tensors.items() if key != "blocks.2.att.v1"}
    refused(hf_layout.write(tmp_path / "a", fewer), CheckpointKeysError, "blocks.2.att.v1")
    wrong = tensors | {"blocks.2.att.w2": torch.zeros(17, 128)}
    refused(hf_layout.write(tmp_path / "b", wrong), CheckpointShapeError, "blocks.2.att.w2")
    whole = tensors | {"ln_out.bias": torch.zeros(128, dtype=torch.float64)}
    refused(hf_layout.write(tmp_path / "c", whole), CheckpointShapeError, "ln_out.bias is float64")


# -- hostile folders


def reindexed(folder: Path, change: Callable[[dict[str, str]], object]) -> Path:
    path = folder / "model.safetensors.index.json"
    content = json.loads(path.read_text())
    change(content["weight_map"])
    path.write_text(json.dumps(content))
    return folder


@pytest.mark.parametrize("name", ["../secret.safetensors", "/etc/passwd", "..", "", "a/b", "a\\b", "a\x00b", "a\nb"])
def test_an_index_cannot_point_out_of_its_folder(
    hf_layout: ModuleType, tmp_path: Path, tensors: Tensors, name: str
) -> None:
    save_file(tensors, tmp_path / "secret.safetensors")
    folder = hf_layout.write(tmp_path / "hf", tensors, shards=2)
    refused(reindexed(folder, lambda m: m.update({"lm_head.weight": name})), UnreadableCheckpointError, "is refused")


@pytest.mark.parametrize("target", ["../outside.safetensors", "/etc/hostname"])
def test_a_link_cannot_point_out_of_its_folder(
    hf_layout: ModuleType, tmp_path: Path, tensors: Tensors, target: str
) -> None:
    folder = hf_layout.write(tmp_path / "hf", tensors)
    (folder / "model.safetensors").rename(tmp_path / "outside.safetensors")
    (folder / "model.safetensors").symlink_to(target)
    refused(folder, UnreadableCheckpointError, "is a link out of the folder")


def test_links_within_the_hubs_cache_are_followed(hf_layout: ModuleType, tmp_path: Path, tensors: Tensors) -> None:
    folder = hf_layout.write(tmp_path / "models--fla-hub--x" / "snapshots" / "abc", tensors)
    blobs = tmp_path / "models--fla-hub--x" / "blobs"
    blobs.mkdir()
    (folder / "model.safetensors").rename(blobs / "1234")
    (folder / "model.safetensors").symlink_to("../../blobs/1234")
    assert load.load(folder).dims == DIMS


@pytest.mark.parametrize("kind", ["circle", "dangling", "fifo", "folder"])
def test_what_is_no_file_is_refused(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "model.safetensors"
    match kind:
        case "circle":
            path.symlink_to(path)
        case "dangling":
            path.symlink_to("nowhere")
        case "fifo":
            os.mkfifo(path)
        case "folder":
            path.mkdir()
    refused(path, UnreadableCheckpointError, "cannot read")
    refused(tmp_path, UnreadableCheckpointError, "cannot read")


def test_a_pipe_named_pth_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "x.pth")
    refused(tmp_path / "x.pth", UnreadableCheckpointError, "a pipe, socket or device")


@pytest.mark.parametrize(
    ("change", "kind", "words"),
    [
        (lambda m: m.pop("lm_head.weight"), CheckpointKeysError, "where its index has it elsewhere"),
        (lambda m: m.update({"extra": next(iter(m.values()))}), UnreadableCheckpointError, "lacks extra, which its"),
        (lambda m: m.clear(), UnreadableCheckpointError, "no weight_map"),
        (lambda m: m.update({"lm_head.weight": 7}), UnreadableCheckpointError, "no weight_map"),
        (lambda m: m.update({"lm_head.weight": "gone.safetensors"}), UnreadableCheckpointError, "No such file"),
    ],
)
def test_an_index_that_lies_is_refused(
    hf_layout: ModuleType,
    tmp_path: Path,
    tensors: Tensors,
    change: Callable[..., object],
    kind: type[CheckpointError],
    words: str,
) -> None:
    refused(reindexed(hf_layout.write(tmp_path / "hf", tensors, shards=2), change), kind, words)


@pytest.mark.parametrize("text", ["", "[]", "{", '{"weight_map": []}', "[" * 100_000, '{"a": 1, "a": 2}', "\xff"])
def test_an_index_that_is_no_index_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "model.safetensors.index.json").write_text(text, encoding="latin-1")
    with pytest.raises(UnreadableCheckpointError):
        load.load(tmp_path)


def test_two_shards_with_one_tensor_are_refused(hf_layout: ModuleType, tmp_path: Path, tensors: Tensors) -> None:
    folder = hf_layout.write(tmp_path / "hf", tensors, shards=2)
    name = "model-00001-of-00002.safetensors"
    first = json.loads((folder / "model.safetensors.index.json").read_text())["weight_map"]
    twice = next(key for key, file in first.items() if file != name)
    theirs = hf_layout.to_hf(tensors)
    save_file({key: theirs[key] for key, file in first.items() if file == name or key == twice}, folder / name)
    refused(folder, CheckpointKeysError, "elsewhere")


def test_folders_without_a_checkpoint_say_what_they_lack(tmp_path: Path, tensors: Tensors) -> None:
    refused(tmp_path, UnreadableCheckpointError, "the folder has neither model.safetensors nor")
    save_file(tensors, tmp_path / "a.safetensors")
    assert index.read(tmp_path).layout == "blinkdl"
    save_file(tensors, tmp_path / "b.safetensors")
    refused(tmp_path, UnreadableCheckpointError, "the folder has 2 .safetensors files but no")
