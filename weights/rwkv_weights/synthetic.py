"""Random checkpoints that behave like trained ones in scale: for tests and for benchmarks without a download.

The draw order is part of the recipe, so that a seed names a file: table order, block by block, weight before bias.
"""

import math
from dataclasses import dataclass, field, replace
from pathlib import Path

import torch
from torch import Tensor

from rwkv_weights.schema import HEAD_SIZE, MIXES, Dims

_RANKS = {
    768: (64, 64, 32, 128),
    1024: (64, 64, 32, 128),
    2048: (96, 96, 64, 256),
    2560: (96, 96, 64, 320),
    4096: (128, 128, 96, 480),
}


def dims_of(layers: int, width: int, vocabulary: int = 65536, ranks: tuple[int, int, int, int] | None = None) -> Dims:
    """The published shape of that width: its ranks where known, else 32 each."""
    return Dims(vocabulary, layers, width, 4 * width, ranks or _RANKS.get(width, (32, 32, 32, 32)))


@dataclass(frozen=True)
class _Draw:
    generator: torch.Generator
    tensors: dict[str, Tensor] = field(default_factory=dict)

    def normal(self, key: str, *shape: int, scale: float, mean: float = 0.0) -> None:
        self._keep(key, mean + scale * torch.randn(*shape, generator=self.generator))

    def uniform(self, key: str, *shape: int, low: float = 0.0, span: float = 1.0) -> None:
        self._keep(key, low + span * torch.rand(*shape, generator=self.generator))

    def norm(self, key: str, width: int, mean: float = 1.0) -> None:
        self.normal(f"{key}.weight", width, scale=0.1, mean=mean)
        self.normal(f"{key}.bias", width, scale=0.1)

    def pair(self, key: str, width: int, rank: int, gain: float) -> None:
        self.normal(f"{key}1", width, rank, scale=width**-0.5)
        self.normal(f"{key}2", rank, width, scale=gain * rank**-0.5)

    def _keep(self, key: str, value: Tensor) -> None:
        self.tensors[key] = value.to(torch.bfloat16)


def synthetic(dims: Dims, seed: int = 0) -> dict[str, Tensor]:
    """Tensors of a random model in bf16, in BlinkDL's names and shapes."""
    draw = _Draw(torch.Generator().manual_seed(seed))
    draw.normal("emb.weight", dims.vocabulary, dims.width, scale=0.5)
    for layer in range(dims.layers):
        if layer == 0:
            draw.norm("blocks.0.ln0", dims.width)
        draw.norm(f"blocks.{layer}.ln1", dims.width)
        draw.norm(f"blocks.{layer}.ln2", dims.width)
        _time_mix(draw, f"blocks.{layer}.att", dims, layer)
        _channel_mix(draw, f"blocks.{layer}.ffn", dims)
    draw.norm("ln_out", dims.width)
    draw.normal("head.weight", dims.vocabulary, dims.width, scale=dims.width**-0.5)
    return draw.tensors


def _time_mix(draw: _Draw, att: str, dims: Dims, layer: int) -> None:
    d = dims.width
    rank_w, rank_a, rank_v, rank_g = dims.ranks
    for mix in MIXES:
        draw.uniform(f"{att}.{mix}", 1, 1, d)
    draw.uniform(f"{att}.w0", 1, 1, d, low=-6.0, span=6.0)
    draw.normal(f"{att}.r_k", dims.heads, HEAD_SIZE, scale=0.1)
    draw.pair(f"{att}.w", d, rank_w, 0.5)
    draw.pair(f"{att}.a", d, rank_a, 0.5)
    draw.normal(f"{att}.a0", 1, 1, d, scale=0.5)
    draw.pair(f"{att}.g", d, rank_g, 2.0)
    if layer:
        draw.normal(f"{att}.v2", rank_v, d, scale=0.5 * rank_v**-0.5)
        draw.normal(f"{att}.v1", d, rank_v, scale=d**-0.5)
        draw.normal(f"{att}.v0", 1, 1, d, scale=0.2, mean=0.7)
    draw.normal(f"{att}.k_k", 1, 1, d, scale=0.1, mean=0.7)
    draw.normal(f"{att}.k_a", 1, 1, d, scale=0.1, mean=1.0)
    for linear in ("receptance", "key", "value", "output"):
        draw.normal(f"{att}.{linear}.weight", d, d, scale=d**-0.5)
    draw.norm(f"{att}.ln_x", d, mean=0.5)


def _channel_mix(draw: _Draw, ffn: str, dims: Dims) -> None:
    draw.uniform(f"{ffn}.x_k", 1, 1, dims.width)
    draw.normal(f"{ffn}.key.weight", dims.hidden, dims.width, scale=dims.width**-0.5)
    draw.normal(f"{ffn}.value.weight", dims.width, dims.hidden, scale=1 / math.sqrt(dims.hidden))


def write(path: Path, dims: Dims, seed: int = 0, hidden: int | None = None) -> Path:
    """Write such a checkpoint where `path` says (another FFN width if `hidden` is given) and return the path."""
    torch.save(synthetic(replace(dims, hidden=hidden or dims.hidden), seed), path)
    return path
