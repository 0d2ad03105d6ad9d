"""The Hugging Face layout as the reference describes it (8.2), written out independently of
`rwkv_weights.formats.hf_names`."""

import json
import re
from pathlib import Path

import torch
from safetensors.torch import save_file

Tensors = dict[str, torch.Tensor]

RENAMES = [
    (r"emb\.weight", "model.embeddings.weight"),
    (r"head\.weight", "lm_head.weight"),
    (r"ln_out\.(\w+)", r"model.norm.\1"),
    (r"blocks\.0\.ln0\.(\w+)", r"model.layers.0.pre_norm.\1"),
    (r"blocks\.(\d+)\.ln1\.(\w+)", r"model.layers.\1.attn_norm.\2"),
    (r"blocks\.(\d+)\.ln2\.(\w+)", r"model.layers.\1.ffn_norm.\2"),
    (r"blocks\.(\d+)\.att\.receptance\.weight", r"model.layers.\1.attn.r_proj.weight"),
    (r"blocks\.(\d+)\.att\.key\.weight", r"model.layers.\1.attn.k_proj.weight"),
    (r"blocks\.(\d+)\.att\.value\.weight", r"model.layers.\1.attn.v_proj.weight"),
    (r"blocks\.(\d+)\.att\.output\.weight", r"model.layers.\1.attn.o_proj.weight"),
    (r"blocks\.(\d+)\.att\.ln_x\.(\w+)", r"model.layers.\1.attn.g_norm.\2"),
    (r"blocks\.(\d+)\.att\.([wav])0", r"model.layers.\1.attn.\2_lora.lora.2.bias"),
    (r"blocks\.(\d+)\.att\.([wavg])1", r"model.layers.\1.attn.\2_lora.lora.0.weight"),
    (r"blocks\.(\d+)\.att\.([wavg])2", r"model.layers.\1.attn.\2_lora.lora.2.weight"),
    (r"blocks\.(\d+)\.att\.(x_\w|k_k|k_a|r_k)", r"model.layers.\1.attn.\2"),
    (r"blocks\.(\d+)\.ffn\.(.+)", r"model.layers.\1.ffn.\2"),
]


def to_hf(tensors: Tensors) -> Tensors:
    """BlinkDL's tensors as a converter would write them."""
    return dict(one(key, tensor) for key, tensor in tensors.items())


def one(key: str, tensor: torch.Tensor) -> tuple[str, torch.Tensor]:
    for pattern, name in RENAMES:
        if re.fullmatch(pattern, key):
            theirs = re.sub(pattern, name, key)
            break
    else:
        raise AssertionError(key)
    if ".lora." in theirs and theirs.endswith("weight"):
        tensor = tensor.t()
    if not theirs.rsplit(".", 1)[-1].startswith("x_") or ".ffn." in theirs:
        tensor = tensor.squeeze() if tensor.dim() > 2 else tensor
    return theirs, tensor.contiguous()


def write(folder: Path, tensors: Tensors, shards: int = 1, config: dict[str, object] | None = None) -> Path:
    """A folder in the layout, in one file or several."""
    folder.mkdir(parents=True, exist_ok=True)
    theirs = to_hf(tensors)
    if config is not None:
        (folder / "config.json").write_text(json.dumps(config))
    if shards == 1:
        save_file(theirs, folder / "model.safetensors", metadata={"format": "pt"})
        return folder
    places = {}
    for number in range(shards):
        name = f"model-{number + 1:05}-of-{shards:05}.safetensors"
        part = dict(list(theirs.items())[number::shards])
        save_file(part, folder / name)
        places |= dict.fromkeys(part, name)
    index = {"metadata": {"total_size": 0}, "weight_map": places}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    return folder
