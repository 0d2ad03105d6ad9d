"""Adapters as training writes them, and an independent merge in float64, element by element where a formula is."""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from rwkv_weights.formats.synthetic import dims_of, synthetic

DIMS = dims_of(2, 128, 257, (16, 8, 24, 40))
ADAPTED = ("att.receptance", "att.key", "att.value", "att.output", "ffn.key", "ffn.value")
RANK = 16
ALPHA = 24.0
KINDS = ("lora", "pissa", "bone", "bat")


def base_tensors(dtype: torch.dtype = torch.float32) -> dict[str, Tensor]:
    """A random base."""
    return {name: tensor.to(dtype) for name, tensor in synthetic(DIMS, seed=3).items()}


def write_base(path: Path, dtype: torch.dtype = torch.float32) -> Path:
    torch.save(base_tensors(dtype), path)
    return path


def adapter_tensors(kind: str, seed: int = 5) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """(the adapter, PiSSA's initial pairs) of a kind on every matrix of every layer, with two norms that were trained,
    too."""
    draw = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> Tensor:
        return 0.05 * torch.randn(*shape, generator=draw)

    found: dict[str, Tensor] = {}
    start: dict[str, Tensor] = {}
    for layer in range(DIMS.layers):
        for name in ADAPTED:
            place = f"blocks.{layer}.{name}"
            out = DIMS.hidden if name == "ffn.key" else DIMS.width
            into = DIMS.hidden if name == "ffn.value" else DIMS.width
            if kind in {"lora", "pissa"}:
                found[f"{place}.lora_A"], found[f"{place}.lora_B"] = normal(RANK, into), normal(out, RANK)
            if kind == "pissa":
                start[f"{place}.init_lora_A"], start[f"{place}.init_lora_B"] = normal(RANK, into), normal(out, RANK)
            if kind == "bone":
                found[f"{place}.disha"] = normal(RANK, out)
            if kind == "bat":
                found[f"{place}.disha"] = normal(into // RANK, RANK, RANK)
    for norm in ("blocks.0.ln1.weight", "blocks.1.att.x_r"):
        found[norm] = base_tensors()[norm] + normal(*base_tensors()[norm].shape)
    return found, start


def write_adapter(folder: Path, kind: str, **more: Any) -> Path:
    """The file of an adapter, with init_pissa.pth beside it where the kind has one."""
    folder.mkdir(parents=True, exist_ok=True)
    found, start = adapter_tensors(kind)
    torch.save(found | more, folder / "rwkv-12.pth")
    if start:
        torch.save(start, folder / "init_pissa.pth")
    return folder / "rwkv-12.pth"


def merged_in_float64(
    kind: str, base: dict[str, Tensor], adapter: dict[str, Tensor], start: dict[str, Tensor], alpha: float = ALPHA
) -> dict[str, Tensor]:
    """The merged weights in float64, by the definition of each kind."""
    merged = {name: adapter.get(name, tensor).double() for name, tensor in base.items()}
    for name in [name for name in base if name.endswith(".weight")]:
        place, weight = name.removesuffix(".weight"), merged[name]
        if f"{place}.lora_A" in adapter:
            a, b = adapter[f"{place}.lora_A"].double(), adapter[f"{place}.lora_B"].double()
            if kind == "lora":
                merged[name] = weight + torch.einsum("or,ri->oi", b, a) * (alpha / a.shape[0])
            else:
                first = torch.einsum(
                    "or,ri->oi", start[f"{place}.init_lora_B"].double(), start[f"{place}.init_lora_A"].double()
                )
                merged[name] = weight - first + torch.einsum("or,ri->oi", b, a)
        elif f"{place}.disha" in adapter:
            disha = adapter[f"{place}.disha"].double()
            merged[name] = _bone(weight, disha) if disha.dim() == 2 else _bat(weight, disha)
    return merged


def _bone(weight: Tensor, disha: Tensor) -> Tensor:
    """The parts of r numbers of x are added up, and their product with disha is added: column j gets row j mod r."""
    columns = [weight[:, j] + disha[j % disha.shape[0]] for j in range(weight.shape[1])]
    return torch.stack(columns, dim=1)


def _bat(weight: Tensor, disha: Tensor) -> Tensor:
    rank, merged = disha.shape[1], weight.clone()
    for row in range(0, weight.shape[0], rank):
        for number in range(weight.shape[1] // rank):
            block = weight[row : row + rank, number * rank : (number + 1) * rank]
            merged[row : row + rank, number * rank : (number + 1) * rank] += block @ disha[number] + disha[number]
    return merged
