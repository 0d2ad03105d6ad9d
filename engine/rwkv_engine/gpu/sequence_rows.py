"""The sequences of a step as the rows that the kernels read."""

from collections.abc import Sequence
from itertools import accumulate

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rwkv_kernels.gpu.row_layout import FIRST, LAST, Rows

ALIGNED = 4  # int32 numbers


def of_sequences(sequences: Sequence[tuple[int, Sequence[int]]], device: torch.device) -> tuple[Rows, Tensor]:
    """Return the rows and the ids [R] of sequences given as (slot, tokens). One copy takes them to the device."""
    lengths = [len(tokens) for _, tokens in sequences]
    starts = np.array([0, *accumulate(lengths)], np.int32)
    slots = np.array([slot for slot, _ in sequences], np.int32)
    edge = np.zeros(starts[-1], np.int32)
    edge[starts[:-1]] |= FIRST
    edge[starts[1:] - 1] |= LAST
    ids = np.concatenate([np.asarray(tokens, np.int32) for _, tokens in sequences])
    row_slot, edges, fed, first, slot = _packed((np.repeat(slots, lengths), edge, ids, starts, slots), device)
    return Rows(row_slot, edges.to(torch.int8), first, slot, max(lengths)), fed.long()


def _packed(arrays: Sequence[NDArray[np.int32]], device: torch.device) -> list[Tensor]:
    """Return the arrays on the device, each aligned to 16 bytes."""
    places = [0, *accumulate(-(-len(array) // ALIGNED) * ALIGNED for array in arrays)]
    host = np.zeros(places[-1], np.int32)
    for place, array in zip(places, arrays, strict=False):
        host[place : place + len(array)] = array
    packed = to_device(torch.from_numpy(host), device)
    return [packed[place : place + len(array)] for place, array in zip(places, arrays, strict=False)]


def decode_rows(bucket: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Return the edges [B] and starts [B + 1] of every decode step of that size."""
    edge = torch.full((bucket,), FIRST | LAST, dtype=torch.int8, device=device)
    return edge, torch.arange(bucket + 1, dtype=torch.int32, device=device)


def to_device(host: Tensor, device: torch.device) -> Tensor:
    """Start an asynchronous copy to the device."""
    return host.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else host.clone()
