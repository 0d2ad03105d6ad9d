"""Put an engine together and serve it until a signal says stop."""

import asyncio
import contextlib
import faulthandler
import os
import signal
import socket
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import metadata
from pathlib import Path

import torch

from rwkv_engine.build import engine_parts
from rwkv_engine.errors import OutOfMemory, VocabularyError
from rwkv_engine.scheduling.engine_loop import Engine
from rwkv_engine.scheduling.scheduler import Scheduler
from rwkv_engine.serving.compile_requests import Compiler
from rwkv_engine.serving.gauges import Liveness
from rwkv_engine.serving.idle_exit import UNLOADED, IdleWatch
from rwkv_engine.serving.routes import Service
from rwkv_engine.serving.tcp_address import ListenError, address_message, key_in, listen_tcp
from rwkv_engine.tokenizer import for_vocabulary
from rwkv_weights.formats import load as checkpoint
from rwkv_weights.formats.schema import Dims
from rwkv_weights.local import inventory
from rwkv_weights.local.checkpoint_files import allow_only, check_unchanged
from rwkvctl.http.listeners import SocketInUseError, bind_unix
from rwkvctl.http.server import Server
from rwkvctl.protocol.engine import EngineHealth
from rwkvctl.protocol.numerics import Numerics

NO_SERVICE, DOES_NOT_LOAD, OUT_OF_MEMORY = 1, 3, 4
SWITCH_S = (
    0.0005  # the engine's thread must not wait for the server's after each step; the default is ten times as long
)
REQUESTS_AT_ONCE = 128  # at least: clients that send one prompt a request must be able to fill every slot


class ServeError(Exception):
    """The engine cannot serve; `code` is what the process exits with."""

    def __init__(self, sentence: str, code: int = NO_SERVICE) -> None:
        super().__init__(sentence)
        self.code = code


@dataclass(frozen=True, slots=True)
class ServeOptions:
    """The flags of `serve`; 0 slots, queue or memory leaves the choice to the engine, as does an empty device or
    profile. Without a `daemon_lock` it serves until it is told to stop."""

    model: Path
    socket: Path | None = None
    host: str = "127.0.0.1"
    port: int | None = None
    api_key_file: Path | None = None
    name: str = ""
    numerics: Numerics | None = None
    device: str = ""
    memory_bytes: int = 0
    slots: int = 0
    queue: int = 0
    threads: int = 1
    weights_sha256: str = ""
    inodes: str = ""
    attempt: str = ""
    liveness: Path | None = None
    daemon_lock: Path | None = None
    idle_unload_s: float = 600.0


def serve(options: ServeOptions) -> int:
    """Load, then serve. Returns 0 after SIGTERM or SIGINT, UNLOADED once the engine is not needed any more. Raises
    ServeError."""
    faulthandler.register(signal.SIGUSR1)  # a supervisor asks for the stack traces of an engine that hangs
    watch = None
    if options.daemon_lock is not None:
        watch = IdleWatch(options.daemon_lock, options.liveness, options.idle_unload_s)
        watch.start()
    torch.set_num_threads(options.threads)
    try:
        api_key = key_in(options.api_key_file) if options.api_key_file else ""
        tcp = [listen_tcp(options.host, options.port, api_key)] if options.port is not None else []
        service, code = load(options, api_key), 0
    except ListenError as error:
        raise ServeError(str(error)) from error
    except OSError as error:
        raise ServeError(f"cannot start: {error}") from error
    with contextlib.suppress(KeyboardInterrupt):  # also as soon as the socket shows, before the loop has its handlers
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        with bound(options.socket) as listeners:
            code = asyncio.run(_serve(service, [*tcp, *listeners], watch))
    if code == NO_SERVICE:
        raise ServeError("the engine's thread ended with an error; see the log above")
    return code


@contextlib.contextmanager
def bound(path: Path | None) -> Iterator[list[socket.socket]]:
    """Yield a listener on a Unix socket, which is removed afterwards; none without a path. Raises ServeError."""
    try:
        listeners = [bind_unix(path)] if path else []
    except (OSError, SocketInUseError) as error:
        raise ServeError(f"cannot listen on {path}: {error}") from error
    try:
        yield listeners
    finally:
        if path:
            path.unlink(missing_ok=True)


def load(options: ServeOptions, api_key: str = "") -> Service:
    """Return the service, ready but for its sockets. Raises ServeError for a checkpoint that does not load."""
    began_s = time.monotonic()
    device = device_of(options.device)
    numerics = options.numerics or default_numerics(device)
    if device.type == "cuda" and options.memory_bytes:
        keep_within(device, options.memory_bytes)
    allow_only(filter(None, options.inodes.split(",")))
    try:
        found = checkpoint.load(options.model)
        tokenizer = for_vocabulary(found.dims.vocabulary)
        made = engine_parts(found, numerics, device, slots=options.slots, lease_bytes=options.memory_bytes)
        check_unchanged()
    except OSError as error:
        raise ServeError(f"{options.model.name}: {error.strerror or error}", DOES_NOT_LOAD) from error
    except (checkpoint.CheckpointError, VocabularyError) as error:
        raise ServeError(str(error), DOES_NOT_LOAD) from error
    except (OutOfMemory, torch.OutOfMemoryError) as error:
        raise ServeError(f"{options.model.name} does not fit {device}: {error}", OUT_OF_MEMORY) from error
    if device.type == "cuda":
        sys.setswitchinterval(SWITCH_S)
    queue = options.queue or max(1024, 16 * made.limits.slots)
    scheduler = Scheduler(made.limits, made.states, time.monotonic)
    engine = Engine(scheduler, made.runner, queue, Liveness(options.liveness))
    notes = (f"loaded in {time.monotonic() - began_s:.2f} s", *made.notes)
    health = health_of(options, found.dims, numerics, device)
    return Service(engine, Compiler(tokenizer), health, notes, api_key)


def default_numerics(device: torch.device) -> Numerics:
    """Return the profile in which a device runs by default."""
    return "fp32" if device.type == "cpu" else "fast"


def device_of(name: str) -> torch.device:
    """Return the device of that name, or the best there is; a GPU with its number, without which torch does not select
    it. Raises ServeError."""
    if not name:
        return torch.device("cuda", 0) if torch.cuda.is_available() else torch.device("cpu")
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise ServeError(f"{name!r} is not a device; give cpu, cuda or cuda:N") from error
    if device.type not in {"cpu", "cuda"}:
        raise ServeError(f"this engine runs on cpu and cuda, not on {device.type}")
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise ServeError(f"there is no {device}: torch {torch.__version__} sees {torch.cuda.device_count()} GPUs here")
    return torch.device("cuda", device.index or 0) if device.type == "cuda" else device


def keep_within(device: torch.device, memory_bytes: int) -> None:
    """Limit this process to so many bytes of the GPU's memory; on a shared GPU the rest belongs to others."""
    total = torch.cuda.get_device_properties(device).total_memory
    torch.cuda.set_per_process_memory_fraction(min(1.0, memory_bytes / total), device)


def device_id(device: torch.device) -> str:
    """Return the UUID of a GPU as NVML spells it, which its supervisor compares with the lease."""
    if device.type != "cuda":
        return ""
    found = str(torch.cuda.get_device_properties(device).uuid)
    return found if found.startswith(("GPU-", "MIG-")) else f"GPU-{found}"


def health_of(options: ServeOptions, dims: Dims, numerics: Numerics, device: torch.device) -> EngineHealth:
    """Return the health document of this process: model, device, profile and versions."""
    return EngineHealth(
        ok=True,
        model=options.name or inventory.at(options.model).name.text,
        weights_sha256=options.weights_sha256,
        numerics=numerics,
        device=torch.cuda.get_device_name(device) if device.type == "cuda" else str(device),
        attempt=options.attempt,
        engine_version=version(),
        torch_version=str(torch.__version__),
        vocabulary=dims.vocabulary,
        pid=os.getpid(),
        device_id=device_id(device),
    )


def version() -> str:
    """Return the version of the installed distribution; empty where the engine runs from a bare path."""
    with contextlib.suppress(metadata.PackageNotFoundError):
        return metadata.version("rwkvctl")
    return ""


async def _serve(service: Service, listeners: Sequence[socket.socket], watch: IdleWatch | None) -> int:
    """Serve until a signal comes (0), the engine's thread ends (NO_SERVICE) or it is not needed (UNLOADED)."""
    loop, ended = asyncio.get_running_loop(), asyncio.Queue[int]()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ended.put_nowait, 0)

    def end(code: int) -> None:
        """End the service with this exit code; may be called from any thread."""
        loop.call_soon_threadsafe(ended.put_nowait, code)

    service.engine.start(partial(end, NO_SERVICE))
    if watch is not None:
        watch.busy, watch.end = HadWork(service.engine), partial(end, UNLOADED)
    at_once = max(REQUESTS_AT_ONCE, service.engine.queue_limit)
    server = Server(service.handle, at_once=at_once, admit=service.openai.refused)
    listening = [await server.start(listener) for listener in listeners]
    for listener in listeners:
        if listener.family != socket.AF_UNIX:
            sys.stderr.write(address_message(listener, service.health.model, keyed=bool(service.api_key)))
    code = await ended.get()
    for accepting in listening:
        accepting.close()
    await server.close()
    await asyncio.to_thread(service.engine.stop)
    return code


@dataclass(slots=True)
class HadWork:
    """Whether an engine has work, or had some since the last call."""

    engine: Engine
    steps: int = 0

    def __call__(self) -> bool:
        before, self.steps = self.steps, self.engine.steps
        return before != self.steps or self.engine.busy
