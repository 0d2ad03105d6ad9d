"""Place a model, its slots and its caches in the free memory of a GPU."""

import gc
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from rwkv_engine.errors import OutOfMemory
from rwkv_engine.gpu import memory_plan
from rwkv_engine.gpu.decode import Decode
from rwkv_engine.gpu.memory_plan import MemoryPlan
from rwkv_engine.gpu.model import GpuModel
from rwkv_engine.gpu.pool import GpuPool
from rwkv_engine.gpu.prefill import Prefill
from rwkv_engine.gpu.runner import GpuRunner
from rwkv_engine.gpu.warm_up import warm_up
from rwkv_engine.gpu.workspace import Workspace
from rwkv_engine.scheduling.scheduler import Limits
from rwkv_kernels.draw import MAX_BIASES, MAX_SPARED, MAX_STOPS
from rwkv_kernels.gpu.slot_draws import SlotDraws
from rwkv_weights.formats import index
from rwkv_weights.formats.load import Checkpoint
from rwkv_weights.formats.tensor_stream import Tensors
from rwkvctl.protocol.numerics import PROFILES, Numerics

FREE_SHARE = 0.95  # of the free memory that the driver reports, which is slightly too high
RETRIES = 4
RETRY_SHARE = 0.85
LEDGER = 8192  # generated tokens a slot's penalties remember; a longer sample's newest ones go unpenalised
HOST_SHARE = 0.25  # of the host's free memory, for spilled states


@dataclass(frozen=True, slots=True)
class AssembledEngine:
    """A runner that is ready to launch, its limits, and notes on what was chosen."""

    runner: GpuRunner
    limits: Limits
    notes: tuple[str, ...]


def assemble(
    checkpoint: Checkpoint, numerics: Numerics, device: torch.device, *, slots: int = 0, lease_bytes: int = 0
) -> AssembledEngine:
    """Load the weights and fit everything else beside them: in `lease_bytes` if given, else in the free memory.

    Raises OutOfMemory, which says how much memory is needed."""
    available = lease_bytes or free_bytes(device)
    memory_plan.plan(
        checkpoint.dims, *types_of(numerics), available, ledger=LEDGER, slots=slots
    )  # before reading gigabytes
    with Tensors(index.read(checkpoint.path), device) as tensors:  # read through pinned buffers, not mapped
        model = GpuModel.of(replace(checkpoint, tensors=tensors), numerics, device)
    for attempt in range(RETRIES + 1):
        plan = memory_plan.plan(checkpoint.dims, *types_of(numerics), available, ledger=LEDGER, slots=slots)
        try:
            return fill(model, plan)
        except OutOfMemory:
            if attempt == RETRIES:
                raise
        gc.collect()
        torch.cuda.empty_cache()
        available = int(available * RETRY_SHARE)
    raise AssertionError("unreachable")


def fill(model: GpuModel, plan: MemoryPlan, *, graphs: bool = True) -> AssembledEngine:
    """Allocate everything beside the weights, by a plan. Raises OutOfMemory."""
    gc.collect()  # an unused engine keeps its memory until then, because its graphs and buffers refer to each other
    with (
        torch.cuda.device(model.device) if model.device.type == "cuda" else nullcontext()
    ):  # kernels are launched there
        return _fill(model, plan, graphs=graphs)


def _fill(model: GpuModel, plan: MemoryPlan, *, graphs: bool) -> AssembledEngine:
    pool = GpuPool.allocate(model.dims, plan.slots, model.device, model.state_dtype)
    space = Workspace.allocate(model.dims, max(plan.prefill_tokens, plan.slots), model.dtype, model.device)
    try:
        draws = SlotDraws.allocate(
            plan.slots + 1, model.device, model.dims.vocabulary, LEDGER,
            bias_capacity=MAX_BIASES, spared_capacity=MAX_SPARED, stop_capacity=MAX_STOPS,
        )  # fmt: skip
        decode = Decode(model, pool, space, draws, plan.slots)
        prefill = Prefill(model, pool, space)
        if graphs and model.device.type == "cuda":
            decode.capture()
            warm_up(prefill, plan.prefill_tokens)
            prefill.capture(plan.prefill_tokens)
    except torch.OutOfMemoryError as error:
        raise OutOfMemory(str(error)) from error
    host_bytes = int(free_host_bytes() * HOST_SHARE) if model.device.type == "cuda" else 0
    limits = Limits(
        plan.slots,
        plan.prefill_tokens,
        cache_bytes=plan.cache_bytes // 3,
        kept_bytes=plan.cache_bytes // 3,  # the last third is for the states of forks, and for scoring
        host_bytes=host_bytes // 2,
    )
    return AssembledEngine(GpuRunner(model, pool, draws, decode, prefill), limits, (str(plan),))


def types_of(numerics: Numerics) -> tuple[torch.dtype, torch.dtype]:
    """Return the dtypes of weights and of states in a profile."""
    profile = PROFILES[numerics]
    return (
        torch.float16 if profile.half_weights else torch.float32,
        torch.float16 if profile.half_state else torch.float32,
    )


def free_bytes(device: torch.device) -> int:
    """Return how many bytes of the device's memory may be used."""
    free = torch.cuda.mem_get_info(device)[0] if device.type == "cuda" else free_host_bytes() // 4
    return int(free * FREE_SHARE)


def free_host_bytes() -> int:
    """Return how many bytes of host memory programs may still use, by the kernel's account."""
    with Path("/proc/meminfo").open() as file:
        return next(int(line.split()[1]) << 10 for line in file if line.startswith("MemAvailable"))
