"""Build the parts of an engine from a checkpoint: a runner, the states of its slots, and its limits."""

from dataclasses import dataclass

import torch

from rwkv_engine.cpu.model import Model
from rwkv_engine.cpu.runner import Runner
from rwkv_engine.cpu.state_pool import StatePool
from rwkv_engine.scheduling.engine_loop import StepRunner
from rwkv_engine.scheduling.scheduler import Limits
from rwkv_engine.scheduling.snapshots import States
from rwkv_weights.formats.load import Checkpoint
from rwkv_weights.formats.schema import Dims
from rwkvctl.protocol.numerics import Numerics

POOL_BYTES = 256 << 20  # of states by default: small models' states then fit a CPU's outer caches


@dataclass(frozen=True, slots=True)
class EngineParts:
    """Runner, slot states and limits of an engine; each of `notes` is a line about what was chosen."""

    runner: StepRunner
    states: States
    limits: Limits
    notes: tuple[str, ...] = ()


def engine_parts(
    checkpoint: Checkpoint, numerics: Numerics, device: torch.device, *, slots: int = 0, lease_bytes: int = 0
) -> EngineParts:
    """Load a validated checkpoint and size everything beside it. Raises OutOfMemory if it does not fit."""
    if device.type == "cpu":
        model, limits = Model.of(checkpoint, numerics), limits_for(checkpoint.dims, slots)
        pool = StatePool.allocate(checkpoint.dims, limits.slots)
        return EngineParts(Runner(model, pool), pool, limits)
    from rwkv_engine.gpu.assemble import assemble  # triton is imported on machines with a GPU only

    torch.cuda.set_device(device)
    made = assemble(checkpoint, numerics, device, slots=slots, lease_bytes=lease_bytes)
    return EngineParts(made.runner, made.runner.pool, made.limits, made.notes)


def limits_for(dims: Dims, slots: int) -> Limits:
    """Return the limits on a CPU: many slots share the overhead of a small model's step, 16 fill a large one's GEMM
    tile."""
    fitting = POOL_BYTES // dims.state_bytes
    chosen = slots if slots > 0 else max(16, min(64, fitting // 16 * 16))
    return Limits(chosen, prefill_tokens=2048 if dims.width <= 256 else 256)
