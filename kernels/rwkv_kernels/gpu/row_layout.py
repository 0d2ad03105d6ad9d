"""The sequence and slot of each row of a step, as the GPU kernels read them."""

from dataclasses import dataclass

from torch import Tensor

FIRST, LAST = 1, 2


@dataclass(frozen=True, slots=True)
class Rows:
    """The tokens of a sequence are consecutive rows: R rows of B sequences.

    `row_slot` int32 [R]; `edge` int8 [R], FIRST | LAST of its sequence in this step; `starts` int32 [B + 1], each
    sequence's first row; `slots` int32 [B]. `longest`: the most rows of a sequence. `decode`: every sequence has one
    row, so rows and sequences coincide.
    """

    row_slot: Tensor
    edge: Tensor
    starts: Tensor
    slots: Tensor
    longest: int

    @property
    def decode(self) -> bool:
        return self.longest == 1
