"""Add costs and biases to rows of logits and sum them up by lanes of 32 tokens: the first of the sampler's two kernels.

Many programs share a row, so one row of a small batch keeps many multiprocessors busy, and each logit is read once. A
lane's sums are relative to its own largest logit: they depend on its 32 logits alone, never on how rows are divided.
"""

import triton
import triton.language as tl

from rwkv_kernels.gpu import launch_config
from rwkv_kernels.gpu.dependent_launch import await_inputs
from rwkv_kernels.gpu.logit import LOG2_E, load_logits
from rwkv_kernels.gpu.variant import Variant

LANE = tl.constexpr(launch_config.SAMPLER_LANE)


@triton.jit  # type: ignore[untyped-decorator]
def _adjust(  # type: ignore[no-untyped-def]
    row, first, ids, values, count, SIGN: tl.constexpr, V: tl.constexpr, PIECE: tl.constexpr, SHORT: tl.constexpr
):
    """Add SIGN * values to those of row[ids] that lie in this piece; every thread sees the result afterwards. A ban, of
    -inf, holds whatever the logit is."""
    for start in range(0, count, SHORT):
        at = start + tl.arange(0, SHORT)
        token = tl.load(ids + at, mask=at < count, other=-1)
        mine = (token >= first) & (token < tl.minimum(first + PIECE, V))
        value = SIGN * tl.load(values + at, mask=mine, other=0.0)
        banned = value == float("-inf")
        logit = tl.load(row + token, mask=mine, other=0.0) + tl.where(banned, 0.0, value)
        tl.store(row + token, tl.where(banned, value, logit), mask=mine)
    tl.debug_barrier()


@triton.jit(do_not_specialize=["scratch_slot"])  # type: ignore[untyped-decorator]
def lanes_kernel(  # type: ignore[no-untyped-def]
    logits, row_slots, scratch_slot, temperature, position, bias_ids, bias, bias_count, ledger_ids, ledger_costs,
    ledger_used, lane_top, lane_second, lane_mass, lane_whole, V: tl.constexpr, LANES: tl.constexpr,
    BIASES: tl.constexpr, LEDGER: tl.constexpr, PIECE: tl.constexpr, SHORT: tl.constexpr, OVERLAP: tl.constexpr,
):  # fmt: skip
    """Adjust one piece of a row and sum up its lanes. Grid: (R, LANES * LANE / PIECE)."""
    await_inputs(OVERLAP)
    slot = tl.load(row_slots + tl.program_id(0)).to(tl.int64)
    if slot != scratch_slot:
        row = logits + tl.program_id(0).to(tl.int64) * V
        first = tl.program_id(1) * PIECE
        used = tl.where(tl.load(position + slot) == 0, 0, tl.load(ledger_used + slot))
        costs, biases = ledger_costs + slot * LEDGER, bias + slot * BIASES
        _adjust(row, first, ledger_ids + slot * LEDGER, costs, used, -1.0, V, PIECE, SHORT)
        _adjust(row, first, bias_ids + slot * BIASES, biases, tl.load(bias_count + slot), 1.0, V, PIECE, SHORT)

        lane = tl.arange(0, PIECE // LANE)
        logit = load_logits(row, first + lane[:, None] * LANE + tl.arange(0, LANE)[None, :], V)
        top = tl.max(logit, 1)
        largest = logit == top[:, None]
        second = tl.max(tl.where(largest, float("-inf"), logit), 1)
        below = logit - tl.where(tl.abs(top) < float("inf"), top, 0.0)[:, None]
        heat = tl.load(temperature + slot)
        scale = LOG2_E / tl.where(heat > 0.0, heat, 1.0)
        place = slot * LANES + first // LANE + lane
        tl.store(lane_top + place, top)
        tl.store(lane_second + place, tl.where(tl.sum(largest.to(tl.int32), 1) > 1, top, second))
        tl.store(lane_mass + place, tl.sum(tl.exp2(below * scale), 1))
        tl.store(lane_whole + place, tl.sum(tl.exp2(below * LOG2_E), 1))


OPTIONS = {"num_warps": launch_config.SAMPLER_PIECE_WARPS, "enable_fp_fusion": False}  # a cost is rounded as on the CPU


def variants() -> list[Variant]:
    """Return the variant to compile: the World vocabulary, a ledger of 4096."""
    real, short = "*fp32:16", "*i32:16"
    lanes = ("lane_top", "lane_second", "lane_mass", "lane_whole")
    kinds = dict.fromkeys(("logits", "temperature", "bias", "ledger_costs", *lanes), real)
    kinds |= dict.fromkeys(("row_slots", "bias_ids", "bias_count", "ledger_ids", "ledger_used"), short)
    kinds |= {"scratch_slot": "i32", "position": "*i64:16"}
    sizes = {"V": 65536, "LANES": launch_config.sampler_lanes(65536), "BIASES": 256, "LEDGER": 4096}
    sizes |= {"PIECE": launch_config.sampler_piece(65536), "SHORT": launch_config.SAMPLER_SHORT}
    return [Variant("sampler lanes 65536", lanes_kernel, kinds, sizes, OPTIONS)]
