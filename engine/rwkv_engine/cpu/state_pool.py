"""The states of all slots, in one allocation that is made when the engine starts.

By slot a state is [L, H, 64, 64] (keys by values) and two token shifts [L, 2, D]; `wkv` and `shift` are indexed slot
first. In memory the layer comes first: a CPU product over a run of slots then reads one piece, which is worth more
than a fork in one copy. `hidden` is the residual after each slot's last token, so a fork can draw without running.
"""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from rwkv_weights.formats.schema import HEAD_SIZE, Dims


class SavedState(NamedTuple):
    """A copy of one slot's state: [L, H, N, N], [L, 2, D], [D]."""

    wkv: Tensor
    shift: Tensor
    hidden: Tensor


@dataclass(slots=True)
class StatePool:
    """`layers_wkv` [L, slots, H, N, N], `layers_shift` [L, 2, slots, D], `hidden` [slots, D]; all fp32."""

    layers_wkv: Tensor
    layers_shift: Tensor
    hidden: Tensor
    size_bytes: int

    @classmethod
    def allocate(cls, dims: Dims, slots: int) -> "StatePool":
        """Return a pool of zero states for `slots` sequences."""
        return cls(
            torch.zeros(dims.layers, slots, dims.heads, HEAD_SIZE, HEAD_SIZE),
            torch.zeros(dims.layers, 2, slots, dims.width),
            torch.zeros(slots, dims.width),
            dims.state_bytes + 4 * dims.width,
        )

    @property
    def wkv(self) -> Tensor:
        """A view of the wkv states with the slot as the first axis: [slots, L, H, N, N]."""
        return self.layers_wkv.transpose(0, 1)

    @property
    def shift(self) -> Tensor:
        """A view of the token shifts with the slot as the first axis: [slots, L, 2, D]."""
        return self.layers_shift.movedim(2, 0)

    def clear(self, slot: int) -> None:
        """Make the slot's state that of an empty sequence."""
        self.wkv[slot].zero_()
        self.shift[slot].zero_()

    def save(self, slot: int) -> SavedState:
        """Return a copy of the slot's state."""
        return SavedState(self.wkv[slot].clone(), self.shift[slot].clone(), self.hidden[slot].clone())

    def load(self, slot: int, payload: object) -> None:
        """Put a saved state into the slot, bit for bit."""
        assert isinstance(payload, SavedState)
        self.wkv[slot].copy_(payload.wkv)
        self.shift[slot].copy_(payload.shift)
        self.hidden[slot].copy_(payload.hidden)

    def spill(self, payload: object) -> object:
        """Return the payload as it is: the pool lies in the host's memory already."""
        return payload
