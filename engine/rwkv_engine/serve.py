"""Put an engine together and serve it until a signal says stop."""

import asyncio
import contextlib
import os
import signal
import socket
import time
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

import torch

from rwkv_engine.core import Engine
from rwkv_engine.errors import VocabularyError
from rwkv_engine.gauges import Liveness
from rwkv_engine.model import Model
from rwkv_engine.requests import Compiler
from rwkv_engine.runner import Runner
from rwkv_engine.scheduler import Limits, Scheduler
from rwkv_engine.server import Service
from rwkv_engine.state_pool import StatePool
from rwkv_engine.tokenizer import for_vocabulary
from rwkv_kernels import arithmetic
from rwkv_weights import checkpoint
from rwkv_weights.schema import Dims
from rwkvctl.httpd import Server, SocketInUseError, bind_unix
from rwkvctl.protocol.engine import EngineHealth

NO_SERVICE, DOES_NOT_LOAD = 1, 3
POOL_BYTES = 256 << 20  # of states by default: what still fits a CPU's outer caches for small models


class ServeError(Exception):
    """The engine cannot serve; `checkpoint` says that the checkpoint is why."""

    def __init__(self, sentence: str, *, checkpoint: bool = False) -> None:
        super().__init__(sentence)
        self.checkpoint = checkpoint


@dataclass(frozen=True, slots=True)
class Options:
    """The flags of `serve`; 0 slots or queue leaves the choice to the engine."""

    model: Path
    socket: Path
    numerics: arithmetic.Numerics = "fp32"
    device: str = "cpu"
    slots: int = 0
    queue: int = 0
    threads: int = 1
    weights_sha256: str = ""
    attempt: str = ""
    liveness: Path | None = None


def serve(options: Options) -> None:
    """Load, then serve until SIGTERM or SIGINT. Raises ServeError."""
    if options.device != "cpu":
        raise ServeError(f"this build of the engine runs on cpu only, not on {options.device}")
    torch.set_num_threads(options.threads)
    service = load(options)
    try:
        listener = bind_unix(options.socket)
    except (OSError, SocketInUseError) as error:
        raise ServeError(f"cannot listen on {options.socket}: {error}") from error
    try:
        whole = asyncio.run(_serve(service, listener))
    finally:
        options.socket.unlink(missing_ok=True)
    if not whole:
        raise ServeError("the engine's thread ended by an error; see the log above")


def load(options: Options) -> Service:
    """Everything but the socket. Raises ServeError for a checkpoint that does not load."""
    began_s = time.monotonic()
    try:
        found = checkpoint.load(options.model)
        tokenizer = for_vocabulary(found.dims.vocabulary)
    except (checkpoint.CheckpointError, VocabularyError) as error:
        raise ServeError(str(error), checkpoint=True) from error
    dims = found.dims
    model = Model.of(found, options.numerics)
    limits = limits_for(dims, options.slots)
    pool = StatePool.allocate(dims, limits.slots)
    queue = options.queue or max(1024, 16 * limits.slots)
    engine = Engine(Scheduler(limits, pool, time.monotonic), Runner(model, pool), queue, Liveness(options.liveness))
    notes = (f"loaded in {time.monotonic() - began_s:.2f} s",)
    return Service(engine, Compiler(tokenizer), health_of(options, dims), notes)


def limits_for(dims: Dims, slots: int) -> Limits:
    """Many slots for small models, so that a step's overhead is shared; 16 fill a GEMM tile of a large one."""
    fitting = POOL_BYTES // dims.state_bytes
    chosen = slots if slots > 0 else max(16, min(64, fitting // 16 * 16))
    return Limits(chosen, prefill_tokens=2048 if dims.width <= 256 else 256)


def health_of(options: Options, dims: Dims) -> EngineHealth:
    """What this process answers about itself."""
    return EngineHealth(
        ok=True,
        model=options.model.stem,
        weights_sha256=options.weights_sha256,
        numerics=options.numerics,
        device=options.device,
        attempt=options.attempt,
        engine_version=version(),
        torch_version=str(torch.__version__),
        vocabulary=dims.vocabulary,
        pid=os.getpid(),
    )


def version() -> str:
    """The installed distribution's version; empty where the engine runs from a bare path."""
    with contextlib.suppress(metadata.PackageNotFoundError):
        return metadata.version("rwkvctl")
    return ""


async def _serve(service: Service, listener: socket.socket) -> bool:
    """Serve until a signal comes or the engine's thread ends; False in the second case."""
    loop, stop, died = asyncio.get_running_loop(), asyncio.Event(), asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)

    def ended() -> None:
        died.set()
        stop.set()

    def ended_elsewhere() -> None:
        loop.call_soon_threadsafe(ended)

    service.engine.start(ended_elsewhere)
    server = Server(service.handle)
    listening = await server.start(listener)
    await stop.wait()
    whole = not died.is_set()
    listening.close()
    await server.close()
    await asyncio.to_thread(service.engine.stop)
    return whole
