"""Merge an adapter into the weights of its base: each tensor in fp32, then in the base's type.

    lora    W + B A alpha/r, with rsLoRA alpha/sqrt(r)
    pissa   W - iB iA + B A; `rounded`: the difference in bf16 before the sum, as RWKV-PEFT's script has it
    bone    W[:, j] + disha[j mod r]
    bat     W + W' disha + disha, on blocks of r x r, where W' are the blocks of a block column

Source: RWKV-PEFT's merge scripts; W is [out, in].
"""

import math
from collections.abc import Iterator, Mapping
from typing import Final

import torch
from torch import Tensor

from rwkv_weights.adapters.adapter_file import Adapter, AdapterKind, Part
from rwkv_weights.formats import finite
from rwkv_weights.formats.entry import Entry
from rwkv_weights.formats.finite import FiniteCheck
from rwkv_weights.formats.load import MappedTensors

Parts = Mapping[Part, Tensor]
BLOCK_NUMBERS: Final = 1 << 19
"""So many are merged at once: what lies between fits in a core's cache, and no large memory is asked for again and
again."""


def merged_weight(
    kind: AdapterKind, weight: Tensor, parts: Parts, scale: float, *, turned: bool, rounded: bool = False
) -> Tensor:
    """Return one merged matrix in its own type. `weight` is [out, in], all parts are fp32; `scale` is that of `lora`;
    `turned`: the pair belongs to the transposed matrix."""
    merged = torch.empty(weight.shape, dtype=weight.dtype)
    rank = parts["disha"].shape[-1] if kind == "bat" else 1
    rows = rank * max(1, BLOCK_NUMBERS // (weight.shape[1] * rank))
    for start in range(0, weight.shape[0], rows):
        own = slice(start, start + rows)
        block = weight[own].to(torch.float32, copy=True)
        if kind == "bone":
            _add_bone(block, parts["disha"].T[own])
        elif kind == "bat":
            _add_bat(block, parts["disha"])
        elif kind == "lora":
            block.add_(_product(parts["lora_B"], parts["lora_A"], own, turned), alpha=scale)
        else:
            block -= _product(parts["init_lora_B"], parts["init_lora_A"], own, turned)
            block = block.bfloat16().float() if rounded else block
            block += _product(parts["lora_B"], parts["lora_A"], own, turned)
        merged[own] = block
    return merged


def _product(b: Tensor, a: Tensor, rows: slice, turned: bool) -> Tensor:
    """Return rows of B A, or of its transposed."""
    return a.T[rows] @ b.T if turned else b[rows] @ a


def _add_bone(block: Tensor, disha: Tensor) -> None:
    """Add [rows, r] to [rows, in], once for each r columns; the last columns may be fewer."""
    rank = disha.shape[1]
    whole = block.shape[1] // rank * rank
    block[:, :whole].view(block.shape[0], -1, rank).add_(disha[:, None])
    block[:, whole:] += disha[:, : block.shape[1] - whole]


def _add_bat(block: Tensor, disha: Tensor) -> None:
    """Add W disha + disha in place; the rows are a multiple of r."""
    rank = disha.shape[-1]
    squares = block.view(-1, rank, disha.shape[0], rank).transpose(1, 2)
    squares.add_(squares @ disha + disha)


class AdapterTensors:
    """The numbers of an adapter, whose files are opened once."""

    def __init__(self, adapter: Adapter) -> None:
        self.adapter = adapter
        parts = {f"{part} of {name}": entry for name, own in adapter.updates.items() for part, entry in own.items()}
        self._parts = MappedTensors(parts)
        self.replaced = MappedTensors(adapter.replaced)

    def parts_of(self, name: str) -> dict[Part, Tensor]:
        """Return the parts of one update in fp32."""
        return {part: self._parts[f"{part} of {name}"].float() for part in self.adapter.updates[name]}

    def check(self) -> None:
        """Check that there is no NaN and no infinity. Raises CheckpointValuesError with the names."""
        found = FiniteCheck()
        for tensors in (self._parts, self.replaced):
            for name, tensor in tensors.items():
                found.add(name, tensor)
        found.finish(self.adapter.path.name)


def merged_tensors(
    stored: Mapping[str, Entry], tensors: AdapterTensors, alpha: float, base: str, *, rounded: bool = False
) -> Iterator[tuple[str, Tensor]]:
    """Yield (name, tensor) of the merged checkpoint with the base's names, order, shapes and types; one changed tensor
    is made at a time. Raises CheckpointValuesError where the base, which is called `base`, holds a NaN, and where
    a sum leaves the range of its type."""
    adapter = tensors.adapter
    merged = f"{base} with {adapter.path.name}"
    for name, tensor in MappedTensors(stored).items():
        if name not in adapter.replaced:
            finite.check(base, name, tensor)
        if name in adapter.replaced:
            new = tensors.replaced[name].to(tensor.dtype)
        elif name in adapter.updates:
            parts = tensors.parts_of(name)
            rank = parts["lora_A"].shape[0] if "lora_A" in parts else 1
            scale = alpha / (math.sqrt(rank) if adapter.notes.rooted else rank)
            matrix, turned = tensor.reshape(stored[name].squeezed().shape), name in adapter.turned
            new = merged_weight(adapter.kind, matrix, parts, scale, turned=turned, rounded=rounded)
        else:
            yield name, tensor
            continue
        finite.check(merged, name, new)
        yield name, new.reshape(tensor.shape)
