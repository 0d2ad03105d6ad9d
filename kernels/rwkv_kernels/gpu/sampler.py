"""Draw a token for each row of logits on the GPU, by the rule of `rwkv_kernels.sampling` and `rwkv_kernels.draw`.

One program for each row does everything: costs and biases, the cut, the draw, the ledger. All its inputs are in device
memory by slot, so a step whose batch did not change sends nothing to the GPU. A draw depends on its row and its slot
alone; the uniform is the CPU's own, 53 bits of one Philox4x32-10 block.

Where top-k or top-p cut, a token stays if the better tokens are fewer than k and have less mass than p. That is
monotone in the logit, so it is a threshold, found by comparing with four pivots at a time on the order-preserving
integer image of the logits. The row itself is read only three times: column maxima of the row folded to 2048 columns
bound the threshold from below, what lies above the bound is gathered (in id order) and held in registers, and the
search and the draw run there. Only where more than 2048 tokens lie above the bound, a flat distribution, does the
search run over the row.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor

from rwkv_kernels import draw, sampling
from rwkv_kernels.gpu import launch_config
from rwkv_kernels.gpu.dependent_launch import await_inputs, overlap
from rwkv_kernels.gpu.variant import Variant

LOG2_E = tl.constexpr(1.4426950408889634)
ALL = tl.constexpr(2**31 - 1)
NOTHING = tl.constexpr(-(2**31))  # below the image of every logit
PIVOTS = tl.constexpr(4)
COARSE = tl.constexpr(1 << 16)  # images between two logits that differ by 1/128: a bound need not be exact


@dataclass(frozen=True, slots=True)
class SlotDraws:
    """The sampler's data of each slot, on the device; S slots, the last of them the scratch slot of padding rows.

    Written by the engine when a sequence takes the slot: temperature, top_p [S] fp32, top_k [S] int32, key [S] int64
    (the bits of the unsigned key), position [S] int64 (tokens drawn so far; at 0 the ledger and `halted` start anew);
    presence, frequency, decay [S] fp32; and lists with their lengths: bias_ids int32 and bias fp32 (distinct ids; a ban
    is -inf), spared int32 (unpenalised tokens), stops int32. Written by the sampler: position; token [S]
    int64, the last one drawn; halted [S] int8, 1 once a stop token was drawn; the ledger of costs, which takes
    `ledger_capacity` distinct tokens and ignores further ones. `found`, `found_ids` are its workspace.
    """

    temperature: Tensor
    top_k: Tensor
    top_p: Tensor
    key: Tensor
    position: Tensor
    presence: Tensor
    frequency: Tensor
    decay: Tensor
    bias_ids: Tensor
    bias: Tensor
    bias_count: Tensor
    spared: Tensor
    spared_count: Tensor
    stops: Tensor
    stop_count: Tensor
    ledger_ids: Tensor
    ledger_costs: Tensor
    ledger_used: Tensor
    token: Tensor
    halted: Tensor
    found: Tensor
    found_ids: Tensor

    @classmethod
    def allocate(
        cls,
        slots: int,
        device: torch.device | str,
        ledger_capacity: int,
        *,
        bias_capacity: int = 256,
        spared_capacity: int = 256,
        stop_capacity: int = 64,
    ) -> "SlotDraws":
        """Allocate the slots' data. Every slot draws greedily until its settings are written."""

        def zeros(kind: torch.dtype, *more: int) -> Tensor:
            return torch.zeros(slots, *more, dtype=kind, device=device)

        ones = torch.ones(slots, dtype=torch.float32, device=device)
        real, short, long = torch.float32, torch.int32, torch.int64
        return cls(
            temperature=zeros(real), top_k=zeros(short), top_p=ones, key=zeros(long), position=zeros(long),
            presence=zeros(real), frequency=zeros(real), decay=ones.clone(),
            bias_ids=zeros(short, bias_capacity), bias=zeros(real, bias_capacity), bias_count=zeros(short),
            spared=zeros(short, spared_capacity), spared_count=zeros(short),
            stops=zeros(short, stop_capacity), stop_count=zeros(short),
            ledger_ids=zeros(short, ledger_capacity), ledger_costs=zeros(real, ledger_capacity),
            ledger_used=zeros(short), token=zeros(long), halted=zeros(torch.int8),
            found=zeros(real, launch_config.SAMPLER_BLOCK), found_ids=zeros(short, launch_config.SAMPLER_BLOCK),
        )  # fmt: skip


@triton.jit
def _image(logit):  # type: ignore[no-untyped-def]
    """Map floats to int32 in the same order; both zeros map to one value."""
    bits = tl.where(logit == 0.0, 0.0, logit).to(tl.int32, bitcast=True)
    return bits ^ ((bits >> 31) & 0x7FFFFFFF)


@triton.jit
def _of_image(image):  # type: ignore[no-untyped-def]
    return (image ^ ((image >> 31) & 0x7FFFFFFF)).to(tl.float32, bitcast=True)


@triton.jit
def _load(source, at, count):  # type: ignore[no-untyped-def]
    """Load logits; a NaN counts as infinite, so that the row is refused."""
    logit = tl.load(source + at, mask=at < count, other=float("-inf"))
    return tl.where(logit != logit, float("inf"), logit)  # noqa: PLR0124


@triton.jit
def _share(logit, at, top, scale, threshold, last):  # type: ignore[no-untyped-def]
    """Return exp2((logit - top) * scale) of logits above the threshold, or on it and no later than `last`; else 0."""
    image = _image(logit)
    kept = (image > threshold) | ((image == threshold) & (at <= last))
    return tl.where(kept, tl.exp2((logit - top) * scale), 0.0)


@triton.jit  # type: ignore[untyped-decorator]
def _mass(source, count, top, scale, threshold, last, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    """Return the sum of `_share` over a list of logits in fp64: columns in fp32, then a tree over columns."""
    columns = tl.zeros((BLOCK,), tl.float32)
    for start in tl.range(0, count, BLOCK, loop_unroll_factor=4):
        at = start + tl.arange(0, BLOCK)
        columns += _share(_load(source, at, count), at, top, scale, threshold, last)
    return tl.sum(columns.to(tl.float64), 0)


@triton.jit  # type: ignore[untyped-decorator]
def _threshold(  # type: ignore[no-untyped-def]
    source, count, top, scale, limit, nucleus, low, high, BLOCK: tl.constexpr,
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
        for start in range(0, count, BLOCK):
            logit = _load(source, start + tl.arange(0, BLOCK)[None, :], count)
            above = _image(logit) > image_pivot
            number += tl.where(above, 1.0, 0.0)
            mass += tl.where(above, tl.exp2((logit - top) * scale), 0.0)
        fits = (tl.sum(number, 1) < limit) & (tl.sum(mass, 1).to(tl.float64) < nucleus)
        high, low = (
            tl.min(tl.where(fits, pivot, high), 0),
            tl.max(tl.where(fits, low, pivot), 0),
        )
    return high.to(tl.int32)


@triton.jit  # type: ignore[untyped-decorator]
def _threshold_among(  # type: ignore[no-untyped-def]
    logits, top, scale, limit, nucleus, low, high, STEP: tl.constexpr
):
    """The same for a whole list in registers, -inf where there is none. Returns (too low, low enough), at most STEP
    apart."""
    image = _image(logits)[None, :]
    share = tl.exp2((logits - top) * scale)[None, :]
    while high - low > STEP:
        pivot = low + (high - low) * (tl.arange(0, PIVOTS) + 1) // (PIVOTS + 1)
        above = image > pivot.to(tl.int32)[:, None]
        number = tl.sum(tl.where(above, 1.0, 0.0), 1)
        mass = tl.sum(tl.where(above, share, 0.0), 1)
        fits = (number < limit) & (mass.to(tl.float64) < nucleus)
        high, low = (
            tl.min(tl.where(fits, pivot, high), 0),
            tl.max(tl.where(fits, low, pivot), 0),
        )
    return low, high


@triton.jit  # type: ignore[untyped-decorator]
def _gather(  # type: ignore[no-untyped-def]
    row, bound, found, found_ids, V: tl.constexpr, BLOCK: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    """Copy the logits whose image reaches the bound, and their ids, in id order as far as there is room; return their
    number."""
    used = 0
    for start in range(0, V, WIDE):
        at = start + tl.arange(0, WIDE)
        logit = _load(row, at, V)
        wanted = (_image(logit) >= bound) & (at < V)
        place = used + tl.cumsum(wanted.to(tl.int32), 0) - 1
        room = wanted & (place < BLOCK)
        tl.store(found + place, logit, mask=room)
        tl.store(found_ids + place, at, mask=room)
        used += tl.sum(wanted.to(tl.int32), 0)
    return used


@triton.jit  # type: ignore[untyped-decorator]
def _last_tie(  # type: ignore[no-untyped-def]
    source, count, threshold, top, scale, limit, nucleus, BLOCK: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    """Return the index of the last logit on the threshold that stays: equal ones are taken in the order of ids."""
    above = tl.zeros((BLOCK,), tl.int32)
    ties = tl.zeros((BLOCK,), tl.int32)
    for start in range(0, count, BLOCK):
        image = _image(_load(source, start + tl.arange(0, BLOCK), count))
        above += (image > threshold).to(tl.int32)
        ties += (image == threshold).to(tl.int32)
    number = tl.sum(ties, 0)
    last = ALL
    if number > 1:
        room = nucleus - _mass(source, count, top, scale, threshold, -1, BLOCK)
        fit = tl.ceil(room / tl.exp2((_of_image(threshold) - top) * scale).to(tl.float64))
        fit = tl.minimum(fit, number.to(tl.float64)).to(tl.int32)
        fit = tl.maximum(tl.minimum(fit, limit - tl.sum(above, 0)), 1)
        if fit < number:
            seen = 0
            for start in range(0, count, WIDE):
                at = start + tl.arange(0, WIDE)
                tie = (_image(_load(source, at, count)) == threshold) & (at < count)
                rank = seen + tl.cumsum(tie.to(tl.int32), 0)
                last = tl.minimum(last, tl.min(tl.where(tie & (rank == fit), at, ALL), 0))
                seen += tl.sum(tie.to(tl.int32), 0)
    return last


@triton.jit  # type: ignore[untyped-decorator]
def _invert(source, count, top, scale, threshold, last, goal, WIDE: tl.constexpr):  # type: ignore[no-untyped-def]
    """Return the first index whose cumulative share exceeds the goal; the last with any share if rounding leaves
    none."""
    before = goal * 0.0
    place = ALL
    final = 0
    start = 0
    while (place == ALL) & (start < count):
        at = start + tl.arange(0, WIDE)
        share = _share(_load(source, at, count), at, top, scale, threshold, last)
        inside = tl.sum(share.to(tl.float64), 0)
        if before + inside > goal:
            reached = before + tl.cumsum(share.to(tl.float64), 0)
            place = tl.min(tl.where((reached > goal) & (share > 0.0), at, ALL), 0)
        final = tl.maximum(final, tl.max(tl.where(share > 0.0, at, 0), 0))
        before += inside
        start += WIDE
    return tl.where(place == ALL, final, place)


@triton.jit
def _uniform(key, position):  # type: ignore[no-untyped-def]
    """Return 53 bits of one Philox block as a number in [0, 1), the same as `rwkv_kernels.philox`."""
    low = position.to(tl.uint32)
    high = (position >> 32).to(tl.uint32)
    a, b, _, _ = tl.philox(key, low, high, low * 0, low * 0)
    return ((a >> 5).to(tl.float64) * 67108864.0 + (b >> 6).to(tl.float64)) * 1.1102230246251565e-16


@triton.jit  # type: ignore[untyped-decorator]
def _adjust(row, ids, values, count, SIGN: tl.constexpr, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    """Add SIGN * values to row[ids]; every thread sees the result afterwards."""
    for start in range(0, count, BLOCK):
        at = start + tl.arange(0, BLOCK)
        live = at < count
        place = row + tl.load(ids + at, mask=live, other=0)
        logit = tl.load(place, mask=live, other=0.0) + SIGN * tl.load(values + at, mask=live, other=0.0)
        tl.store(place, logit, mask=live)
    tl.debug_barrier()


@triton.jit  # type: ignore[untyped-decorator]
def _place_of(token, ids, count, absent, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    """Return the first index of a token in a list, or `absent`."""
    place = absent
    for start in range(0, count, BLOCK):
        at = start + tl.arange(0, BLOCK)
        same = (tl.load(ids + at, mask=at < count, other=-1) == token) & (at < count)
        place = tl.minimum(place, tl.min(tl.where(same, at, absent), 0))
    return place


@triton.jit  # type: ignore[untyped-decorator]
def _note_cost(  # type: ignore[no-untyped-def]
    token, ids, costs, used, presence, frequency, decay, spared, CAPACITY: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Decay all costs; then set the token's cost to `presence` if it had none, else add `frequency`. Returns the new
    length."""
    for start in range(0, used, BLOCK):
        at = start + tl.arange(0, BLOCK)
        tl.store(costs + at, tl.load(costs + at, mask=at < used, other=0.0) * decay, mask=at < used)
    tl.debug_barrier()
    place = _place_of(token, ids, used, used, BLOCK)
    if (spared == 0) & (place < CAPACITY):
        cost = tl.load(costs + place, mask=place < used, other=0.0)
        tl.store(ids + place, token)
        tl.store(costs + place, tl.where(cost == 0.0, presence, cost + frequency))
        used = tl.maximum(used, place + 1)
    return used


@triton.jit  # type: ignore[untyped-decorator]
def _draw(  # type: ignore[no-untyped-def]
    row, top, lanes, key, position, temperature, top_k, top_p, found, found_ids, V: tl.constexpr, BLOCK: tl.constexpr,
    WIDE: tl.constexpr,
):  # fmt: skip
    """Draw an id. lanes: [BLOCK], the maxima of the row folded to BLOCK columns."""
    scale = LOG2_E / temperature
    total = _mass(row, V, top, scale, NOTHING, ALL, BLOCK)
    source, gathered = row, False
    count, threshold, last = V, NOTHING, ALL
    cut_k = (top_k > 0) & (top_k < V)
    if cut_k | (top_p < 1.0):
        limit = tl.where(cut_k, top_k, ALL)
        nucleus = tl.where(top_p < 1.0, top_p.to(tl.float64) * total, float("inf"))
        low = _image(tl.full((), float("-inf"), tl.float32)).to(tl.int64)
        high = _image(top).to(tl.int64)
        low, _ = _threshold_among(lanes, top, scale, limit, nucleus, low, high, COARSE)
        number = _gather(row, (low + 1).to(tl.int32), found, found_ids, V, BLOCK, WIDE)
        tl.debug_barrier()
        gathered = number <= BLOCK
        if gathered:
            source = found
            count = number
            among = _load(found, tl.arange(0, BLOCK), number)
            _, threshold = _threshold_among(among, top, scale, limit, nucleus, low, high, 1)
            threshold = threshold.to(tl.int32)
        else:
            threshold = _threshold(source, count, top, scale, limit, nucleus, low, high, BLOCK)
        last = _last_tie(source, count, threshold, top, scale, limit, nucleus, BLOCK, WIDE)
        total = _mass(source, count, top, scale, threshold, last, BLOCK)
    place = _invert(source, count, top, scale, threshold, last, _uniform(key, position) * total, WIDE)
    if gathered:
        place = tl.load(found_ids + place)
    return place


@triton.jit(do_not_specialize=["scratch_slot"])  # type: ignore[untyped-decorator]
def sampler_kernel(  # type: ignore[no-untyped-def]
    logits, row_slots, tokens_out, logprobs_out, scratch_slot, temperature, top_k, top_p, key, position, presence,
    frequency, decay, bias_ids, bias, bias_count, spared, spared_count, stops, stop_count, ledger_ids, ledger_costs,
    ledger_used, token, halted, found, found_ids, V: tl.constexpr, BIASES: tl.constexpr, SPARED: tl.constexpr,
    STOPS: tl.constexpr, LEDGER: tl.constexpr, ROOM: tl.constexpr, BLOCK: tl.constexpr, WIDE: tl.constexpr,
    SHORT: tl.constexpr, OVERLAP: tl.constexpr,
):  # fmt: skip
    """Draw a token for one row and update its slot. Grid: (R,)."""
    await_inputs(OVERLAP)
    slot = tl.load(row_slots + tl.program_id(0)).to(tl.int64)
    if slot != scratch_slot:
        row = logits + tl.program_id(0).to(tl.int64) * V
        at_position = tl.load(position + slot)
        fresh = at_position == 0
        used = tl.where(fresh, 0, tl.load(ledger_used + slot))
        _adjust(row, ledger_ids + slot * LEDGER, ledger_costs + slot * LEDGER, used, -1.0, BLOCK)
        _adjust(row, bias_ids + slot * BIASES, bias + slot * BIASES, tl.load(bias_count + slot), 1.0, SHORT)

        lanes = tl.full((BLOCK,), float("-inf"), tl.float32)
        bests = tl.zeros((BLOCK,), tl.int32)
        for start in tl.range(0, V, BLOCK, loop_unroll_factor=4):
            at = start + tl.arange(0, BLOCK)
            logit = _load(row, at, V)
            bests = tl.where(logit > lanes, at, bests)
            lanes = tl.maximum(logit, lanes)
        top = tl.max(lanes, 0)
        drawn = tl.full((), -1, tl.int32)
        logprob = float("nan")
        if (top > float("-inf")) & (top < float("inf")):
            drawn = tl.min(tl.where(lanes == top, bests, ALL), 0)
            heat = tl.load(temperature + slot)
            k = tl.load(top_k + slot)
            p = tl.load(top_p + slot)
            if (heat > 0.0) & (p > 0.0) & (k != 1):
                drawn = _draw(row, top, lanes, tl.load(key + slot), at_position, heat, k, p,
                              found + slot * ROOM, found_ids + slot * ROOM, V, BLOCK, WIDE)  # fmt: skip
            whole = _mass(row, V, top, LOG2_E, NOTHING, ALL, BLOCK)
            logprob = (tl.load(row + drawn) - top) - tl.log(whole.to(tl.float32))

            rise = tl.load(presence + slot)
            more = tl.load(frequency + slot)
            if (rise != 0.0) | (more != 0.0):
                free = _place_of(drawn, spared + slot * SPARED, tl.load(spared_count + slot), ALL, SHORT) != ALL
                used = _note_cost(drawn, ledger_ids + slot * LEDGER, ledger_costs + slot * LEDGER, used,
                                  rise, more, tl.load(decay + slot), free, LEDGER, BLOCK)  # fmt: skip
            stop = _place_of(drawn, stops + slot * STOPS, tl.load(stop_count + slot), ALL, SHORT) != ALL
            was = tl.where(fresh, 0, tl.load(halted + slot).to(tl.int32))
            tl.debug_barrier()
            tl.store(halted + slot, tl.where(stop, 1, was).to(tl.int8))
            tl.store(ledger_used + slot, used)
            tl.store(position + slot, at_position + 1)
            tl.store(token + slot, drawn.to(tl.int64))
        tl.store(tokens_out + tl.program_id(0), drawn.to(tl.int64))
        tl.store(logprobs_out + tl.program_id(0), logprob)


def sample(logits: Tensor, row_slots: Tensor, draws: SlotDraws, tokens_out: Tensor, logprobs_out: Tensor) -> None:
    """Draw a token for each row and note it in the row's slot.

    logits [R, V] fp32, changed in place by costs and biases; row_slots [R] int32, distinct but for the scratch slot
    (the last), whose rows are left alone; tokens_out [R] int64: the drawn id, or -1 where no logit is finite or one is
    not a number, and then nothing changes in the slot; logprobs_out [R] fp32: its log-softmax at temperature 1.
    """
    rows, vocabulary = logits.shape
    assert logits.is_contiguous()
    assert logits.dtype == torch.float32
    d = draws
    sampler_kernel[(rows,)](
        logits, row_slots, tokens_out, logprobs_out, d.token.shape[0] - 1,
        d.temperature, d.top_k, d.top_p, d.key, d.position, d.presence, d.frequency, d.decay,
        d.bias_ids, d.bias, d.bias_count, d.spared, d.spared_count, d.stops, d.stop_count,
        d.ledger_ids, d.ledger_costs, d.ledger_used, d.token, d.halted, d.found, d.found_ids,
        V=vocabulary, BIASES=d.bias.shape[1], SPARED=d.spared.shape[1], STOPS=d.stops.shape[1],
        LEDGER=d.ledger_ids.shape[1], ROOM=d.found.shape[1], **launch_config.sampler_blocks(vocabulary), **OPTIONS,
        **overlap(rows),
    )  # fmt: skip


def next_rows(slots: Tensor, draws: SlotDraws, live: Tensor, ids: Tensor) -> None:
    """Begin the next decode step: `live` int32 [B] are the slots, with the scratch slot in place of those that have
    halted, and `ids` int64 [B] the tokens drawn last for them, 0 where none was."""
    count = slots.shape[0]
    _next_rows[(triton.cdiv(count, launch_config.ROWS_BLOCK),)](
        slots, draws.halted, draws.token, live, ids, count, draws.token.shape[0] - 1,
        BLOCK=launch_config.ROWS_BLOCK, num_warps=1,
    )  # fmt: skip


@triton.jit(do_not_specialize=["count", "scratch_slot"])  # type: ignore[untyped-decorator]
def _next_rows(slots, halted, token, live, ids, count, scratch_slot, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    given = row < count
    slot = tl.load(slots + row, mask=given, other=0)
    slot = tl.where(tl.load(halted + slot, mask=given, other=0) != 0, scratch_slot, slot)
    tl.store(live + row, slot, mask=given)
    tl.store(ids + row, tl.maximum(tl.load(token + slot, mask=given, other=0), 0), mask=given)


OPTIONS = {"num_warps": launch_config.SAMPLER_WARPS, "enable_fp_fusion": False}  # a cost is rounded as on the CPU


def reference(logits: Tensor, draws: Sequence[draw.Draw]) -> tuple[list[int], list[float]]:
    """Compute the same by `rwkv_kernels.sampling`: ids, and their log-softmax after costs and biases. logits:
    changed."""
    ids = sampling.sample(logits, draws)
    logprobs = torch.log_softmax(logits.double(), -1)
    return ids, [float(logprobs[row, token]) if token >= 0 else float("nan") for row, token in enumerate(ids)]


def variants() -> list[Variant]:
    """Return the variant to compile: the World vocabulary, a ledger of 4096."""
    kinds = {
        "logits": "*fp32:16", "row_slots": "*i32:16", "tokens_out": "*i64:16", "logprobs_out": "*fp32:16",
        "scratch_slot": "i32",
    }  # fmt: skip
    letters = {torch.float32: "*fp32:16", torch.int32: "*i32:16", torch.int64: "*i64:16", torch.int8: "*i8:16"}
    state = SlotDraws.allocate(1, "cpu", 4096)
    kinds |= {name: letters[getattr(state, name).dtype] for name in SlotDraws.__slots__}
    sizes = {"V": 65536, "BIASES": 256, "SPARED": 256, "STOPS": 64, "LEDGER": 4096}
    sizes |= {"ROOM": launch_config.SAMPLER_BLOCK} | launch_config.sampler_blocks(65536)
    rows = {"slots": "*i32:16", "halted": "*i8:16", "token": "*i64:16", "live": "*i32:16", "ids": "*i64:16"}
    rows |= {"count": "i32", "scratch_slot": "i32"}
    return [
        Variant("sampler 65536", sampler_kernel, kinds, sizes, OPTIONS),
        Variant("next_rows", _next_rows, rows, {"BLOCK": launch_config.ROWS_BLOCK}, {"num_warps": 1}),
    ]
