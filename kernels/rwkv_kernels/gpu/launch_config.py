"""Block sizes, warps and pipeline stages of every GPU kernel, in one place.

Whatever affects the bits depends on the shape of the weights, never on the number of rows.
"""

from dataclasses import dataclass
from typing import Any

import torch
import triton

PROGRAMS = 132  # multiprocessors of an H100 or H200: a decode step's product wants one program for each
NEARLY_ALL = 120  # tiles from which on larger tiles pay: nearly one for each multiprocessor


# Passes over whole rows (add_norm_mix).
def row(width: int) -> tuple[int, int]:
    """Return a program's columns and warps: eight columns a thread, so that all loads of a row are in flight at
    once."""
    block = triton.next_power_of_2(width)
    return block, max(1, min(16, block // 256))


def stretch(rows: int) -> int:
    """Return the rows of one program. Each stretch reads one row more; short ones fill the GPU. Does not affect
    bits."""
    return max(1, min(16, rows // (2 * PROGRAMS)))


# The recurrence (wkv7).
@dataclass(frozen=True, slots=True)
class Recurrence:
    """The distribution of a head's 64 x 64 state over a program: `warps` share the values; in a warp `keys` lanes share
    the keys and `lanes` the warp's values.
    """

    warps: int
    keys: int
    lanes: int


def recurrence(dtype: torch.dtype) -> Recurrence:
    """Return the distribution for activations of a type: a thread's keys are one 16-byte load, and its share of the
    state fits its registers."""
    return Recurrence(4, 8, 4) if dtype == torch.float16 else Recurrence(8, 16, 2)


def decode_registers(rows: int) -> dict[str, int]:
    """Return the launch option of the recurrence in a decode step. A large batch is bound by the traffic of states,
    which takes many programs; in a small one each program has to be fast."""
    return most_registers(128) if rows <= 64 else {}


def most_registers(count: int) -> dict[str, int]:
    """Return the launch option that limits the registers of a thread; triton has it for NVIDIA alone."""
    return {} if torch.version.hip else {"maxnreg": count}


# The recurrence in chunks (wkv7_chunked). Times of one layer on an H200.
TOKEN_S = 0.55e-6  # of the sequential recurrence for one token of the longest sequence
TOKEN_HEAD_S = 2.6e-9  # the same for each token and head, where all multiprocessors are busy
CHUNK_S = 1.6e-6  # of the scan for one chunk of the longest sequence
SCAN_HEAD_S, PREPARE_HEAD_S = 7e-9, 10.5e-9  # for each chunk and head, where all multiprocessors are busy
TWO_LAUNCHES_S = 10e-6
CHUNKED_MIN_TOKENS = 12  # of a sequence on average: a partial last chunk takes time and memory like a full one


def chunks_pay(rows: int, longest: int, sequences: int, heads: int) -> bool:
    """Whether the recurrence in chunks is faster for a step of so many rows and sequences."""
    if rows < CHUNKED_MIN_TOKENS * sequences:
        return False
    chunks = (rows / 16 + sequences / 2) * heads  # half of a last chunk is empty, in the mean
    in_chunks = TWO_LAUNCHES_S + chunks * PREPARE_HEAD_S + max(longest / 16 * CHUNK_S, chunks * SCAN_HEAD_S)
    return in_chunks < max(longest * TOKEN_S, rows * heads * TOKEN_HEAD_S)


PREPARE_WARPS = 1
SCAN_WARPS = 4
SCAN_STAGES = 2


def chunk_options() -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the launch options of the plans, and of the scan."""
    return (
        {"num_warps": PREPARE_WARPS, "num_stages": 1, "enable_fp_fusion": True},
        {"num_warps": SCAN_WARPS, "num_stages": SCAN_STAGES, "enable_fp_fusion": True, **most_registers(128)},
    )


def chunk_products(dtype: torch.dtype) -> str:
    """Return how matrices of the recurrence in chunks are multiplied: beside fp16 activations with 11 bits of each
    factor, as they have, where the GPU has tf32."""
    return "tf32" if dtype == torch.float16 and not torch.version.hip else "ieee"


# Matrix products (gemm, logprobs). The weights' rows are the tile's M, the batch's rows its N.
SERIAL_PROGRAMS = 96  # from here on partial sums cost more in traffic than idle multiprocessors do
MATRIX_ROWS = 64  # rows of the weights in one instruction of Hopper's matrix unit
LEAST_STEPS = 3  # a shorter split would be all start-up cost
MOST_SPLITS = 16


@dataclass(frozen=True, slots=True)
class Plan:
    """The order of summation of a product [R, K] x [N, K], the same for every R: `block_k` elements at a time, in
    `splits` sums."""

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
    """Return how many elements of K a program loads at a time."""
    return 64 if dtype == torch.float16 else 32


def plan(n: int, k: int, dtype: torch.dtype = torch.float16) -> Plan:
    """Split K into a power of two of sums, so that a single tile of rows keeps every multiprocessor busy."""
    step = block_k(dtype)
    tiles, steps, splits = -(-n // MATRIX_ROWS), -(-k // step), 1
    while splits < MOST_SPLITS and tiles * splits < PROGRAMS and steps // (2 * splits) >= LEAST_STEPS:
        splits *= 2
    return Plan(step, splits)


def gemm_tile(n: int, rows: int, dtype: torch.dtype, *, serial: bool) -> Tile:
    """Return the tile for `n` rows of weights (of all planes) and `rows` of the batch.

    It decides which program computes an element, never the order in which the element is summed.
    """
    if dtype != torch.float16:
        return Tile(MATRIX_ROWS, 16 if rows <= 16 else 32, 4, 2)
    for block_r, stages in ((16, 8), (32, 8), (64, 6)):
        if rows <= block_r:
            return Tile(MATRIX_ROWS, block_r, 4, stages)
    if not serial and (n // 128) * (rows // 256) >= NEARLY_ALL:  # serial holds two accumulators
        return Tile(128, 256, 8, 3)
    if (n // 128) * (rows // 128) >= NEARLY_ALL:
        return Tile(128, 128, 8, 4)
    return Tile(MATRIX_ROWS, 128, 4, 4)


# Products of many rows by programs that stay (gemm_persistent). At the width of 1.5B they are faster from here on:
PERSISTENT_ROWS = 512
PERSISTENT_TILES = 96


def persistent_tile(n: int, rows: int, out: torch.dtype, splits: int) -> Tile:
    """Return the tile of one program at a time: its inputs' stages and its result must fit the shared memory, and with
    splits two accumulators the registers."""
    if splits > 1:
        return Tile(128, 128, 8, 4) if (n // 128) * (rows // 128) >= NEARLY_ALL else Tile(MATRIX_ROWS, 128, 4, 4)
    return Tile(128, 256, 8, 3) if out == torch.float16 else Tile(128, 128, 4, 4)


def logprob_tile(rows: int, dtype: torch.dtype) -> Tile:
    """Return the tile of head x hidden, whose columns are summed: only its width may vary.

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
JOINT_ROWS = 128  # up to so many rows, r, k and v are computed in the launch of the chains' first matrices
FEW_ROWS = 2048  # up to so many, the first matrices alone fill a GPU in narrow tiles only


def down_tile(rows: int, dtype: torch.dtype) -> Tile:
    """Return the tile of the first matrices, the same as `gemm_tile`'s where r, k and v are computed with them."""
    if rows <= JOINT_ROWS or dtype != torch.float16:
        return gemm_tile(MATRIX_ROWS, rows, dtype, serial=False)
    return Tile(MATRIX_ROWS, 64 if rows <= FEW_ROWS else 128, 4, 4)


def up_tile(rows: int, dtype: torch.dtype) -> tuple[int, dict[str, Any]]:
    """Return the rows of the batch in one tile of the second matrices, and the launch options. They do not affect the
    bits; four epilogues need registers."""
    if dtype != torch.float16:
        return (16 if rows <= 16 else 32), {"num_warps": 4, "num_stages": 2, "enable_fp_fusion": True}
    block = min(64, max(16, triton.next_power_of_2(rows)))
    return block, {"num_warps": 4, "num_stages": 3, "enable_fp_fusion": True}


def serial_pays(n: int, rows: int) -> bool:
    """Whether this number of rows keeps every multiprocessor busy without running the splits side by side."""
    return -(-n // MATRIX_ROWS) * -(-rows // 128) >= SERIAL_PROGRAMS


COMBINE_WARPS = 4  # logprobs: the tree over a row's tiles

# The sampler: programs of a piece of a row each, then one a row. None of these may depend on the batch.
SAMPLER_LANE = 32  # neighbouring tokens that are summed up together
SAMPLER_PIECE = 4096  # logits of one program
SAMPLER_PIECE_WARPS = 4
SAMPLER_WARPS = 8
SAMPLER_CANDIDATES = 2048  # held in registers
SAMPLER_SHORT = 256  # costs, biases, spared tokens, stops read at a time
SAMPLER_SIZES = {"BLOCK": SAMPLER_CANDIDATES, "WIDE": 4096, "SHORT": SAMPLER_SHORT}  # WIDE: logits in one scan
ROWS_BLOCK = 32  # rows of a program that begins a decode step


def sampler_lanes(vocabulary: int) -> int:
    """Return the number of lanes, those beyond the vocabulary included: a power of two, one or more a thread."""
    return max(32 * SAMPLER_WARPS, 1 << (-(-vocabulary // SAMPLER_LANE) - 1).bit_length())


def sampler_piece(vocabulary: int) -> int:
    """Return the number of logits of one program."""
    return min(SAMPLER_PIECE, sampler_lanes(vocabulary) * SAMPLER_LANE)


# The sparse value product: 256 rows of the weight at a time and 128 bytes of each, three such tiles in flight.
SPARSE_SPLITS = 8  # 16 and 32 are slower: the next kernel has as many parts to add
SPARSE_F = 256
SPARSE_FOLD = 32
SPARSE_STAGES = 4
SPARSE_D = 64
SPARSE_WARPS = 8
