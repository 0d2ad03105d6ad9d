"""The states of all slots on a GPU, in one allocation that is made when the engine starts: graphs hold its addresses.

The slot is the first axis, so that saving, forking or spilling a state is one copy. The last slot is the scratch slot,
to which padding rows and halted samples write.
"""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from rwkv_engine.errors import OutOfMemory
from rwkv_weights.formats.schema import HEAD_SIZE, Dims


class SavedState(NamedTuple):
    """A copy of one slot's state: [L, H, N, N], [L, 2, D], [D]."""

    wkv: Tensor
    shift: Tensor
    hidden: Tensor


@dataclass(frozen=True, slots=True)
class GpuPool:
    """`wkv` [S, L, H, N, N] (fp32 or fp16), `shift` [S, L, 2, D] and `hidden` [S, D] in fp32; S counts the scratch."""

    wkv: Tensor
    shift: Tensor
    hidden: Tensor

    @classmethod
    def allocate(cls, dims: Dims, slots: int, device: torch.device, state: torch.dtype) -> "GpuPool":
        """Return a pool of zero states for `slots` sequences and the scratch slot. Raises OutOfMemory."""
        rows = slots + 1
        try:
            return cls(
                torch.zeros(rows, dims.layers, dims.heads, HEAD_SIZE, HEAD_SIZE, device=device, dtype=state),
                torch.zeros(rows, dims.layers, 2, dims.width, device=device),
                torch.zeros(rows, dims.width, device=device),
            )
        except torch.OutOfMemoryError as error:
            raise OutOfMemory from error

    @property
    def scratch(self) -> int:
        return self.wkv.shape[0] - 1

    @property
    def size_bytes(self) -> int:
        """Bytes of one saved state: the wkv state, token shifts and hidden vector of one slot."""
        return sum(tensor[0].numel() * tensor.element_size() for tensor in (self.wkv, self.shift, self.hidden))

    def clear(self, slot: int) -> None:
        """Make the slot's state that of an empty sequence."""
        self.wkv[slot].zero_()
        self.shift[slot].zero_()

    def save(self, slot: int) -> SavedState:
        """Return a copy of the slot's state. Raises OutOfMemory."""
        try:
            return SavedState(self.wkv[slot].clone(), self.shift[slot].clone(), self.hidden[slot].clone())
        except torch.OutOfMemoryError as error:
            raise OutOfMemory from error

    def load(self, slot: int, payload: object) -> None:
        """Put a saved state into the slot, bit for bit, from the device or from pinned memory."""
        assert isinstance(payload, SavedState)
        self.wkv[slot].copy_(payload.wkv, non_blocking=True)
        self.shift[slot].copy_(payload.shift, non_blocking=True)
        self.hidden[slot].copy_(payload.hidden, non_blocking=True)

    def spill(self, payload: object) -> SavedState:
        """Return the same state in pinned host memory. Raises OutOfMemory."""
        assert isinstance(payload, SavedState)
        try:
            return SavedState(*(to_host(tensor) for tensor in payload))
        except (torch.OutOfMemoryError, RuntimeError) as error:  # RuntimeError: pinning failed
            raise OutOfMemory from error


def to_host(tensor: Tensor) -> Tensor:
    """Return a copy in host memory, made in the order of the stream; pinned where there is a GPU."""
    host = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=tensor.is_cuda)
    return host.copy_(tensor, non_blocking=True)
