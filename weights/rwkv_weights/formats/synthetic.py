"""Random checkpoints that behave like trained ones in scale: for tests and for benchmarks without a download.

The draw order is part of the recipe, so that a seed names a file: table order, block by block, weight before bias.
"""

import math
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import NormalDist

import torch
from torch import Tensor

from rwkv_weights.formats.load import Checkpoint
from rwkv_weights.formats.schema import HEAD_SIZE, MIXES, Dims

SPARSE_SEED = 9  # of the feed-forward's keys where their sparsity is set
_RANKS = {
    768: (64, 64, 32, 128),
    1024: (64, 64, 32, 128),
    2048: (96, 96, 64, 256),
    2560: (96, 96, 64, 320),
    4096: (128, 128, 96, 480),
}


def dims_of(layers: int, width: int, vocabulary: int = 65536, ranks: tuple[int, int, int, int] | None = None) -> Dims:
    """Return the published dimensions for a width: its ranks where known, else 32 each."""
    return Dims(vocabulary, layers, width, 4 * width, ranks or _RANKS.get(width, (32, 32, 32, 32)))


@dataclass(frozen=True)
class _Draw:
    generator: torch.Generator
    tensors: dict[str, Tensor] = field(default_factory=dict)

    def normal(self, key: str, *shape: int, scale: float, mean: float = 0.0) -> None:
        numbers = torch.randn(*shape, generator=self.generator, device=self.generator.device)
        self._keep(key, mean + scale * numbers)

    def uniform(self, key: str, *shape: int, low: float = 0.0, span: float = 1.0) -> None:
        numbers = torch.rand(*shape, generator=self.generator, device=self.generator.device)
        self._keep(key, low + span * numbers)

    def norm(self, key: str, width: int, mean: float = 1.0) -> None:
        self.normal(f"{key}.weight", width, scale=0.1, mean=mean)
        self.normal(f"{key}.bias", width, scale=0.1)

    def pair(self, key: str, width: int, rank: int, gain: float) -> None:
        self.normal(f"{key}1", width, rank, scale=width**-0.5)
        self.normal(f"{key}2", rank, width, scale=gain * rank**-0.5)

    def _keep(self, key: str, value: Tensor) -> None:
        self.tensors[key] = value.to(torch.bfloat16)


def synthetic(dims: Dims, seed: int = 0) -> dict[str, Tensor]:
    """Return the tensors of a random model in bf16, by BlinkDL's names and in its shapes."""
    return _drawn(_Draw(torch.Generator().manual_seed(seed)), dims)


def drawn_on(device: torch.device | str, dims: Dims, zero_share: float = 0.85, seed: int = 0) -> Checkpoint:
    """Return a random model that is drawn on a device, as a validated checkpoint in bf16 without a file.

    `zero_share` of what the feed-forward's relu gives is zero, as in trained models (published: 78-90 % at 1.5B, 90 %
    at 7.2B); plain random weights give half, with which kernels that skip zeros look too slow. For a seed, each
    kind of device draws other numbers.
    """
    draw = _Draw(torch.Generator(device).manual_seed(seed))
    tensors = {key: tensor.squeeze() if tensor.dim() > 2 else tensor for key, tensor in _drawn(draw, dims).items()}
    sparse = torch.Generator(device).manual_seed(SPARSE_SEED)
    for layer in range(dims.layers):
        for part in ("weight", "bias"):
            tensors[f"blocks.{layer}.ln2.{part}"].fill_(1.0)
        tensors[f"blocks.{layer}.ffn.key.weight"].copy_(_sparse_key(sparse, dims, zero_share))
    return Checkpoint(Path(f"drawn-{dims.layers}x{dims.width}"), dims, tensors)


def _sparse_key(generator: torch.Generator, dims: Dims, zero_share: float) -> Tensor:
    """Return rows whose product with an input of mean 1 is below zero in `zero_share` of all cases, [F, D] in fp32.

    The input is x + (x_before - x) * x_k with x normal of mean and spread 1, so a product has the spread
    sqrt((1 - x_k)^2 + x_k^2), sqrt(2/3) over uniform x_k; the row's sum says its mean.
    """
    key = torch.randn(dims.hidden, dims.width, generator=generator, device=generator.device) / math.sqrt(dims.width)
    key -= key.mean(1, keepdim=True)
    return key - NormalDist().inv_cdf(zero_share) * math.sqrt(2 / 3) / dims.width


def _drawn(draw: _Draw, dims: Dims) -> dict[str, Tensor]:
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
