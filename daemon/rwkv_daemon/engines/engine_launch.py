"""Starting an engine: its lease is stored first, then its GPU is sampled once more, then its process starts.

Between the sample that placement decided on and the start, another user's process may have come to the GPU. So the
start waits for a sample made after the lease was stored, and is cancelled if that does not show the GPU free.
"""

import asyncio
import os
import pwd
import time
import uuid as uuids
from dataclasses import astuple
from pathlib import Path

from rwkv_daemon.changes.records import Records
from rwkv_daemon.engines.engine_processes import engine_gone, push_back, tell
from rwkv_daemon.gpus.known_gpus import Gpus
from rwkv_daemon.rules import memory_fit
from rwkv_daemon.rules.placement import EngineKind, StartEngine
from rwkv_daemon.scheduling import lease_memory, leases
from rwkv_daemon.scheduling.lease_memory import Launching
from rwkv_daemon.scheduling.live_engines import EngineHandle, Engines
from rwkv_daemon.store import EngineRow
from rwkv_daemon.store.queries.engines import add_engine, engine_in, update_engine
from rwkv_daemon.store.queries.jobs import sha256_of
from rwkv_daemon.store.queries.leases import take_lease
from rwkv_daemon.workers import worker_process
from rwkv_daemon.workers.cgroups import CgroupLimits
from rwkv_daemon.workers.crash_points import crash_point
from rwkv_daemon.workers.worker_process import LockHeldError, NotStartedError
from rwkv_weights.local import inventory
from rwkv_weights.local.checkpoint_files import FileIdentity, together
from rwkvctl.settings import config
from rwkvctl.settings.fields import Settings
from rwkvctl.settings.module_command import module_command

NO_LOOK_S = 10.0
"""Longer than the sampler's deadline: if a GPU was not sampled for so long, no engine is started on it."""


async def reserve(records: Records, engines: Engines, command: StartEngine, model: str, weights_path: str) -> None:
    """Store an engine and its lease in one transaction. No process exists yet."""
    values = {
        "uuid": str(uuids.uuid4()), "model": model, "weights_path": weights_path, "lease": command.lease, "socket": "",
        "weights_sha256": command.serves.weights, "numerics": command.serves.numerics,
    }  # fmt: skip
    async with records.change() as change:
        number = await add_engine(change.db, values)
        await take_lease(change.db, command.lease, command.slots, number)
        await update_engine(change.db, number, socket=str(records.config.socket.parent / f"e{number}.sock"))
        row = await engine_in(change.db, number)
        await tell(engines, change, row, "starting", f"starts on {leases.label(engines.leases, command.lease)}")
        crash_point("before-lease-commit")
    crash_point("after-lease-commit")
    engines.leasing.launching[number] = Launching(row, command.slots, time.monotonic())


async def launch_reserved(records: Records, engines: Engines, gpus: Gpus) -> None:
    """Start the engines whose GPUs were found free since; cancel those whose GPUs are not free."""
    for number, launching in list(engines.leasing.launching.items()):
        against = why_not(records, gpus, launching)
        if against is None:
            continue
        if against:
            where = leases.label(engines.leases, launching.row.lease)
            await engine_gone(
                records, engines, gpus, launching.row, f"it was not started on {where}: {against}", failed=False
            )
        else:
            await launch(records, engines, gpus, launching)
        engines.leasing.launching.pop(number)


def why_not(records: Records, gpus: Gpus, launching: Launching) -> str | None:
    """Return why an engine is not to be started, empty if it is; None while its GPU has not been sampled since."""
    lease, settings = launching.row.lease, records.config.settings
    if not leases.is_gpu(lease):
        return ""
    if gpus.watch_state.seen_at < launching.since + lease_memory.FRESH_S:
        late = time.monotonic() - launching.since > settings.sampler_deadline_s + NO_LOOK_S
        return "the GPU was not sampled since" if late else None
    return lease_memory.last_look(gpus.by_id.get(lease), shared=settings.share_gpus > 1)


async def launch(records: Records, engines: Engines, gpus: Gpus, launching: Launching) -> None:
    """Start the process behind its shim, which takes the lock; another process may hold that."""
    row = launching.row
    try:
        inodes = await weights_now(records, row)
        worker = await asyncio.to_thread(worker_process.start, launch_of(records, engines, launching, inodes))
    except LockHeldError:
        locks, share = locks_of(records, launching)
        who = holder(leases.lock_holder((*locks, *([share] if share else []))))
        engines.leasing.lock_out(row.lease, who)
        await engine_gone(
            records, engines, gpus, row, f"{leases.label(engines.leases, row.lease)} is leased by {who}", failed=False
        )
        return
    except (NotStartedError, OSError) as error:
        push_back(records, engines, EngineKind(row.weights_sha256, row.numerics))
        await engine_gone(records, engines, gpus, row, f"it could not be started: {error}", failed=True)
        return
    crash_point("after-engine-started")
    engines.live[row.id] = EngineHandle(row, worker)
    records.wake.set()


def holder(pid: int | None) -> str:
    """Return who holds a lease that is not ours, for the operator."""
    if pid is None:
        return "another daemon of this machine"
    try:
        user = pwd.getpwuid(os.stat(f"/proc/{pid}").st_uid).pw_name  # noqa: PTH116 - a folder of the kernel
    except (OSError, KeyError):
        user = "another user"
    return f"another daemon's engine (pid {pid}, {user})"


async def weights_now(records: Records, row: EngineRow) -> str:
    """Return the files of an engine's weights, as its command line names them. They are checked to have the hash that
    the engine is to serve; a link that is changed later leads to no other file. Raises NotStartedError, OSError."""
    files = inventory.at(Path(row.weights_path)).files
    each = [FileIdentity.of(file) for file in files]
    sha256, _ = await sha256_of(records.store, astuple(together(files, each)))
    if sha256 != row.weights_sha256:
        raise NotStartedError("its file was replaced" if sha256 else "its file has changed, and is hashed again")
    return ",".join(f"{one.device % 2**64}:{one.inode % 2**64}:{one.changed_ns}" for one in each)  # as stat has them


def launch_of(records: Records, engines: Engines, launching: Launching, inodes: str) -> worker_process.Launch:
    """Return the engine's command line, which holds everything it needs: no setting of the daemon reaches it
    otherwise."""
    row, settings = launching.row, records.config.settings
    folder = records.engine_folder(row.id)
    folder.mkdir(parents=True, exist_ok=True)
    argv = [
        *module_command("rwkv_engine", "serve"), row.weights_path, "--socket", row.socket,
        "--numerics", row.numerics, "--device", device_of(row.lease),
        "--attempt", row.uuid, "--weights-sha256", row.weights_sha256, "--inodes", inodes,
        "--liveness", str(folder / "live"),
        "--daemon-lock", str(records.config.daemon_lock), "--idle-unload-s", str(settings.idle_unload_s),
        *sizes(records, engines, launching),
    ]  # fmt: skip
    threads, environment = computing(settings, device_of(row.lease))
    argv += threads
    if device_of(row.lease) != "cpu":
        environment |= {"CUDA_VISIBLE_DEVICES": row.lease, "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    locks, share = locks_of(records, launching)
    return worker_process.Launch(
        uuid=row.uuid, argv=tuple(argv), record=folder / "record.json", log=folder / "log.txt",
        environment=environment, locks=locks, share=share, log_cap_bytes=settings.log_cap_bytes,
        cgroup=engines.scopes.make(row.uuid, CgroupLimits(settings.engine_memory_max_bytes, settings.worker_pids_max)),
    )  # fmt: skip


def computing(settings: Settings, device: str) -> tuple[list[str], dict[str, str]]:
    """Return (flags, environment) for a device: on the CPU the number of threads, and no visible GPU."""
    environment = config.base_environment() | {"PYTHONUNBUFFERED": "1"}
    if device != "cpu":
        return [], environment
    threads = str(settings.engine_threads or max(1, (os.cpu_count() or 1) - 1))
    return ["--threads", threads], environment | {"OMP_NUM_THREADS": threads, "CUDA_VISIBLE_DEVICES": ""}


def sizes(records: Records, engines: Engines, launching: Launching) -> list[str]:
    """Return flags for how much memory an engine may use: what fitted before on such a device, and its share of a
    shared one."""
    row, settings, flags = launching.row, records.config.settings, []
    lease = next((lease for lease in engines.leases or () if lease.id == row.lease), None)
    device = leases.device_name(lease) if lease is not None else ""
    fitted = engines.leasing.fit(row.weights_sha256, row.numerics, device).slots
    if slots := min(filter(None, (settings.engine_slots, fitted)), default=0):
        flags += ["--slots", str(slots)]
    if room := memory_fit.memory_bytes((lease.memory_total_bytes or 0) if lease else 0, len(launching.slots)):
        flags += ["--memory-bytes", str(room)]
    return flags


def locks_of(records: Records, launching: Launching) -> tuple[tuple[Path, ...], Path | None]:
    """Return the lock files of a lease. The CPU is not shared between daemons, so its lock is the daemon's own."""
    lease = launching.row.lease
    if not leases.is_gpu(lease):
        return (records.config.socket.parent / f"lease-{lease.replace(':', '-')}.lock",), None
    return leases.lock_files(leases.lock_folder(records.config.settings.lease_dir), lease, launching.slots)


def device_of(lease: str) -> str:
    """Return torch's name of the device of a lease; in tests the CPU stands in for a GPU."""
    return "cuda" if leases.is_gpu(lease) and config.marker("RWKVCTL_TEST_DEVICE") != "cpu" else "cpu"
