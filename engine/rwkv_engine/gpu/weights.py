"""Build the weights for the GPU kernels from a checkpoint's tensors, one tensor at a time."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from rwkv_kernels.gpu import low_rank
from rwkv_weights.formats.finite import FiniteCheck
from rwkv_weights.formats.load import Checkpoint
from rwkvctl.protocol.numerics import PROFILES, Numerics

PLANES = "rkvwag"


@dataclass(frozen=True, slots=True)
class Norm:
    """Weight and bias [D] of a norm, in fp32."""

    weight: Tensor
    bias: Tensor


@dataclass(frozen=True, slots=True)
class Block:
    """One layer. `shares` is [6, D] in the order r k v w a g, `rkv` [3, D, D], `key` [F, D]; `value` is [F, D], a row
    for each hidden unit, so that the sparse product reads whole rows. Vectors are fp32, matrices of the profile's type.
    """

    norm1: Norm
    shares: Tensor
    rkv: Tensor
    down: low_rank.Down
    up: low_rank.Up
    k_k: Tensor
    k_a: Tensor
    r_k: Tensor
    head_norm: Norm
    output: Tensor
    norm2: Norm
    share: Tensor
    key: Tensor
    value: Tensor


@dataclass(frozen=True, slots=True)
class Weights:
    """The weights of a model; the embedding is in the file's type."""

    embedding: Tensor
    norm0: Norm
    blocks: tuple[Block, ...]
    norm_out: Norm
    head: Tensor


@dataclass(frozen=True, slots=True)
class _Reader:
    checkpoint: Checkpoint
    device: torch.device
    dtype: torch.dtype
    finite: FiniteCheck = field(default_factory=FiniteCheck)

    def moved(self, key: str) -> Tensor:
        """Return a tensor in the file's type, to be checked and converted on the device: half the bytes cross the
        bus."""
        found = self.checkpoint.tensors[key].to(self.device)
        self.finite.add(key, found)
        return found

    def vector(self, key: str) -> Tensor:
        return self.moved(key).float().reshape(-1)

    def matrix(self, key: str) -> Tensor:
        """Return a matrix in the profile's type. A number that overflows fp16 becomes an infinity, which is refused
        like one in the file."""
        found = self.moved(key).to(self.dtype).contiguous()
        self.finite.add(f"{key} in {str(self.dtype).removeprefix('torch.')}", found)
        return found

    def norm(self, key: str) -> Norm:
        return Norm(self.vector(f"{key}.weight"), self.vector(f"{key}.bias"))

    def stack(self, keys: Sequence[str]) -> Tensor:
        return torch.stack([self.matrix(key) for key in keys])

    def block(self, layer: int) -> Block:
        block, att = f"blocks.{layer}", f"blocks.{layer}.att"
        chains = "wavg" if layer else "wag"
        return Block(
            norm1=self.norm(f"{block}.ln1"),
            shares=torch.stack([self.vector(f"{att}.x_{plane}") for plane in PLANES]),
            rkv=self.stack([f"{att}.{name}.weight" for name in ("receptance", "key", "value")]),
            down=low_rank.pack_down({name: self.matrix(f"{att}.{name}1") for name in chains}),
            up=low_rank.pack_up(
                {name: self.matrix(f"{att}.{name}2") for name in chains},
                {name: self.vector(f"{att}.{name}0") for name in chains if name != "g"},
            ),
            k_k=self.vector(f"{att}.k_k"),
            k_a=self.vector(f"{att}.k_a"),
            r_k=self.vector(f"{att}.r_k"),
            head_norm=self.norm(f"{att}.ln_x"),
            output=self.matrix(f"{att}.output.weight"),
            norm2=self.norm(f"{block}.ln2"),
            share=self.vector(f"{block}.ffn.x_k").view(1, -1),
            key=self.matrix(f"{block}.ffn.key.weight"),
            value=self.matrix(f"{block}.ffn.value.weight").t().contiguous(),
        )


def build(checkpoint: Checkpoint, numerics: Numerics, device: torch.device) -> Weights:
    """Copy a validated checkpoint to the device. Raises CheckpointValuesError for numbers that are not finite."""
    dtype = torch.float16 if PROFILES[numerics].half_weights else torch.float32
    read = _Reader(checkpoint, device, dtype)
    weights = Weights(
        embedding=read.moved("emb.weight"),
        norm0=read.norm("blocks.0.ln0"),
        blocks=tuple(read.block(layer) for layer in range(checkpoint.dims.layers)),
        norm_out=read.norm("ln_out"),
        head=read.matrix("head.weight"),
    )
    read.finite.finish(checkpoint.path.name)
    return weights
