"""A checkpoint as a table of entries by BlinkDL's names, with every key and shape checked. No tensor is read.

Torch-free: `load` maps these entries, `tensor_stream` reads them, `show` counts them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from rwkv_weights.errors import (
    CheckpointKeysError,
    CheckpointShapeError,
    UnreadableCheckpointError,
    UnsupportedArchitectureError,
)
from rwkv_weights.formats import hf_names, pth, safetensors_header, shards
from rwkv_weights.formats.entry import Entry
from rwkv_weights.formats.schema import HEAD_SIZE, VALUE_RESIDUAL, Dims, expected, foreign, value_residual
from rwkv_weights.formats.shards import CheckpointParts

FLOATS = ("bfloat16", "float16", "float32")
_SIZES = (
    ("emb.weight", 0),
    ("emb.weight", 1),
    ("blocks.0.ffn.key.weight", 0),
    ("blocks.0.att.w1", 1),
    ("blocks.0.att.a1", 1),
    ("blocks.0.att.g1", 1),
)


@dataclass(frozen=True, slots=True)
class Index:
    """Entries without axes of size 1 and without block 0's unused value-residual tensors; `layout` is hf or blinkdl."""

    path: Path
    files: tuple[Path, ...]
    layout: str
    dims: Dims
    entries: Mapping[str, Entry]

    @property
    def parameters(self) -> int:
        return sum(entry.numbers for entry in self.entries.values())

    @property
    def dtypes(self) -> tuple[str, ...]:
        return tuple(sorted({entry.dtype for entry in self.entries.values()}))


@dataclass(frozen=True, slots=True)
class StoredTensors:
    """Entries with the shapes that they have in the files; `layout` is hf or blinkdl."""

    files: tuple[Path, ...]
    layout: str
    entries: Mapping[str, Entry]


def read(path: Path) -> Index:
    """Return the index of a checkpoint. Raises CheckpointError (a subclass) with the reason."""
    stored = read_stored(path)
    entries = {key: entry.squeezed() for key, entry in stored.entries.items()}
    if what := foreign(set(entries)):
        raise UnsupportedArchitectureError(f"{path.name} is not an RWKV-7 (x070) model this engine runs: {what}")
    dims = read_dims(path.name, entries)
    _check(path.name, entries, dims)
    for name in VALUE_RESIDUAL:
        entries.pop(f"blocks.0.att.{name}", None)
    return Index(path, stored.files, stored.layout, dims, entries)


def read_stored(path: Path) -> StoredTensors:
    """Return all tensors of a checkpoint as its files have them, in BlinkDL's names and orientation. Raises
    CheckpointError (a subclass); what the tensors make is not checked."""
    parts = shards.find(path)
    hf_names.check_config(path.name, parts.config)
    entries = _raw(path.name, parts)
    layout = "hf" if hf_names.uses_hf_names(entries) else "blinkdl"
    if layout == "hf":
        entries = hf_names.translate(path.name, entries)
    return StoredTensors(parts.files, layout, entries)


def _raw(name: str, parts: CheckpointParts) -> dict[str, Entry]:
    """Return the entries of all files by the names in the files."""
    found: dict[str, Entry] = {}
    for file in parts.files:
        for key, entry in (safetensors_header if file.suffix == ".safetensors" else pth).read(file).items():
            if key in found:
                raise CheckpointKeysError(f"{name} has {key} twice, in {found[key].file.name} and {file.name}")
            if parts.places is not None and parts.places.get(key) != file.name:
                raise CheckpointKeysError(f"{name} has {key} in {file.name}, where its index has it elsewhere")
            found[key] = entry
    if parts.places is not None and (missing := sorted(parts.places.keys() - found.keys())):
        raise UnreadableCheckpointError(f"{name} lacks {first_three(missing)}, which its index promises")
    return found


def read_dims(name: str, entries: Mapping[str, Entry]) -> Dims:
    """Read every size from a tensor's shape, because formulas for the ranks are wrong for some public models."""
    numbers = [part for key in entries if key.startswith("blocks.") and _small(part := key.split(".")[1])]
    if not numbers:
        raise UnsupportedArchitectureError(f"{name} is not an RWKV-7 (x070) model: no key begins with blocks.0")
    layers = 1 + max(map(int, numbers))
    if layers > len(entries):
        raise CheckpointKeysError(f"{name} lacks most of its {layers:,} layers")
    sizes = [_axis(name, entries, key, axis) for key, axis in _SIZES]
    vocabulary, width, hidden, rank_w, rank_a, rank_g = sizes
    rank_v = _axis(name, entries, "blocks.1.att.v1", 1) if layers > 1 else 0
    if not width or width % HEAD_SIZE:
        raise CheckpointShapeError(f"{name}: the width {width} is no multiple of the head size {HEAD_SIZE}")
    return Dims(vocabulary, layers, width, hidden, (rank_w, rank_a, rank_v, rank_g))


def _small(part: str) -> bool:
    """Whether a part of a key is a number of few digits: a hostile layer number must not become a list of that
    length."""
    return part.isascii() and part.isdigit() and len(part) < 7


def _axis(name: str, entries: Mapping[str, Entry], key: str, axis: int) -> int:
    if key not in entries:
        raise CheckpointKeysError(f"{name} has no tensor {key}, which every RWKV-7 (x070) checkpoint has")
    if len(entries[key].shape) != 2:
        raise CheckpointShapeError(f"{name}: {key} has the shape {list(entries[key].shape)}, and is to be a matrix")
    return entries[key].shape[axis]


def _check(name: str, entries: Mapping[str, Entry], dims: Dims) -> None:
    """Check that every key is known, none is missing, and each has the shape that the dimensions imply."""
    wanted = expected(dims, block0_has_value_residual=False)
    ignored = {f"blocks.0.att.{key}" for key in value_residual(dims)}
    if missing := sorted(wanted.keys() - entries.keys()):
        raise CheckpointKeysError(f"{name} lacks {first_three(missing)}")
    if unknown := sorted(entries.keys() - wanted.keys() - ignored):
        raise CheckpointKeysError(f"{name} has tensors that RWKV-7 (x070) does not know: {first_three(unknown)}")
    for key, shape in wanted.items():
        _check_entry(name, key, entries[key], shape)


def _check_entry(name: str, key: str, entry: Entry, shape: tuple[int, ...]) -> None:
    if entry.shape != shape:
        is_, want = list(entry.shape), list(shape)
        raise CheckpointShapeError(f"{name}: {key} has the shape {is_} where the other tensors imply {want}")
    if entry.dtype not in FLOATS:
        raise CheckpointShapeError(f"{name}: {key} is {entry.dtype}, not a floating-point tensor of 16 or 32 bits")


def first_three(keys: list[str]) -> str:
    """Return the first three keys of a list, and how many more there are."""
    more = f" and {len(keys) - 3} more" if len(keys) > 3 else ""
    return ", ".join(keys[:3]) + more
