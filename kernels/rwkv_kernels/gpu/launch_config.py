"""Block sizes, warps and pipeline stages of every GPU kernel, in one place.

What must give the same bits in any batch is keyed by the shape of the weights, never by the number of rows.
"""

from dataclasses import dataclass
from typing import Any

import torch
import triton

PROGRAMS = 132  # multiprocessors of an H100 or H200: a decode step's product wants one program for each


# Passes over whole rows (add_norm_mix).
def row(width: int) -> tuple[int, int]:
    """Columns of a program and its warps: eight columns a thread, a row's loads all on their way at once."""
    block = triton.next_power_of_2(width)
    return block, max(1, min(16, block // 256))


def stretch(rows: int) -> int:
    """Rows one program walks. Each stretch reads one row more; short ones fill the GPU. It does not enter the bits."""
    return max(1, min(8, rows // (4 * PROGRAMS)))


# The recurrence (wkv7).
@dataclass(frozen=True, slots=True)
class Recurrence:
    """How a head's 64 x 64 state is spread over a program: `warps` share the values; in a warp `keys` lanes share the
    keys and `lanes` the warp's values.
    """

    warps: int
    keys: int
    lanes: int


def recurrence(dtype: torch.dtype) -> Recurrence:
    """For activations of that type: a thread's keys are one 16-byte load, its share of the state fits its registers."""
    return Recurrence(4, 8, 4) if dtype == torch.float16 else Recurrence(8, 16, 2)


# The recurrence in chunks (wkv7_chunked).
PREPARE_WARPS = 4
SCAN_VALUES = 16  # columns of a state that one program carries through a prompt
SCAN_WARPS = 4
FINISH_WARPS = 4


def fp32_products() -> str:
    """How fp32 matrices are multiplied where fp32's precision is wanted: as three tf32 products, if there are."""
    return "ieee" if torch.version.hip else "tf32x3"


# Matrix products (gemm, logprobs). The weights' rows are the tile's M, the batch's rows its N.
SERIAL_PROGRAMS = 96  # from here on partial sums cost more in traffic than idle multiprocessors do
MATRIX_ROWS = 64  # rows of the weights in one instruction of Hopper's matrix unit
LEAST_STEPS = 3  # a split that is shorter than this is all start-up
MOST_SPLITS = 16


@dataclass(frozen=True, slots=True)
class Plan:
    """How a product [R, K] x [N, K] adds up, the same for every R: `block_k` elements at a time, in `splits` sums."""

    block_k: int
    splits: int


@dataclass(frozen=True, slots=True)
class Tile:
    """One program's share of a product: `block_n` rows of the weights, `block_r` rows of the batch."""

    block_n: int
    block_r: int
    warps: int
    stages: int


def block_k(dtype: torch.dtype) -> int:
    """Elements of K a program loads at a time."""
    return 64 if dtype == torch.float16 else 32


def plan(n: int, k: int, dtype: torch.dtype = torch.float16) -> Plan:
    """Split K into a power of two of sums, so that one tile of rows alone keeps every multiprocessor busy."""
    step = block_k(dtype)
    tiles, steps, splits = -(-n // MATRIX_ROWS), -(-k // step), 1
    while splits < MOST_SPLITS and tiles * splits < PROGRAMS and steps // (2 * splits) >= LEAST_STEPS:
        splits *= 2
    return Plan(step, splits)


def gemm_tile(n: int, rows: int, dtype: torch.dtype, *, serial: bool) -> Tile:
    """The tile for `n` rows of weights (of all planes) and `rows` of the batch.

    It decides who computes an element, never in which order the element is summed.
    """
    if dtype != torch.float16:
        return Tile(MATRIX_ROWS, 16 if rows <= 16 else 32, 4, 2)
    for block_r, stages in ((16, 6), (32, 6), (64, 5)):
        if rows <= block_r:
            return Tile(MATRIX_ROWS, block_r, 4, stages)
    if not serial and (n // 128) * (rows // 256) >= PROGRAMS:  # serial holds two accumulators
        return Tile(128, 256, 8, 3)
    if (n // 128) * (rows // 128) >= PROGRAMS:
        return Tile(128, 128, 8, 4)
    return Tile(MATRIX_ROWS, 128, 4, 4)


def logprob_tile(rows: int, dtype: torch.dtype) -> Tile:
    """The tile of head x hidden, whose columns are summed: only its width may vary.

    In the matrix unit's layout a column is spread over rows of threads in the same way at any width. In fp32 there is
    no such layout, so there the tile is fixed.
    """
    if dtype != torch.float16:
        return Tile(64, 32, 4, 2)
    for block_r, stages in ((16, 4), (32, 4), (64, 4)):
        if rows <= block_r:
            return Tile(128, block_r, 8, stages)
    return Tile(128, 128, 8, 4)


# The low-rank chains (low_rank).
SIDE_BY_SIDE_ROWS = 128  # up to so many, the sums over one product's splits are taken side by side


def low_rank_tile(rows: int, dtype: torch.dtype, most: int) -> tuple[int, dict[str, Any]]:
    """Rows of the batch in one tile, and the launch options. It does not enter the bits."""
    if dtype != torch.float16:
        return (16 if rows <= 16 else 32), {"num_warps": 4, "num_stages": 2, "enable_fp_fusion": True}
    block = min(most, max(16, triton.next_power_of_2(rows)))
    return block, {"num_warps": 4, "num_stages": 4, "enable_fp_fusion": True}


def serial_pays(n: int, rows: int) -> bool:
    """Whether so many rows keep every multiprocessor busy without the splits running side by side."""
    return -(-n // MATRIX_ROWS) * -(-rows // 128) >= SERIAL_PROGRAMS


COMBINE_WARPS = 4  # logprobs: the tree over a row's tiles

# The sampler: one program a row. A row's sums are trees over BLOCK columns, so none of this may follow the batch.
SAMPLER_BLOCK = 2048  # columns a row is folded to, and the most candidates the short search takes
SAMPLER_WIDE = 4096  # logits in one scan
SAMPLER_SHORT = 256  # biases, spared tokens, stops read at a time
SAMPLER_WARPS = 16


def sampler_blocks(vocabulary: int) -> dict[str, int]:
    """The sizes above for a vocabulary that may be smaller, a thread having at least one column."""
    least = max(32 * SAMPLER_WARPS, 1 << (vocabulary - 1).bit_length())
    return {"BLOCK": min(SAMPLER_BLOCK, least), "WIDE": min(SAMPLER_WIDE, least), "SHORT": SAMPLER_SHORT}


# The sparse value product: 256 rows of the weight at a time and 128 bytes of each, three such tiles in flight.
SPARSE_F = 256
SPARSE_FOLD = 32
SPARSE_STAGES = 4
SPARSE_D = 64
SPARSE_WARPS = 8
