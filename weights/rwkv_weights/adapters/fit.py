"""Whether an adapter fits a base: names, shapes, ranks, and what is said beside it. No tensor is read."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from rwkv_weights.adapters.adapter_file import Adapter, Part, rank_of, shape_of
from rwkv_weights.adapters.adapter_notes import NO_ALPHA, alpha_of
from rwkv_weights.errors import AdapterError
from rwkv_weights.formats.entry import Entry, Shape
from rwkv_weights.formats.index import FLOATS, Index, StoredTensors, first_three
from rwkv_weights.formats.schema import HEAD_SIZE
from rwkvctl.protocol.model_names import is_shown_as

_FLOATS_ALONE: Final = "and only floats of 16 or 32 bits are merged"
_PAIRS: Final[tuple[tuple[Part, Part], ...]] = (("lora_A", "lora_B"), ("init_lora_A", "init_lora_B"))


def scale_of(adapter: Adapter, alpha: float | None) -> float:
    """Return the factor alpha of a merge, from what is given and what is said beside the adapter; 0 for kinds without
    one. Raises AdapterError if it is missing, or if both say different things."""
    said = adapter.notes.alpha
    if alpha is not None and alpha_of(alpha) is None:
        raise AdapterError(f"--alpha is {alpha:g}, {NO_ALPHA}")
    if adapter.beside and (alpha is not None or said is not None):
        raise AdapterError(
            f"{adapter.files[1]} lies beside {adapter.path.name} and would make it PiSSA, which has no alpha, but an "
            "alpha is given: if it is a plain LoRA, add --init none; if it is PiSSA, name the pairs: --init FILE"
        )
    if adapter.kind != "lora":
        if alpha is not None:
            raise AdapterError(f"{adapter.path.name} is {adapter.kind}, which has no alpha; leave out --alpha")
        return 0.0
    if alpha is None and said is None:
        raise AdapterError(
            f"the alpha of {adapter.path.name} is not in the file: give --alpha, as it was in training, or write "
            f'{{"alpha": …}} into {adapter.files[0].name}.json; if it is PiSSA, give its initial pairs: --init FILE'
        )
    if alpha is not None and said is not None and alpha != said:
        raise AdapterError(f"--alpha is {alpha:g}, and {adapter.notes.source} says {said:g}")
    return alpha if alpha is not None else said or 0.0


def check(adapter: Adapter, base: Index, stored: StoredTensors, label: str, base_sha256: str) -> None:
    """Check that an adapter can be merged into a base, whose sha256 may be unknown. Raises AdapterError, which names
    the first tensors that do not fit."""
    notes, name = adapter.notes, adapter.path.name
    if notes.quant:
        raise AdapterError(
            f"{name} is refused: it was trained on a base quantised to {notes.quant} ({notes.source}), and added to "
            f"the whole {label} it would not be the model that was trained"
        )
    if notes.base_sha256 and base_sha256 and notes.base_sha256.lower() != base_sha256:
        raise AdapterError(f"{name} belongs to another base: {notes.source} names sha256 {notes.base_sha256[:12]}…, "
                           f"and {label} has {base_sha256[:12]}…")  # fmt: skip
    if notes.base and not notes.base_sha256 and not _is_called(notes.base, label, base.path):
        raise AdapterError(
            f"{name} belongs to another base: {notes.source} names {notes.base}, and this is {label}; if they are the "
            f'same, write {{"base": "{label}"}} into {adapter.files[0].name}.json'
        )
    if problems := list(_problems(adapter, base, stored)):
        raise AdapterError(f"{name} does not fit {label}: {first_three(problems)}")


def _is_called(word: str, label: str, path: Path) -> bool:
    """Whether a checkpoint is called so, perhaps without its date and context or in the form that lists show."""
    word, name = word.removesuffix(".pth").removesuffix(".safetensors").lower(), label.lower()
    dated = re.fullmatch(re.escape(word) + r"(-[0-9]{8})?(-ctx[0-9]+)?", name)
    return word in {path.stem.lower(), path.name.lower()} or dated is not None or is_shown_as(name, word)


def _problems(adapter: Adapter, base: Index, stored: StoredTensors) -> Iterator[str]:
    for name, entry in stored.entries.items():
        if entry.dtype not in FLOATS:
            yield f"{name} of the base is {entry.dtype}, {_FLOATS_ALONE}"
    for name, parts in sorted(adapter.updates.items()):
        for part, entry in parts.items():
            if entry.dtype not in FLOATS:
                yield f"{part} of {name} is {entry.dtype}, {_FLOATS_ALONE}"
        yield from _state(name, parts, base) if adapter.kind == "state" else _update(adapter, name, parts, base)
    for name, entry in sorted(adapter.replaced.items()):
        there = stored.entries[name].squeezed().shape if name in stored.entries else None
        if there is None:
            yield f"it has {name}, which the base does not have"
        elif entry.squeezed().shape != there:
            yield f"{name} is {list(entry.squeezed().shape)} and {list(there)} in the base"
        elif entry.dtype not in FLOATS:
            yield f"{name} is {entry.dtype}, {_FLOATS_ALONE}"


def _state(name: str, parts: Mapping[Part, Entry], base: Index) -> Iterator[str]:
    entry = parts["time_state"]
    layer = name.removeprefix("blocks.").removesuffix(".att.time_state")
    if layer not in map(str, range(base.dims.layers)) or name != f"blocks.{layer}.att.time_state":
        yield f"the base has no layer for {name}"
    elif entry.shape != (want := (base.dims.heads, HEAD_SIZE, HEAD_SIZE)):
        yield f"{name} is {list(entry.shape)}, and is to be {list(want)}"


def _update(adapter: Adapter, name: str, found: Mapping[Part, Entry], base: Index) -> Iterator[str]:
    if name not in base.entries:
        yield f"it changes {name}, which the base does not have"
        return
    shape = base.entries[name].shape
    if len(shape) != 2:
        yield f"it changes {name}, which is no matrix"
        return
    for a, b in _PAIRS:
        if a in found and found[a].shape[0] != found[b].shape[1]:
            each = f"{a} of {name} is {list(found[a].shape)} and {b} {list(found[b].shape)}"
            yield f"{each}, of unequal ranks{_swapped(found, shape)}"
            return
    most = max(shape) if adapter.kind == "lora" else min(shape)  # PEFT has one rank for all, whatever their shapes
    implied = shape_of(found, turned=name in adapter.turned)
    if implied is not None and implied != shape:
        yield f"it changes {name} as {list(implied)}, and the base has {list(shape)}{_swapped(found, shape)}"
    elif not 0 < rank_of(found) <= most:
        yield f"its rank on {name} is {rank_of(found)}, and is to be from 1 to {most}"
    elif adapter.kind == "pissa" and any(
        found[part].shape != found[first].shape for first, part in zip(_PAIRS[0], _PAIRS[1], strict=True)
    ):
        yield f"the initial pair of {name} has another shape than the trained one"
    elif adapter.kind in {"bone", "bat"}:
        yield from _disha(adapter.kind, name, found["disha"].shape, shape)


def _swapped(found: Mapping[Part, Entry], shape: Shape) -> str:
    """Return a question if the shapes of a pair would fit the other way round."""
    outer = found["lora_A"].shape[0], found["lora_B"].shape[1]
    return "; are A and B swapped or transposed?" if shape in {outer, outer[::-1]} else ""


def _disha(kind: str, name: str, disha: Shape, shape: Shape) -> Iterator[str]:
    out, into = shape
    if kind == "bone" and disha[1] != out:
        yield f"disha of {name} is {list(disha)}, and is to be [rank, {out}]"
    elif kind == "bat":
        blocks, rank, other = disha
        if rank != other or blocks * rank != into or out % rank:
            yield f"disha of {name} is {list(disha)}, and is to be [{into}/r, r, r] with an r that divides {out}"
