"""States outside the slots' pool, and the pool as the scheduler sees it. Torch-free."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from rwkv_engine.scheduling.token_scores import Score


@dataclass(eq=False, slots=True)
class Snapshot:
    """A state outside the pool after `length` tokens, with the hidden vector of the last one.

    `scores`: the scores of those tokens by position, if they were asked for; they are filled in as outcomes come.
    """

    length: int
    payload: object
    size_bytes: int
    scores: Mapping[int, Score] | None = None


class States(Protocol):
    """The slots' states, as the scheduler sees them. Calls take effect in the order of the steps that are launched."""

    @property
    def size_bytes(self) -> int:
        """Bytes of one state as `save` returns it."""

    def clear(self, slot: int) -> None:
        """Make the slot's state that of an empty sequence."""

    def save(self, slot: int) -> object:
        """Return a copy of the slot's state. Raises OutOfMemory."""

    def load(self, slot: int, payload: object) -> None:
        """Copy a saved state into the slot, bit for bit, from the device or from host memory."""

    def spill(self, payload: object) -> object:
        """Return the same state in the host's memory. Raises OutOfMemory."""
