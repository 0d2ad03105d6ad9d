"""The shapes of prefill steps for which graphs are captured. Pure arithmetic."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rwkv_kernels.gpu import launch_config

ROWS = (16, 32, 64, 128, 192, 256, 384, 512, 768, 1024)
WIDE_HEADS = 64  # 7.2B: above WIDE_ROWS its kernels take longer than their launches, and padding only costs
WIDE_ROWS = 512
MOST_SEQUENCES = 256
MOST_CHUNKED_SEQUENCES = 64


@dataclass(frozen=True, slots=True)
class PrefillShape:
    """A padded step: so many rows, with the recurrence in chunks or token by token."""

    rows: int
    in_chunks: bool

    @property
    def sequences(self) -> int:
        """Return the most sequences of a step of this shape; hardly any step of so many rows has more. Empty ones cost
        next to nothing."""
        if self.in_chunks:
            return min(MOST_CHUNKED_SEQUENCES, self.rows // launch_config.CHUNKED_MIN_TOKENS)
        return min(MOST_SEQUENCES, self.rows)


def captured_shapes(most_rows: int, heads: int, *, may_chunk: bool) -> Iterator[PrefillShape]:
    """Yield the shapes of steps of up to `most_rows` rows, the largest first."""
    if heads >= WIDE_HEADS:
        most_rows = min(most_rows, WIDE_ROWS)
    for rows in reversed(ROWS):
        if rows <= most_rows:
            if may_chunk and launch_config.chunks_pay(rows, rows, 1, heads):
                yield PrefillShape(rows, in_chunks=True)
            yield PrefillShape(rows, in_chunks=False)


def shape_of(lengths: Sequence[int], *, in_chunks: bool) -> PrefillShape | None:
    """Return the smallest shape that has room for sequences of these lengths, or None."""
    total = sum(lengths)
    for rows in ROWS:
        shape = PrefillShape(rows, in_chunks)
        if total <= rows and len(lengths) <= shape.sequences:
            return shape
    return None
