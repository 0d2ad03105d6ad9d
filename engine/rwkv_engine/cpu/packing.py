"""Pack a checkpoint's tensors as the weights that the arithmetic takes."""

from dataclasses import dataclass, field

import torch
from torch import Tensor

from rwkv_kernels.channel_mix import ChannelMix
from rwkv_kernels.linear import Activation, Linear, pack
from rwkv_kernels.norm import Norm
from rwkv_kernels.time_mix import TimeMix
from rwkv_weights.formats.finite import FiniteCheck
from rwkv_weights.formats.load import Checkpoint
from rwkv_weights.formats.schema import MIXES


@dataclass(frozen=True, slots=True)
class Block:
    """Packed weights of one layer."""

    norm1: Norm
    time: TimeMix
    norm2: Norm
    channel: ChannelMix


@dataclass(frozen=True, slots=True)
class Weights:
    """The weights of a model; the embedding stays in the file's type, the rest is fp32."""

    embedding: Tensor
    norm0: Norm
    blocks: tuple[Block, ...]
    norm_out: Norm
    head: Linear


@dataclass(frozen=True, slots=True)
class Reader:
    """Reads a checkpoint for the CPU, tensor by tensor."""

    checkpoint: Checkpoint
    pack_above: int
    finite: FiniteCheck = field(default_factory=FiniteCheck)

    def tensor(self, key: str) -> Tensor:
        """Return a tensor in the file's type, and add it to the check for NaN and infinities."""
        found = self.checkpoint.tensors[key]
        self.finite.add(key, found)
        return found

    def vector(self, key: str) -> Tensor:
        """Return a copy of a vector, so that the running model does not depend on the mapped file, which may be
        truncated."""
        return self.tensor(key).to(torch.float32, copy=True).contiguous()

    def norm(self, key: str) -> Norm:
        return Norm(self.vector(f"{key}.weight"), self.vector(f"{key}.bias"))

    def linear(self, key: str, activation: Activation = "none") -> Linear:
        return pack(self.tensor(f"{key}.weight"), None, activation, self.pack_above)

    def chain(
        self, key: str, *, bias: bool, inner: Activation = "none", outer: Activation = "none"
    ) -> tuple[Linear, Linear]:
        """Return a low-rank pair, stored as [in, rank] and [rank, out]."""
        down, up = (self.tensor(f"{key}{n}").t() for n in (1, 2))
        offset = self.vector(f"{key}0") if bias else None
        return pack(down, None, inner, self.pack_above), pack(up, offset, outer, self.pack_above)

    def block(self, layer: int) -> Block:
        key = f"blocks.{layer}"
        channel = ChannelMix(
            share=self.vector(f"{key}.ffn.x_k").view(1, 1, -1),
            key=self.linear(f"{key}.ffn.key", "relu"),
            value=self.linear(f"{key}.ffn.value"),
        )
        return Block(self.norm(f"{key}.ln1"), self.time_mix(f"{key}.att", layer), self.norm(f"{key}.ln2"), channel)

    def time_mix(self, att: str, layer: int) -> TimeMix:
        r_k, k_a = self.vector(f"{att}.r_k"), self.vector(f"{att}.k_a")
        return TimeMix(
            shares=torch.stack([self.vector(f"{att}.{mix}") for mix in MIXES])[_ORDER].unsqueeze(1).contiguous(),
            receptance=self.linear(f"{att}.receptance"),
            key=self.linear(f"{att}.key"),
            values=self.linear(f"{att}.value"),
            output=self.linear(f"{att}.output"),
            decay=self.chain(f"{att}.w", bias=True, inner="tanh", outer="sigmoid"),
            rate=self.chain(f"{att}.a", bias=True, outer="sigmoid"),
            gate=self.chain(f"{att}.g", bias=False, inner="sigmoid"),
            value=self.chain(f"{att}.v", bias=True, outer="sigmoid") if layer else None,
            k_k=self.vector(f"{att}.k_k").view_as(r_k),
            k_a=k_a,
            keep_k=1.0 - k_a,
            r_k=r_k,
            norm=self.norm(f"{att}.ln_x"),
        )


_ORDER = [MIXES.index(f"x_{name}") for name in "rwkvag"]


def build(checkpoint: Checkpoint, pack_above: int) -> Weights:
    """Convert every weight of a validated checkpoint to fp32; `pack_above` as in rwkv_kernels.linear.pack.

    Raises CheckpointValuesError for numbers that are not finite."""
    read = Reader(checkpoint, pack_above)
    weights = Weights(
        embedding=read.tensor("emb.weight").clone(),
        norm0=read.norm("blocks.0.ln0"),
        blocks=tuple(read.block(layer) for layer in range(checkpoint.dims.layers)),
        norm_out=read.norm("ln_out"),
        head=read.linear("head"),
    )
    read.finite.finish(checkpoint.path.name)
    return weights
