"""The sequences of a step as the rows that the kernels read."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate

import numpy as np
import torch
from torch import Tensor

from rwkv_kernels.gpu.row_layout import FIRST, LAST, Rows

SlotTokens = tuple[int, Sequence[int]]
"""A slot, and the tokens to feed it."""
ALIGNED = 4  # int32 numbers


def of_sequences(
    sequences: Sequence[SlotTokens], device: torch.device, *, in_chunks: bool = False
) -> tuple[Rows, Tensor]:
    """Return the rows of sequences and their ids [R]. One copy takes them to the device."""
    lengths = [len(tokens) for _, tokens in sequences]
    numbers = to_device(pack(sequences, sum(lengths), len(lengths)), device)
    rows, ids = unpack(numbers, sum(lengths), len(lengths))
    return replace(rows, decode=max(lengths) == 1, in_chunks=in_chunks), ids


def numbers_of(rows: int, sequences: int) -> int:
    """Return how many numbers `pack` makes of so many rows and sequences."""
    return sum(map(_aligned, _sizes(rows, sequences)))


def pack(sequences: Sequence[SlotTokens], rows: int, room: int, spare_slot: int = 0) -> Tensor:
    """Return as int32, one after the other: the slot of each row, its edge, its id, each sequence's first row and its
    slot. Rows beyond the sequences belong to none, and up to `room` sequences have no rows; both have the spare slot.
    Such a row has id 0 and the edge FIRST without LAST: it reads the spare slot and writes to no slot."""
    lengths = [len(tokens) for _, tokens in sequences]
    used, count = sum(lengths), len(lengths)
    packed = np.zeros(numbers_of(rows, room), np.int32)
    row_slot, edge, ids, starts, slots = (packed[part] for part in _parts(rows, room))
    starts[1 : count + 1] = np.fromiter(accumulate(lengths), np.int32, count)
    starts[count + 1 :] = used
    slots[:count] = [slot for slot, _ in sequences]
    slots[count:] = spare_slot
    row_slot[:used] = np.repeat(slots[:count], lengths)
    row_slot[used:] = spare_slot
    edge[starts[:count]] |= FIRST
    edge[starts[1 : count + 1] - 1] |= LAST
    edge[used:] = FIRST
    for start, (_, tokens) in zip(starts.tolist(), sequences, strict=False):
        ids[start : start + len(tokens)] = tokens
    return torch.from_numpy(packed)


def unpack(numbers: Tensor, rows: int, room: int) -> tuple[Rows, Tensor]:
    """Return what was packed, from where it lies on the device."""
    row_slot, edge, ids, starts, slots = (numbers[part] for part in _parts(rows, room))
    return Rows(row_slot, edge.to(torch.int8), starts, slots), ids.long()


def _parts(rows: int, room: int) -> list[slice]:
    """Return the place of each array, which is aligned to 16 bytes."""
    sizes = _sizes(rows, room)
    places = accumulate(map(_aligned, sizes), initial=0)
    return [slice(place, place + size) for place, size in zip(places, sizes, strict=False)]


def _sizes(rows: int, room: int) -> tuple[int, ...]:
    return rows, rows, rows, room + 1, room


def _aligned(size: int) -> int:
    return -(-size // ALIGNED) * ALIGNED


def decode_rows(bucket: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Return the edges [B] and starts [B + 1] of every decode step of that size."""
    edge = torch.full((bucket,), FIRST | LAST, dtype=torch.int8, device=device)
    return edge, torch.arange(bucket + 1, dtype=torch.int32, device=device)


def to_device(host: Tensor, device: torch.device) -> Tensor:
    """Start an asynchronous copy to the device."""
    return host.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else host.clone()
