"""Which engines a running job uses: all that serve its kind of work, so that a long job fills every GPU it may use.

The runner reads them from engines.json and gives each as much as it takes; one that is withdrawn finishes the batches
it has. In an exact profile a job stays on one kind of device, as its bits are only equal there.
"""

import time
from collections.abc import Iterable
from dataclasses import dataclass

from rwkv_daemon.changes.records import Records
from rwkv_daemon.host.daemon_log import log
from rwkv_daemon.remote.remote_model import RemoteModel
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
    """Return the engines a job uses: the open ones; while there are none, its own. In an exact profile only those on
    the kind of device of its own."""
    members = list(members)
    own = next((member for member in members if member.id == primary), None)
    usable = [m for m in members if not m.closed and not (exact and own is not None and m.device != own.device)]
    return tuple(sorted(member.id for member in usable)) or ((primary,) if own is not None else ())


def members_of(engines: Engines, handle: RunnerHandle) -> list[EngineHandle]:
    """Return the ready engines of the kind that a runner's engine serves."""
    own = engines.live.get(handle.engine or 0)
    if own is None:
        return []
    ready = (e for e in engines.live.values() if e.row.state == "ready" and e.exit is None)
    return [engine for engine in ready if engine.serves == own.serves]


def refresh(records: Records, running: RunningJobs, engines: Engines) -> None:
    """Write the new engines for every runner whose engines have changed."""
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
            except OSError as error:  # it continues with those it has; the next round tries again
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


def assign_endpoint(records: Records, job: int, remote: RemoteModel) -> None:
    """Write that a runner asks a model behind an endpoint, through the daemon's relay."""
    relay = EngineEndpoint(engine=remote.config.path, socket=str(remote.socket), relay=True)
    records.folder(job).write_engines(EngineList(epoch=1, endpoints=(relay,)))


def withdrawn(engines: Engines, numbers: Iterable[int]) -> None:
    """Mark engines that still have batches of a job that was moved away: they are not idle yet."""
    for number in numbers:
        if (engine := engines.live.get(number)) is not None:
            engine.withdrawn_at = time.monotonic()


async def leave_closed(records: Records, running: RunningJobs, engines: Engines) -> None:
    """Move jobs of closed engines to other engines of their kind, so that the closed ones become idle."""
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
    """Move a running job to another engine: its last one is gone or closed."""
    async with records.change() as change:
        await update_job(change.db, job.id, engine=engine.id)
        text = f"{job.name} goes on with {engine.name}"
        await change.note("job.engine", job=job.name, session=job.session, engine=engine.name, text=text)
    running.runners[job.id].engine = engine.id
    refresh(records, running, engines)
