"""The plan of a GPU's memory: weights, pool of states, workspace, saved states. Pure arithmetic."""

from dataclasses import dataclass

import torch

from rwkv_engine.errors import OutOfMemory
from rwkv_engine.gpu.prefill_shapes import captured_shapes
from rwkv_engine.gpu.workspace import parts_elements, row_bytes
from rwkv_kernels.gpu import wkv7_chunked
from rwkv_kernels.gpu.launch_config import CHUNKED_MIN_TOKENS
from rwkv_kernels.gpu.slot_draws import sampler_bytes
from rwkv_weights.formats.schema import HEAD_SIZE, Dims

GIB = 1 << 30
BUCKETS = (1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024)
PREFILL_TOKENS = (8192, 4096, 2048, 1024, 512, 256, 64)
RUNTIME_BYTES = GIB  # context, kernels, graphs, and the rounding of the allocator
POOL_SHARE = 0.5  # of the memory beside weights and workspace: the rest holds prefixes and kept samples
LEDGER_BYTES = 12  # an id and its cost, and a little for the other fields of a slot


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """Sizes in bytes, except for `slots` and `prefill_tokens`."""

    slots: int
    prefill_tokens: int
    weights_bytes: int
    pool_bytes: int
    workspace_bytes: int
    cache_bytes: int

    def __str__(self) -> str:
        parts = (("weights", self.weights_bytes), (f"{self.slots} slots", self.pool_bytes),
                 (f"steps of {self.prefill_tokens} tokens", self.workspace_bytes),
                 ("cached states", self.cache_bytes))  # fmt: skip
        return "memory: " + ", ".join(f"{name} {size / GIB:.2f} GiB" for name, size in parts)


def weights_bytes(dims: Dims, dtype: torch.dtype) -> int:
    """Return the bytes of the weights: matrices in the profile's type, the embedding in 16 bits, vectors in fp32."""
    d, ranks = dims.width, sum(dims.ranks)
    layer = 4 * d * d + 2 * d * dims.hidden + 2 * d * ranks
    return dtype.itemsize * (dims.layers * layer + dims.vocabulary * d) + 2 * dims.vocabulary * d + 80 * dims.layers * d


def slot_bytes(dims: Dims, state: torch.dtype, ledger: int) -> int:
    """Return the bytes of one slot: state, token shifts, hidden vector, a penalty ledger of `ledger` tokens, and the
    sampler's workspace."""
    wkv = state.itemsize * dims.layers * dims.width * HEAD_SIZE
    return wkv + 4 * (2 * dims.layers + 1) * dims.width + LEDGER_BYTES * ledger + sampler_bytes(dims.vocabulary)


def step_bytes(dims: Dims, dtype: torch.dtype, rows: int, draws: int) -> int:
    """Return the bytes of the workspace of steps of up to `rows` rows, with chunked WKV (and that of graphs, which keep
    theirs), and of `draws` rows of logits."""
    chunked = [shape for shape in captured_shapes(rows, dims.heads, may_chunk=True) if shape.in_chunks]
    return (
        wkv7_chunked.room(rows, rows // CHUNKED_MIN_TOKENS, dims.heads, dtype)
        + max((wkv7_chunked.room(shape.rows, shape.sequences, dims.heads, dtype) for shape in chunked), default=0)
        + rows * row_bytes(dims, dtype)
        + 4 * parts_elements(dims, rows, dtype)
        + 4 * draws * dims.vocabulary
    )


def plan(
    dims: Dims, dtype: torch.dtype, state: torch.dtype, available: int, *, ledger: int, slots: int = 0
) -> MemoryPlan:
    """Fit a model into `available` bytes, with `slots` slots if given, else as many as are useful.

    Raises OutOfMemory, which says how much memory is needed."""
    fixed = weights_bytes(dims, dtype) + RUNTIME_BYTES
    each = slot_bytes(dims, state, ledger)
    candidates = [slots] if slots else list(reversed(BUCKETS))
    for count in candidates:
        for tokens in PREFILL_TOKENS:
            step = step_bytes(dims, dtype, max(tokens, count), count)
            left = available - fixed - step
            pool = (count + 1) * each
            if pool <= left * (1.0 if count == candidates[-1] else POOL_SHARE):
                return MemoryPlan(count, tokens, fixed - RUNTIME_BYTES, pool, step, left - pool)
    least = (
        fixed
        + step_bytes(dims, dtype, max(PREFILL_TOKENS[-1], candidates[-1]), candidates[-1])
        + (candidates[-1] + 1) * each
    )
    need, have = least / GIB, available / GIB
    raise OutOfMemory(
        f"this model needs at least {need:.1f} GiB for {candidates[-1]} slots, and {have:.1f} GiB are free"
    )


def buckets(slots: int) -> list[int]:
    """Return the batch sizes for which a decode step is captured; the largest has all slots."""
    return [*(bucket for bucket in BUCKETS if bucket < slots), slots]
