"""The search of `nucleus` over a whole row in device memory, for a distribution so flat that its nucleus has more
tokens than registers hold."""

import triton
import triton.language as tl

from rwkv_kernels.gpu.logit import ALL, image_of, load_logits
from rwkv_kernels.gpu.nucleus import ties_that_fit

PIVOTS = tl.constexpr(4)


@triton.jit
def _share(logit, at, top, scale, threshold, last):  # type: ignore[no-untyped-def]
    """Return exp2((logit - top) * scale) of logits above the threshold, or on it and no later than `last`; else 0."""
    image = image_of(logit)
    kept = (image > threshold) | ((image == threshold) & (at <= last))
    return tl.where(kept, tl.exp2((logit - top) * scale), 0.0)


@triton.jit  # type: ignore[untyped-decorator]
def _mass(row, top, scale, threshold, last, V: tl.constexpr, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    """Return the sum of `_share` over the row in fp64: columns in fp32, then a tree over columns."""
    columns = tl.zeros((BLOCK,), tl.float32)
    for start in tl.range(0, V, BLOCK, loop_unroll_factor=4):
        at = start + tl.arange(0, BLOCK)
        columns += _share(load_logits(row, at, V), at, top, scale, threshold, last)
    return tl.sum(columns.to(tl.float64), 0)


@triton.jit  # type: ignore[untyped-decorator]
def _threshold(  # type: ignore[no-untyped-def]
    row, top, scale, limit, nucleus, low, high, V: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Return the lowest image t in (low, high] such that fewer than `limit` logits lie above t, with less mass than
    `nucleus`.

    `high`, int64, is known to be such an image, and `low` to be too low. A fixed tree of sums of non-negative terms is
    monotone in its terms, so rounding cannot make the search contradict itself.
    """
    while high - low > 1:
        pivot = low + (high - low) * (tl.arange(0, PIVOTS) + 1) // (PIVOTS + 1)
        image_pivot = pivot.to(tl.int32)[:, None]
        number = tl.zeros((PIVOTS, BLOCK), tl.float32)  # exact: a vocabulary is below 2^24
        mass = tl.zeros((PIVOTS, BLOCK), tl.float32)
        for start in range(0, V, BLOCK):
            logit = load_logits(row, start + tl.arange(0, BLOCK)[None, :], V)
            above = image_of(logit) > image_pivot
            number += tl.where(above, 1.0, 0.0)
            mass += tl.where(above, tl.exp2((logit - top) * scale), 0.0)
        fits = (tl.sum(number, 1) < limit) & (tl.sum(mass, 1).to(tl.float64) < nucleus)
        high, low = (
            tl.min(tl.where(fits, pivot, high), 0),
            tl.max(tl.where(fits, low, pivot), 0),
        )
    return high.to(tl.int32)


@triton.jit  # type: ignore[untyped-decorator]
def _last_tie(  # type: ignore[no-untyped-def]
    row, threshold, top, scale, limit, nucleus, V: tl.constexpr, BLOCK: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    """Return the index of the last logit on the threshold that stays: equal ones are taken in the order of ids."""
    above = tl.zeros((BLOCK,), tl.int32)
    ties = tl.zeros((BLOCK,), tl.int32)
    for start in range(0, V, BLOCK):
        image = image_of(load_logits(row, start + tl.arange(0, BLOCK), V))
        above += (image > threshold).to(tl.int32)
        ties += (image == threshold).to(tl.int32)
    number = tl.sum(ties, 0)
    last = ALL
    if number > 1:
        room = nucleus - _mass(row, top, scale, threshold, -1, V, BLOCK)
        fit = ties_that_fit(number, threshold, top, scale, room, limit - tl.sum(above, 0))
        if fit < number:
            seen = 0
            for start in range(0, V, WIDE):
                at = start + tl.arange(0, WIDE)
                tie = (image_of(load_logits(row, at, V)) == threshold) & (at < V)
                rank = seen + tl.cumsum(tie.to(tl.int32), 0)
                last = tl.minimum(last, tl.min(tl.where(tie & (rank == fit), at, ALL), 0))
                seen += tl.sum(tie.to(tl.int32), 0)
    return last


@triton.jit  # type: ignore[untyped-decorator]
def _invert(row, top, scale, threshold, last, goal, V: tl.constexpr, WIDE: tl.constexpr):  # type: ignore[no-untyped-def]
    """Return the first index whose cumulative share exceeds the goal; the last with any share if rounding leaves
    none."""
    before = goal * 0.0
    place = ALL
    final = 0
    start = 0
    while (place == ALL) & (start < V):
        at = start + tl.arange(0, WIDE)
        share = _share(load_logits(row, at, V), at, top, scale, threshold, last)
        inside = tl.sum(share.to(tl.float64), 0)
        if before + inside > goal:
            reached = before + tl.cumsum(share.to(tl.float64), 0)
            place = tl.min(tl.where((reached > goal) & (share > 0.0), at, ALL), 0)
        final = tl.maximum(final, tl.max(tl.where(share > 0.0, at, 0), 0))
        before += inside
        start += WIDE
    return tl.where(place == ALL, final, place)


@triton.jit  # type: ignore[untyped-decorator]
def draw_from_row(  # type: ignore[no-untyped-def]
    row, top, scale, low, limit, nucleus, uniform, V: tl.constexpr, BLOCK: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    """Draw one of the row's tokens that stay. `low` is too low a threshold."""
    lower, upper = image_of(low).to(tl.int64), image_of(top).to(tl.int64)
    threshold = _threshold(row, top, scale, limit, nucleus, lower, upper, V, BLOCK // 2)  # four sums of each column
    last = _last_tie(row, threshold, top, scale, limit, nucleus, V, BLOCK, WIDE)
    total = _mass(row, top, scale, threshold, last, V, BLOCK)
    return _invert(row, top, scale, threshold, last, uniform * total, V, WIDE)
