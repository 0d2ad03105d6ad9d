"""The tensors of an RWKV-7 (x070) checkpoint in BlinkDL's names: which keys there are and what shape each has.

Source: BlinkDL/RWKV-LM, RWKV-v7. Shapes are written without axes of size 1; linear weights are [out, in], the low-rank
pairs are [in, rank] and [rank, out].
"""

from collections.abc import Mapping
from dataclasses import dataclass

HEAD_SIZE = 64
Shape = tuple[int, ...]
MIXES = ("x_r", "x_w", "x_k", "x_v", "x_a", "x_g")
VALUE_RESIDUAL = ("v0", "v1", "v2")


@dataclass(frozen=True, slots=True)
class Dims:
    """Sizes of one model: `ranks` are those of the decay, in-context rate, value and gate chains (w, a, v, g)."""

    vocabulary: int
    layers: int
    width: int
    hidden: int
    ranks: tuple[int, int, int, int]

    @property
    def heads(self) -> int:
        return self.width // HEAD_SIZE

    @property
    def state_bytes(self) -> int:
        """The bytes of one sequence's state in fp32: the wkv matrices and two token shifts a layer."""
        return 4 * self.layers * self.width * (HEAD_SIZE + 2)


def expected(dims: Dims, block0_has_value_residual: bool) -> dict[str, Shape]:
    """Return every key that a checkpoint of these dimensions must have, with its shape."""
    d = dims.width
    shapes: dict[str, Shape] = {"emb.weight": (dims.vocabulary, d), "head.weight": (dims.vocabulary, d)}
    norms = ["blocks.0.ln0", "ln_out"]
    for i in range(dims.layers):
        block = f"blocks.{i}"
        norms += [f"{block}.ln1", f"{block}.ln2", f"{block}.att.ln_x"]
        shapes |= {f"{block}.{key}": shape for key, shape in _block(dims).items()}
        if i or block0_has_value_residual:
            shapes |= {f"{block}.att.{key}": shape for key, shape in value_residual(dims).items()}
    for norm in norms:
        shapes |= {f"{norm}.weight": (d,), f"{norm}.bias": (d,)}
    return shapes


def _block(dims: Dims) -> dict[str, Shape]:
    d = dims.width
    w, a, _, g = dims.ranks
    shapes: dict[str, Shape] = {f"att.{name}": (d,) for name in (*MIXES, "w0", "a0", "k_k", "k_a")}
    shapes |= {f"att.{name}.weight": (d, d) for name in ("receptance", "key", "value", "output")}
    for name, rank in (("w", w), ("a", a), ("g", g)):
        shapes |= {f"att.{name}1": (d, rank), f"att.{name}2": (rank, d)}
    shapes |= {"att.r_k": (dims.heads, HEAD_SIZE), "ffn.x_k": (d,)}
    return shapes | {"ffn.key.weight": (dims.hidden, d), "ffn.value.weight": (d, dims.hidden)}


def value_residual(dims: Dims) -> dict[str, Shape]:
    """Return the keys that mix the first layer's values in. Block 0 may have them and does not use them."""
    rank = dims.ranks[2]
    return {"v0": (dims.width,), "v1": (dims.width, rank), "v2": (rank, dims.width)}


def foreign(keys: Mapping[str, object] | set[str]) -> str:
    """Return a clause that says which other kind of model the keys belong to; empty if they look like RWKV-7."""
    for mark, meaning in _FOREIGN:
        if found := next((key for key in sorted(keys) if mark in key), ""):
            return f"{meaning} (it has {found})"
    return ""


_INSPECT = "see `rwkvctl weights inspect` and `weights merge`"
_FOREIGN = (
    (".qkv.", "it is an RWKV-7b model (DeepEmbedAttention with a key-value cache)"),
    ("ffn.s_emb", "it is an RWKV-7a model (DeepEmbed)"),
    ("ffn.enn", "it is an RWKV-8 model"),
    (".rosa", "it is an RWKV-8 model"),
    ("lora_", f"it is an adapter, not a whole model; {_INSPECT}"),
    (".bone", f"it is an adapter, not a whole model; {_INSPECT}"),
    (".disha", f"it is an adapter, not a whole model; {_INSPECT}"),
    ("time_state", f"it is a tuned initial state, not a whole model; {_INSPECT}"),
    ("att.time_", "it is an RWKV-4, 5 or 6 model"),
    ("self_attn", "it is a transformer"),
    ("model.layers.", "it is another model in the Hugging Face layout, or mixes that layout with BlinkDL's"),
)
