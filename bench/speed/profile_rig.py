"""One model on a device in several profiles that share weights, states and memory, so that they can be timed in
turn."""

import gc
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import torch

from rwkv_engine.errors import OutOfMemory
from rwkv_engine.gpu.assemble import LEDGER, types_of
from rwkv_engine.gpu.decode import Decode
from rwkv_engine.gpu.graphs import Graphs
from rwkv_engine.gpu.model import GpuModel
from rwkv_engine.gpu.pool import GpuPool
from rwkv_engine.gpu.prefill import Prefill
from rwkv_engine.gpu.products import Products
from rwkv_engine.gpu.runner import GpuRunner
from rwkv_engine.gpu.workspace import Workspace
from rwkv_engine.serving.compile_requests import Compiler
from rwkv_engine.tokenizer import for_vocabulary
from rwkv_kernels.draw import MAX_BIASES, MAX_SPARED, MAX_STOPS
from rwkv_kernels.gpu.slot_draws import SlotDraws
from rwkv_weights.formats.load import Checkpoint
from rwkv_weights.formats.schema import Dims
from rwkvctl.protocol.numerics import PROFILES, Numerics

HALVES: tuple[Numerics, ...] = ("fast", "exact", "fast-fp16-state", "exact-fp16-state")  # they share their weights


@dataclass(frozen=True, slots=True)
class MeasuredModel:
    """The model to measure on one device, in numerics profiles that share its weights."""

    dims: Dims
    models: Mapping[Numerics, GpuModel]
    compiler: Compiler

    @classmethod
    def of(cls, found: Checkpoint, profiles: Sequence[Numerics], device: torch.device) -> "MeasuredModel":
        first = GpuModel.of(found, profiles[0], device)
        models = {
            name: replace(first, profile=PROFILES[name], products=Products(PROFILES[name].exact)) for name in profiles
        }
        return cls(found.dims, models, Compiler(for_vocabulary(found.dims.vocabulary)))

    @property
    def device(self) -> torch.device:
        return next(iter(self.models.values())).device


@dataclass(frozen=True, slots=True)
class ProfileRig:
    """A profile that is ready to run: the engine's `runner`, with graphs captured for the measured batches; `bare` are
    the graphs of the same steps without the sampler."""

    runner: GpuRunner
    bare: Graphs[int]


def rigs(subject: MeasuredModel, batches: Sequence[int], rows: int) -> dict[Numerics, ProfileRig]:
    """Return a rig for each profile, for steps of up to `rows` rows. Raises OutOfMemory."""
    try:
        return _rigs(subject, batches, max(rows, *batches))
    except torch.OutOfMemoryError as error:
        raise OutOfMemory(str(error)) from error


def _rigs(subject: MeasuredModel, batches: Sequence[int], rows: int) -> dict[Numerics, ProfileRig]:
    device, slots = subject.device, max(batches)
    pools = {state: GpuPool.allocate(subject.dims, slots, device, state) for state in _states(subject)}
    space = Workspace.allocate(subject.dims, rows, torch.float16, device)
    draws = SlotDraws.allocate(
        slots + 1, device, subject.dims.vocabulary, LEDGER,
        bias_capacity=MAX_BIASES, spared_capacity=MAX_SPARED, stop_capacity=MAX_STOPS,
    )  # fmt: skip
    made = {}
    for name, model in subject.models.items():
        decode = Decode(model, pools[model.state_dtype], space, draws, slots)
        bare = Graphs(_without_sampler(decode), device)
        prefill = Prefill(model, decode.pool, space)
        largest_first = sorted(batches, reverse=True)
        with torch.inference_mode():
            decode.graphs.capture(largest_first)
            bare.capture(largest_first)
        prefill.capture(rows if device.type == "cuda" else 0)
        made[name] = ProfileRig(GpuRunner(model, decode.pool, draws, decode, prefill), bare)
    return made


def _states(subject: MeasuredModel) -> set[torch.dtype]:
    return {types_of(name)[1] for name in subject.models}


def _without_sampler(decode: Decode) -> Callable[[int], None]:
    def step(batch: int) -> None:
        decode.step(range(batch), keep_logits=True)

    return step


def forget() -> None:
    """Free the device memory that is not used any more."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
