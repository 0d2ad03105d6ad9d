"""Which tokens top-k and top-p keep, searched in registers.

A token stays if the better ones are fewer than k and have less mass than p. That is monotone in the logit, so it is a
threshold: one that is known to be too low and one that is low enough come closer, with four pivots between them in
each round. A fixed tree of sums of non-negative terms is monotone in its terms, so rounding cannot make the search
contradict itself.
"""

import triton
import triton.language as tl

from rwkv_kernels.gpu import launch_config
from rwkv_kernels.gpu.logit import ALL, image_of, logit_of

LANE = tl.constexpr(launch_config.SAMPLER_LANE)
PIVOTS = tl.constexpr(4)
ROUNDS = tl.constexpr(5)  # 5^5 steps between two bounds that are some 20 logits apart
ROUNDING = tl.constexpr(1.000002)  # above the relative error of a tree of fp32 sums over a vocabulary
STEP = tl.constexpr(1e-6)  # above the relative distance of two neighbouring fp32 numbers


@triton.jit  # type: ignore[untyped-decorator]
def bound_by_lanes(tops, seconds, shares, top, scale, limit, nucleus, total, V: tl.constexpr):  # type: ignore[no-untyped-def]
    """Return a logit that is known to be too low a threshold, close to it; -inf if none is known.

    tops, seconds, shares [LANES]: the two largest logits and the mass of each lane. Above a pivot lie those of the two
    that reach above it; and where both do, at least the lane's mass without 30 logits as large as the pivot.
    """
    none = float("-inf")
    cuts = nucleus < total
    missing = tl.where(cuts, total - nucleus, total)  # all V logits at or below the first bound have at most half of it
    by_mass = top + tl.log2((missing / (2 * V)).to(tl.float32)) / scale - STEP * tl.abs(top)
    by_mass = tl.where(cuts, by_mass, none)
    lowest = tl.min(tl.where(tops > none, tops, top), 0)
    lowest -= 1.0 + STEP * tl.abs(lowest)
    by_number = tl.where(tl.sum(tl.where(tops > lowest, 1, 0), 0) >= limit, lowest, none)
    low = tl.maximum(by_mass, by_number)
    if low > none:
        high = top
        first = tl.exp2((tops - top) * scale)[None, :]
        both = first + tl.exp2((seconds - top) * scale)[None, :]
        for _ in range(ROUNDS):
            pivot = low + (high - low) * ((tl.arange(0, PIVOTS) + 1) / (PIVOTS + 1))
            one, two = tops[None, :] > pivot[:, None], seconds[None, :] > pivot[:, None]
            others = (LANE - 2) * tl.exp2((pivot - top) * scale)
            certain = tl.where(two, tl.maximum(both, shares[None, :] - others[:, None]), first)
            mass = tl.sum(tl.where(one, certain, 0.0), 1).to(tl.float64)
            too_low = mass >= nucleus * ROUNDING
            if limit < ALL:
                too_low |= tl.sum(one.to(tl.int32) + two.to(tl.int32), 1) >= limit
            low, high = (
                tl.maximum(low, tl.max(tl.where(too_low, pivot, none), 0)),
                tl.minimum(high, tl.min(tl.where(too_low, high, pivot), 0)),
            )
    return low


@triton.jit
def _fits(above, shares, limit, nucleus):  # type: ignore[no-untyped-def]
    """Whether what lies above each pivot is fewer than `limit` and has less mass than `nucleus`."""
    fits = tl.sum(tl.where(above, shares, 0.0), 1).to(tl.float64) < nucleus
    if limit < ALL:
        fits &= tl.sum(above.to(tl.int32), 1) < limit
    return fits


@triton.jit
def threshold_among(logits, shares, top, low, limit, nucleus):  # type: ignore[no-untyped-def]
    """Return the image of the threshold among logits in registers, -inf where there is none. `low` is too low."""
    high = top
    if low > float("-inf"):
        for _ in range(ROUNDS):
            pivot = low + (high - low) * ((tl.arange(0, PIVOTS) + 1) / (PIVOTS + 1))
            fits = _fits(logits[None, :] > pivot[:, None], shares[None, :], limit, nucleus)
            low, high = (
                tl.maximum(low, tl.max(tl.where(fits, low, pivot), 0)),
                tl.minimum(high, tl.min(tl.where(fits, pivot, high), 0)),
            )
    image = image_of(logits)
    lower, upper = image_of(low).to(tl.int64), image_of(high).to(tl.int64)
    while upper - lower > 1:
        step = lower + (upper - lower) * (tl.arange(0, PIVOTS) + 1) // (PIVOTS + 1)
        fits = _fits(image[None, :] > step.to(tl.int32)[:, None], shares[None, :], limit, nucleus)
        upper, lower = tl.min(tl.where(fits, step, upper), 0), tl.max(tl.where(fits, lower, step), 0)
    return upper.to(tl.int32)


@triton.jit
def ties_that_fit(ties, threshold, top, scale, room, left):  # type: ignore[no-untyped-def]
    """Return how many of the logits on the threshold stay: those before which `room`, a mass, is not yet filled, at
    most `left` and at least one."""
    each = tl.maximum(tl.exp2((logit_of(threshold) - top) * scale), 1e-38)
    fit = tl.minimum(tl.ceil(room / each.to(tl.float64)), ties.to(tl.float64)).to(tl.int32)
    return tl.maximum(tl.minimum(fit, left), 1)


@triton.jit
def draw_among(logits, ids, top, scale, low, limit, nucleus, uniform):  # type: ignore[no-untyped-def]
    """Draw one of the candidates that stay, all above the threshold and the first few of those that equal it. ids
    ascend."""
    shares = tl.exp2((logits - top) * scale)
    threshold = threshold_among(logits, shares, top, low, limit, nucleus)
    image = image_of(logits)
    above, tie = image > threshold, image == threshold
    room = nucleus - tl.sum(tl.where(above, shares, 0.0).to(tl.float64), 0)
    left = limit - tl.sum(above.to(tl.int32), 0)
    fit = ties_that_fit(tl.sum(tie.to(tl.int32), 0), threshold, top, scale, room, left)
    kept = above | (tie & (tl.cumsum(tie.to(tl.int32), 0) <= fit))
    chosen = tl.where(kept, shares, 0.0)
    reached = tl.cumsum(chosen.to(tl.float64), 0)
    goal = uniform * tl.max(reached, 0)
    return first_or_last((reached > goal) & (chosen > 0.0), chosen > 0.0, ids)


@triton.jit
def first_or_last(wanted, possible, ids):  # type: ignore[no-untyped-def]
    """Return the least id that is wanted; if rounding leaves none, the greatest that is possible."""
    first = tl.min(tl.where(wanted, ids, ALL), 0)
    return tl.where(first == ALL, tl.max(tl.where(possible, ids, 0), 0), first)
