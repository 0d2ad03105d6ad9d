"""Sequences of a step as the rows that the kernels read."""

from collections.abc import Sequence
from itertools import accumulate

import numpy as np
import torch
from torch import Tensor

from rwkv_kernels.gpu.rows import FIRST, LAST, Rows


def of_sequences(sequences: Sequence[tuple[int, Sequence[int]]], device: torch.device) -> tuple[Rows, Tensor]:
    """(slot, tokens) of each sequence -> the rows, and their ids [R]. One copy carries them to the device."""
    lengths = [len(tokens) for _, tokens in sequences]
    starts = [0, *accumulate(lengths)]
    count, batch = starts[-1], len(sequences)
    slots = np.array([slot for slot, _ in sequences], np.int32)
    host = np.empty(2 * count + 2 * batch + 1, np.int32)
    row_slot, edge, ids = host[:count], np.zeros(count, np.int8), host[count : 2 * count]
    row_slot[:] = np.repeat(slots, lengths)
    ids[:] = np.concatenate([np.asarray(tokens, np.int32) for _, tokens in sequences])
    edge[starts[:-1]] |= FIRST
    edge[[end - 1 for end in starts[1:]]] |= LAST
    host[2 * count : 2 * count + batch] = slots
    host[2 * count + batch :] = starts
    packed, edges = to_device(torch.from_numpy(host), device), to_device(torch.from_numpy(edge), device)
    row_slots, id_part, slot_part, start_part = packed.split([count, count, batch, batch + 1])  # type: ignore[no-untyped-call]
    return Rows(row_slots, edges, start_part, slot_part, decode=False), id_part.long()


def decode_rows(bucket: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """What every decode step of that size has: edges [B] and starts [B + 1]."""
    edge = torch.full((bucket,), FIRST | LAST, dtype=torch.int8, device=device)
    return edge, torch.arange(bucket + 1, dtype=torch.int32, device=device)


def to_device(host: Tensor, device: torch.device) -> Tensor:
    """A copy that the host need not wait for."""
    return host.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else host.clone()
