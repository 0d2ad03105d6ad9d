"""Logits as numbers in an order: how they are loaded, and the integers that have the same order."""

import triton
import triton.language as tl

LOG2_E = tl.constexpr(1.4426950408889634)
ALL = tl.constexpr(2**31 - 1)


@triton.jit
def load_logits(source, at, count):  # type: ignore[no-untyped-def]
    """Load logits, -inf beyond the end; a NaN counts as infinite, so that the row is refused."""
    logit = tl.load(source + at, mask=at < count, other=float("-inf"))
    return tl.where(logit != logit, float("inf"), logit)  # noqa: PLR0124


@triton.jit
def image_of(logit):  # type: ignore[no-untyped-def]
    """Map floats to int32 in the same order; both zeros map to one value."""
    bits = tl.where(logit == 0.0, 0.0, logit).to(tl.int32, bitcast=True)
    return bits ^ ((bits >> 31) & 0x7FFFFFFF)


@triton.jit
def logit_of(image):  # type: ignore[no-untyped-def]
    return (image ^ ((image >> 31) & 0x7FFFFFFF)).to(tl.float32, bitcast=True)
