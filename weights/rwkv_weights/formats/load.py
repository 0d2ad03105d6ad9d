"""Load a checkpoint: BlinkDL's .pth, or safetensors with Hugging Face's or BlinkDL's names. Tensors are mapped from
the file; nothing that a file pickles is run, and any other file is refused in one sentence.
"""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from rwkv_weights.errors import (
    CheckpointError,
    CheckpointKeysError,
    CheckpointShapeError,
    CheckpointValuesError,
    UnreadableCheckpointError,
    UnsupportedArchitectureError,
)
from rwkv_weights.formats import index
from rwkv_weights.formats.entry import Entry
from rwkv_weights.formats.schema import Dims
from rwkv_weights.local.checkpoint_files import open_plain

__all__ = [
    "Checkpoint",
    "CheckpointError",
    "CheckpointKeysError",
    "CheckpointShapeError",
    "CheckpointValuesError",
    "MappedTensors",
    "UnreadableCheckpointError",
    "UnsupportedArchitectureError",
    "load",
    "view",
]


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A validated model: `tensors` by BlinkDL name, axes of size 1 squeezed away, in the file's dtype, memory-mapped.

    Block 0's unused value-residual tensors are dropped. Low-rank pairs of the Hugging Face layout are transposed views.
    """

    path: Path
    dims: Dims
    tensors: Mapping[str, Tensor]


def load(path: Path) -> Checkpoint:
    """Return a checkpoint, of which only names and shapes are read. Raises CheckpointError (a subclass) with the
    reason."""
    found = index.read(path)
    return Checkpoint(path, found.dims, dict(MappedTensors(found.entries)))


class MappedTensors(Mapping[str, Tensor]):
    """The tensors of entries, memory-mapped; each is made when it is asked for, and the files are opened at once.
    Raises UnreadableCheckpointError."""

    def __init__(self, entries: Mapping[str, Entry]) -> None:
        self._entries = entries
        self._storages = {file: _mapped(file) for file in {entry.file for entry in entries.values()}}

    def __getitem__(self, key: str) -> Tensor:
        return _tensor(self._storages, self._entries[key])

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)


def _mapped(file: Path) -> torch.UntypedStorage:
    """Map the whole file as a private mapping: nothing written to a tensor reaches the disk."""
    try:
        with open_plain(file) as source:
            size, place = os.fstat(source.fileno()).st_size, f"/proc/self/fd/{source.fileno()}"
            found = torch.UntypedStorage.from_file(place, shared=False, nbytes=size)
    except (OSError, RuntimeError) as error:
        raise UnreadableCheckpointError(f"cannot map {file} into memory") from error
    assert isinstance(found, torch.UntypedStorage)
    return found


def _tensor(storages: Mapping[Path, torch.UntypedStorage], entry: Entry) -> Tensor:
    if entry.offset + entry.span > storages[entry.file].nbytes():
        raise UnreadableCheckpointError(f"{entry.file.name} was cut short while it was opened")
    return view(storages[entry.file][entry.offset : entry.offset + entry.span], entry)


def view(numbers: torch.UntypedStorage, entry: Entry, device: torch.device | str = "cpu") -> Tensor:
    """Return an entry's bytes as a tensor. Bytes that are not aligned for their type (as in safetensors) are copied."""
    dtype: torch.dtype = getattr(torch, entry.dtype)
    if numbers.data_ptr() % dtype.itemsize:
        numbers = numbers.clone()  # type: ignore[no-untyped-call]
    return torch.empty(0, dtype=dtype, device=device).set_(numbers, 0, entry.shape, entry.stride)
