"""The layout of a step's tokens as rows: by time, so that the recurrence reads consecutive rows.

The sequences are ordered longest first. Row 0 .. n0-1 are the first tokens of all sequences, then come the second
tokens of those that have one, and so on. The rows of the previous tokens are then a shifted run of rows.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

import torch
from torch import Tensor

Slots = slice | Tensor


@dataclass(frozen=True, slots=True)
class Layout:
    """`counts[t]`: sequences with a token t. `slots`: the sequences' slots in order, a slice if they are consecutive.

    `ids` [R] are the tokens (R padded with token 0 to the profile's multiple), `before` [R] the row of the token
    before among (the B stored shifts, then the R rows), `last` [B] each sequence's last row. `simple`: one token each
    and no padding, so that `before` and `last` are the identity. `order[i]`: which of the given sequences is i-th;
    `starts[t]`: the first row of time t.
    """

    ids: Tensor
    counts: list[int]
    starts: list[int]
    order: list[int]
    slots: Slots
    before: Tensor
    last: Tensor
    simple: bool

    def row(self, place: int, time: int) -> int:
        """Return the row of token `time` of the sequence at `place` in the order."""
        return self.starts[time] + place


def lay_out(tokens: Sequence[Sequence[int]], slots: Sequence[int], row_multiple: int) -> Layout:
    """Lay out a step's sequences (none of them empty), `slots` naming the slot of each."""
    order = sorted(range(len(tokens)), key=lambda i: (-len(tokens[i]), slots[i]))
    longest = len(tokens[order[0]])
    lengths = [len(tokens[i]) for i in order]
    counts = _counts(lengths, longest)
    starts = [0, *accumulate(counts)][:-1]
    ids = [tokens[i][t] for t in range(longest) for i in order[: counts[t]]]
    padding = -len(ids) % row_multiple
    return Layout(
        ids=torch.tensor(ids + [0] * padding),
        counts=counts,
        starts=starts,
        order=order,
        slots=_slots([slots[i] for i in order]),
        before=_before(counts, padding),
        last=torch.tensor([starts[length - 1] + place for place, length in enumerate(lengths)]),
        simple=longest == 1 and not padding,
    )


def _counts(lengths: Sequence[int], longest: int) -> list[int]:
    """Return how many of the sequences, longest first, have a token at each time."""
    counts, alive = [], len(lengths)
    for time in range(longest):
        while lengths[alive - 1] <= time:
            alive -= 1
        counts.append(alive)
    return counts


def _before(counts: Sequence[int], padding: int) -> Tensor:
    """Return the previous row of every row: a stored shift at time 0, else the row of one time earlier."""
    rows = list(range(counts[0]))
    start = counts[0]
    for earlier, count in pairwise(counts):
        rows += range(start, start + count)
        start += earlier
    return torch.tensor(rows + [0] * padding)


def _slots(slots: list[int]) -> Slots:
    first = slots[0]
    if slots == list(range(first, first + len(slots))):
        return slice(first, first + len(slots))
    return torch.tensor(slots)
