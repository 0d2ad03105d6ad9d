"""Which engines a running job uses: all that serve its kind of work, so that a long job fills every GPU it may have.

The runner reads them from engines.json and gives each as much as it takes; one that is withdrawn finishes the batches
it has. In an exact profile a job stays on one kind of device, as its bits hold for that alone.
"""

import time
from collections.abc import Iterable
from dataclasses import dataclass

from rwkv_daemon.changes.records import Records
from rwkv_daemon.host.daemon_log import log
from rwkv_daemon.scheduling.leases import device_name
from rwkv_daemon.scheduling.live_engines import EngineHandle, Engines
from rwkv_daemon.scheduling.running_jobs import RunnerHandle, RunningJobs
from rwkv_daemon.store import EngineRow, JobRow
from rwkv_daemon.store.queries.jobs import get_job, update_job
from rwkv_daemon.workers.run_directory import EngineEndpoint, EngineList
from rwkvctl.protocol.numerics import PROFILES


@dataclass(frozen=True, slots=True)
class EngineMember:
    """A ready engine of a job's kind."""

    id: int
    device: str
    closed: bool = False


def chosen(primary: int, members: Iterable[EngineMember], *, exact: bool) -> tuple[int, ...]:
    """The engines a job uses: the open ones; while there are none, its own. In an exact profile only those on the kind
    of device that its own is on."""
    members = list(members)
    own = next((member for member in members if member.id == primary), None)
    usable = [m for m in members if not m.closed and not (exact and own is not None and m.device != own.device)]
    return tuple(sorted(member.id for member in usable)) or ((primary,) if own is not None else ())


def members_of(engines: Engines, handle: RunnerHandle) -> list[EngineHandle]:
    """The ready engines of the kind that a runner's engine serves."""
    own = engines.live.get(handle.engine or 0)
    if own is None:
        return []
    ready = (e for e in engines.live.values() if e.row.state == "ready" and e.exit is None)
    return [engine for engine in ready if engine.serves == own.serves]


def refresh(records: Records, running: RunningJobs, engines: Engines) -> None:
    """Tell every runner of which the engines have changed."""
    devices = {lease.id: device_name(lease) for lease in engines.leases or ()}
    for handle in running.runners.values():
        if handle.regrades or handle.engine is None or handle.exit is not None:
            continue
        found = members_of(engines, handle)
        members = [EngineMember(e.row.id, devices.get(e.row.lease, ""), bool(e.closed)) for e in found]
        exact = bool(found) and is_exact(found[0].row.numerics)
        picked = chosen(handle.engine, members, exact=exact)
        if picked and picked != handle.endpoints:
            try:
                assign(records, handle.job, [e.row for e in found if e.row.id in picked])
            except OSError as error:  # it goes on with those it has, and is told the next time
                log.warning("j%d: its runner cannot be told of its engines: %s", handle.job, error)
                continue
            withdrawn(engines, set(handle.endpoints) - set(picked))
            handle.endpoints = picked


def is_exact(numerics: str) -> bool:
    return any(name == numerics and profile.exact for name, profile in PROFILES.items())


def assign(records: Records, job: int, engines: Iterable[EngineRow]) -> None:
    """Write which engines a runner uses from now on. Every change has a new epoch."""
    endpoints = tuple(
        EngineEndpoint(engine=engine.name, socket=engine.socket, folder=str(records.engine_folder(engine.id)))
        for engine in engines
    )
    folder = records.folder(job)
    try:
        epoch = folder.read_engines().epoch + 1
    except (OSError, ValueError):
        epoch = 1
    folder.write_engines(EngineList(epoch=epoch, endpoints=endpoints))


def withdrawn(engines: Engines, numbers: Iterable[int]) -> None:
    """These still have batches of a job that was told to use others: they are not idle yet."""
    for number in numbers:
        if (engine := engines.live.get(number)) is not None:
            engine.withdrawn_at = time.monotonic()


async def leave_closed(records: Records, running: RunningJobs, engines: Engines) -> None:
    """A job whose engine is closed counts for another of its kind from now on, so that the closed one becomes idle."""
    for handle in list(running.runners.values()):
        own = engines.live.get(handle.engine or 0)
        if own is None or not own.closed or handle.regrades:
            continue
        others = [e for e in members_of(engines, handle) if not e.closed]
        job = await get_job(records.store, handle.job) if others else None
        if job is not None:
            own.withdrawn_at = time.monotonic()
            await set_engine(records, running, engines, job, others[0].row)


async def set_engine(records: Records, running: RunningJobs, engines: Engines, job: JobRow, engine: EngineRow) -> None:
    """Count a running job for another engine: its last one is gone or closed."""
    async with records.change() as change:
        await update_job(change.db, job.id, engine=engine.id)
        text = f"{job.name} goes on with {engine.name}"
        await change.note("job.engine", job=job.name, session=job.session, engine=engine.name, text=text)
    running.runners[job.id].engine = engine.id
    refresh(records, running, engines)
