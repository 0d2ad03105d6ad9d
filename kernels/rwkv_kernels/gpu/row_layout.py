"""The sequence and slot of each row of a step, as the GPU kernels read them."""

from dataclasses import dataclass, field

from torch import Tensor

FIRST, LAST = 1, 2


@dataclass(frozen=True, slots=True)
class Rows:
    """The tokens of a sequence are consecutive rows: R rows of B sequences. The last rows may belong to no sequence,
    the last sequences may have no rows.

    `row_slot` int32 [R]; `edge` int8 [R], FIRST | LAST of its sequence in this step; `starts` int32 [B + 1], each
    sequence's first row; `slots` int32 [B]. `decode`: every sequence has one row, so rows and sequences coincide.
    `in_chunks`: the recurrence runs in chunks.
    """

    row_slot: Tensor
    edge: Tensor
    starts: Tensor
    slots: Tensor
    decode: bool = field(default=False, kw_only=True)
    in_chunks: bool = field(default=False, kw_only=True)
