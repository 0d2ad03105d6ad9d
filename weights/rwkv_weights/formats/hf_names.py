"""Hugging Face's names (fla, rwkv7-hf) for RWKV-7's tensors, and BlinkDL's for the same ones.

Their low-rank pairs are torch Linears, and so transposed. Names that RWKV-7 does not have stay as they are, so that the
error message shows the names in the file.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from rwkv_weights.errors import CheckpointKeysError, UnsupportedArchitectureError
from rwkv_weights.formats.entry import Entry

MODEL_TYPES: Final = frozenset({"rwkv7", "rwkv7_native"})

_WHOLE: Final = {"model.embeddings.weight": "emb.weight", "lm_head.weight": "head.weight"}
_NORM: Final = re.compile(r"model\.norm\.(weight|bias)")
_LAYER: Final = re.compile(r"model\.layers\.(0|[1-9]\d{0,5})\.(.+)", re.ASCII)
_LORA: Final = re.compile(r"attn\.([wavg])_lora\.lora\.(0\.weight|2\.weight|2\.bias)")
_LORA_PARTS: Final = {"0.weight": "1", "2.weight": "2", "2.bias": "0"}
_NORMS: Final = {"pre_norm": "ln0", "attn_norm": "ln1", "ffn_norm": "ln2", "attn.g_norm": "att.ln_x"}
_NAMES: Final = (
    {f"{theirs}.{part}": f"{ours}.{part}" for theirs, ours in _NORMS.items() for part in ("weight", "bias")}
    | {f"attn.{one}_proj.weight": f"att.{ours}.weight"
       for one, ours in (("r", "receptance"), ("k", "key"), ("v", "value"), ("o", "output"))}
    | {f"attn.{name}": f"att.{name}" for name in ("x_r", "x_w", "x_k", "x_v", "x_a", "x_g", "k_k", "k_a", "r_k")}
    | {f"ffn.{name}": f"ffn.{name}" for name in ("x_k", "key.weight", "value.weight")}
)  # fmt: skip


def uses_hf_names(keys: Iterable[str]) -> bool:
    """Whether these are Hugging Face's names and none is BlinkDL's."""
    names = list(keys)
    return any(name.startswith("model.layers.") for name in names) and not any(n.startswith("blocks.") for n in names)


def translate(file: str, theirs: Mapping[str, Entry]) -> dict[str, Entry]:
    """Return the tensors by BlinkDL's names and in its orientation. Raises CheckpointKeysError if two get one name."""
    found: dict[str, Entry] = {}
    for key, entry in theirs.items():
        name, turned = name_of(key)
        if name in found:
            raise CheckpointKeysError(f"{file} has {name} twice, the second time as {key}")
        if turned and len(entry.shape) == 2:
            entry = entry.transposed()  # noqa: PLW2901 - the same tensor, seen the other way round
        found[name] = entry
    return found


def name_of(key: str) -> tuple[str, bool]:
    """Return BlinkDL's name, and whether the matrix is transposed there."""
    if norm := _NORM.fullmatch(key):
        return f"ln_out.{norm[1]}", False
    layer = _LAYER.fullmatch(key)
    if layer is None:
        return _WHOLE.get(key, key), False
    if lora := _LORA.fullmatch(layer[2]):
        part = _LORA_PARTS[lora[2]]
        return (key, False) if lora[1] + part == "g0" else (f"blocks.{layer[1]}.att.{lora[1]}{part}", part != "0")
    return (f"blocks.{layer[1]}.{_NAMES[layer[2]]}", False) if layer[2] in _NAMES else (key, False)


def check_config(name: str, config: Mapping[str, Any]) -> None:
    """Check that config.json describes an RWKV-7 that this engine runs; what it omits is taken as such. Raises
    UnsupportedArchitectureError."""
    kind = config.get("model_type", "rwkv7")
    if kind not in MODEL_TYPES:
        raise UnsupportedArchitectureError(f"{name} is not an RWKV-7 (x070) model: its config.json says {kind!r}")
    width = config.get("hidden_size")
    attention = config.get("attention_hidden_size") or width
    if attention != width:
        raise UnsupportedArchitectureError(
            f"{name} is refused: its attention is {attention} wide and its model {width}, and this engine runs equal "
            "widths only"
        )
    if config.get("head_dim", 64) != 64:
        raise UnsupportedArchitectureError(f"{name} is refused: its heads are {config['head_dim']} wide, not 64")
