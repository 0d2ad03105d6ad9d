"""Draw a token for each row of logits on the GPU, by the rule of `rwkv_kernels.sampling` and `rwkv_kernels.draw`.

`logit_lanes` adds costs and biases and sums the row up in lanes of 32 tokens; then one program for each row finds the
lane, or the few lanes, in which the drawn token lies, and reads no other logit. All inputs are in device memory by
slot, so a step whose batch did not change sends nothing to the GPU. A draw depends on its row and its slot alone; the
uniform is the CPU's own, 53 bits of one Philox4x32-10 block.

Where top-k or top-p cut, `nucleus` bounds the threshold by the lanes; the logits above the bound, the candidates, are
held in registers in the order of their ids, and the threshold is found and the token drawn there. Where they are too
many, a flat distribution, the search runs over the row in memory (`flat_row`).
"""

from collections.abc import Sequence

import torch
import triton
import triton.language as tl
from torch import Tensor

from rwkv_kernels import draw, sampling
from rwkv_kernels.gpu import launch_config, logit_lanes
from rwkv_kernels.gpu.dependent_launch import await_inputs, overlap
from rwkv_kernels.gpu.flat_row import draw_from_row
from rwkv_kernels.gpu.logit import ALL, LOG2_E, load_logits
from rwkv_kernels.gpu.nucleus import bound_by_lanes, draw_among, first_or_last
from rwkv_kernels.gpu.slot_draws import SlotDraws
from rwkv_kernels.gpu.variant import Variant

LANE = tl.constexpr(launch_config.SAMPLER_LANE)


@triton.jit
def _uniform(key, position):  # type: ignore[no-untyped-def]
    """Return 53 bits of one Philox block as a number in [0, 1), the same as `rwkv_kernels.philox`."""
    low = position.to(tl.uint32)
    high = (position >> 32).to(tl.uint32)
    a, b, _, _ = tl.philox(key, low, high, low * 0, low * 0)
    return ((a >> 5).to(tl.float64) * 67108864.0 + (b >> 6).to(tl.float64)) * 1.1102230246251565e-16


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
def _gather(  # type: ignore[no-untyped-def]
    row, low, open_lanes, number, found, found_ids, V: tl.constexpr, BLOCK: tl.constexpr
):
    """Copy the logits above `low` in the open lanes, and their ids, in id order, until there is no room for more;
    return their number, or one beyond BLOCK."""
    used, start = 0, 0
    while (start < number) & (used <= BLOCK):
        at = start + tl.arange(0, BLOCK) // LANE
        lane = tl.load(open_lanes + at, mask=at < number, other=V)
        token = lane * LANE + tl.arange(0, BLOCK) % LANE
        logit = load_logits(row, token, V)
        wanted = logit > low
        place = used + tl.cumsum(wanted.to(tl.int32), 0) - 1
        room = wanted & (place < BLOCK)
        tl.store(found + place, logit, mask=room)
        tl.store(found_ids + place, token, mask=room)
        used += tl.sum(wanted.to(tl.int32), 0)
        start += BLOCK // LANE
    tl.debug_barrier()
    return used


@triton.jit  # type: ignore[untyped-decorator]
def _draw_cut(  # type: ignore[no-untyped-def]
    row, tops, seconds, shares, top, scale, limit, nucleus, total, uniform, open_lanes, found, found_ids,
    V: tl.constexpr, LANES: tl.constexpr, BLOCK: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    """Draw an id where top-k or top-p cut."""
    low = bound_by_lanes(tops, seconds, shares, top, scale, limit, nucleus, total, V)
    is_open = tops > low
    tl.store(open_lanes + tl.cumsum(is_open.to(tl.int32), 0) - 1, tl.arange(0, LANES), mask=is_open)
    tl.debug_barrier()
    number = tl.sum(is_open.to(tl.int32), 0)
    place = tl.arange(0, BLOCK)
    if number <= BLOCK // LANE:
        lane = tl.load(open_lanes + place // LANE, mask=place // LANE < number, other=V)
        ids = lane * LANE + place % LANE
        logits = load_logits(row, ids, V)
        drawn = draw_among(tl.where(logits > low, logits, float("-inf")), ids, top, scale, low, limit, nucleus, uniform)
    else:
        count = _gather(row, low, open_lanes, number, found, found_ids, V, BLOCK)
        if count <= BLOCK:
            ids = tl.load(found_ids + place, mask=place < count, other=0)
            drawn = draw_among(load_logits(found, place, count), ids, top, scale, low, limit, nucleus, uniform)
        else:
            drawn = draw_from_row(row, top, scale, low, limit, nucleus, uniform, V, BLOCK, WIDE)
    return drawn


@triton.jit  # type: ignore[untyped-decorator]
def _draw_whole(row, shares, top, scale, uniform, V: tl.constexpr, LANES: tl.constexpr):  # type: ignore[no-untyped-def]
    """Draw an id of the whole distribution: its lane by the lanes' masses, and then within that."""
    reached = tl.cumsum(shares.to(tl.float64), 0)
    goal = uniform * tl.max(reached, 0)
    lane = first_or_last((reached > goal) & (shares > 0.0), shares > 0.0, tl.arange(0, LANES))
    before = tl.max(tl.where(tl.arange(0, LANES) < lane, reached, 0.0), 0)
    place = tl.arange(0, LANE)
    share = tl.exp2((load_logits(row, lane * LANE + place, V) - top) * scale)
    earlier = place[None, :] <= place[:, None]
    inside = before + tl.sum(tl.where(earlier, share.to(tl.float64)[None, :], 0.0), 1)
    return lane * LANE + first_or_last((inside > goal) & (share > 0.0), share > 0.0, place)


@triton.jit(do_not_specialize=["scratch_slot"])  # type: ignore[untyped-decorator]
def sampler_kernel(  # type: ignore[no-untyped-def]
    logits, row_slots, tokens_out, logprobs_out, scratch_slot, temperature, top_k, top_p, key, position, presence,
    frequency, decay, spared, spared_count, stops, stop_count, ledger_ids, ledger_costs, ledger_used, token, halted,
    lane_top, lane_second, lane_mass, lane_whole, open_lanes, found, found_ids, V: tl.constexpr, LANES: tl.constexpr,
    SPARED: tl.constexpr, STOPS: tl.constexpr, LEDGER: tl.constexpr, ROOM: tl.constexpr, BLOCK: tl.constexpr,
    WIDE: tl.constexpr, SHORT: tl.constexpr, OVERLAP: tl.constexpr,
):  # fmt: skip
    """Draw a token for one row, whose lanes are summed up, and update its slot. Grid: (R,)."""
    await_inputs(OVERLAP)
    slot = tl.load(row_slots + tl.program_id(0)).to(tl.int64)
    if slot != scratch_slot:
        row = logits + tl.program_id(0).to(tl.int64) * V
        lanes = slot * LANES + tl.arange(0, LANES)
        tops = tl.load(lane_top + lanes)
        top = tl.max(tops, 0)
        drawn = tl.full((), -1, tl.int32)
        logprob = float("nan")
        if (top > float("-inf")) & (top < float("inf")):
            heat = tl.load(temperature + slot)
            k = tl.load(top_k + slot)
            p = tl.load(top_p + slot)
            at_position = tl.load(position + slot)
            if (heat > 0.0) & (p > 0.0) & (k != 1):
                scale = LOG2_E / heat
                shares = tl.load(lane_mass + lanes) * tl.exp2((tops - top) * scale)
                uniform = _uniform(tl.load(key + slot), at_position)
                cut_k = (k > 0) & (k < V)
                if cut_k | (p < 1.0):
                    total = tl.sum(shares.to(tl.float64), 0)
                    limit = tl.where(cut_k, k, ALL)
                    nucleus = tl.where(p < 1.0, p.to(tl.float64) * total, float("inf"))
                    seconds = tl.load(lane_second + lanes)
                    drawn = _draw_cut(row, tops, seconds, shares, top, scale, limit, nucleus, total, uniform,
                                      open_lanes + slot * LANES, found + slot * ROOM, found_ids + slot * ROOM, V,
                                      LANES, BLOCK, WIDE)  # fmt: skip
                else:
                    drawn = _draw_whole(row, shares, top, scale, uniform, V, LANES)
            else:
                best = tl.min(tl.where(tops == top, tl.arange(0, LANES), ALL), 0) * LANE + tl.arange(0, LANE)
                drawn = tl.min(tl.where(load_logits(row, best, V) == top, best, ALL), 0)
            again = tl.load(lane_top + lanes)  # not held in registers meanwhile
            whole = tl.sum((tl.load(lane_whole + lanes) * tl.exp2((again - top) * LOG2_E)).to(tl.float64), 0)
            logprob = (tl.load(row + drawn) - top) - tl.log(whole.to(tl.float32))

            fresh = at_position == 0
            used = tl.where(fresh, 0, tl.load(ledger_used + slot))
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
    (the last), whose rows are left alone; tokens_out [R] int64: the drawn id, or -1 where no logit is finite, or one is
    infinite or not a number, and then nothing changes in the slot; logprobs_out [R] fp32: its log-softmax at
    temperature 1.
    """
    rows, vocabulary = logits.shape
    assert logits.is_contiguous()
    assert logits.dtype == torch.float32
    d, scratch, lanes = draws, draws.token.shape[0] - 1, draws.lane_top.shape[1]
    assert lanes == launch_config.sampler_lanes(vocabulary)
    piece = launch_config.sampler_piece(vocabulary)
    logit_lanes.lanes_kernel[(rows, lanes * launch_config.SAMPLER_LANE // piece)](
        logits, row_slots, scratch, d.temperature, d.position, d.bias_ids, d.bias, d.bias_count, d.ledger_ids,
        d.ledger_costs, d.ledger_used, d.lane_top, d.lane_second, d.lane_mass, d.lane_whole, V=vocabulary, LANES=lanes,
        BIASES=d.bias.shape[1], LEDGER=d.ledger_ids.shape[1], PIECE=piece, SHORT=launch_config.SAMPLER_SHORT,
        **logit_lanes.OPTIONS, **overlap(rows),
    )  # fmt: skip
    sampler_kernel[(rows,)](
        logits, row_slots, tokens_out, logprobs_out, scratch, d.temperature, d.top_k, d.top_p, d.key, d.position,
        d.presence, d.frequency, d.decay, d.spared, d.spared_count, d.stops, d.stop_count, d.ledger_ids,
        d.ledger_costs, d.ledger_used, d.token, d.halted, d.lane_top, d.lane_second, d.lane_mass, d.lane_whole,
        d.open_lanes, d.found, d.found_ids, V=vocabulary, LANES=lanes, SPARED=d.spared.shape[1], STOPS=d.stops.shape[1],
        LEDGER=d.ledger_ids.shape[1], ROOM=d.found.shape[1], **launch_config.SAMPLER_SIZES, **OPTIONS, **overlap(rows),
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


OPTIONS = {
    "num_warps": launch_config.SAMPLER_WARPS,
    "enable_fp_fusion": False,  # a cost is rounded as on the CPU
    **launch_config.most_registers(128),  # two programs a multiprocessor
}


def reference(logits: Tensor, draws: Sequence[draw.Draw]) -> tuple[list[int], list[float]]:
    """Compute the same by `rwkv_kernels.sampling`: ids, and their log-softmax after costs and biases. logits:
    changed."""
    ids = sampling.sample(logits, draws)
    logprobs = torch.log_softmax(logits.double(), -1)
    return ids, [float(logprobs[row, token]) if token >= 0 else float("nan") for row, token in enumerate(ids)]


def variants() -> list[Variant]:
    """Return the variant to compile: the World vocabulary, a ledger of 4096."""
    letters = {torch.float32: "*fp32:16", torch.int32: "*i32:16", torch.int64: "*i64:16", torch.int8: "*i8:16"}
    state = SlotDraws.allocate(1, "cpu", 65536, 4096)
    kinds = {"logits": "*fp32:16", "row_slots": "*i32:16", "tokens_out": "*i64:16", "logprobs_out": "*fp32:16",
             "scratch_slot": "i32"}  # fmt: skip
    kinds |= {
        name: letters[getattr(state, name).dtype]
        for name in SlotDraws.__slots__ if name in sampler_kernel.arg_names
    }  # fmt: skip
    sizes = {"V": 65536, "LANES": launch_config.sampler_lanes(65536), "SPARED": 256, "STOPS": 64, "LEDGER": 4096}
    sizes |= {"ROOM": launch_config.SAMPLER_CANDIDATES} | launch_config.SAMPLER_SIZES
    rows = {"slots": "*i32:16", "halted": "*i8:16", "token": "*i64:16", "live": "*i32:16", "ids": "*i64:16"}
    rows |= {"count": "i32", "scratch_slot": "i32"}
    return [
        Variant("sampler 65536", sampler_kernel, kinds, sizes, OPTIONS),
        Variant("next_rows", _next_rows, rows, {"BLOCK": launch_config.ROWS_BLOCK}, {"num_warps": 1}),
    ]
