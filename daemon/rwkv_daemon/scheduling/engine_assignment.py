"""Which engines a running job uses: all that serve its kind of work, so that a long job fills every GPU it may have.

The runner reads them from engines.json and gives each as much as it takes; one that is withdrawn finishes the batches
it has. In an exact profile a job stays on one kind of device, as its bits hold for that alone.
"""

import time
from collections.abc import Iterable
from dataclasses import dataclass

from rwkv_daemon.node import EngineHandle, Node, RunnerHandle, log
from rwkv_daemon.scheduling.leases import device_name
from rwkv_daemon.store import EngineRow, JobRow
from rwkv_daemon.store.queries.jobs import get_job, update_job
from rwkv_daemon.workers.run_directory import Endpoint, Engines
from rwkvctl.protocol.numerics import PROFILES


@dataclass(frozen=True, slots=True)
class Member:
    """A ready engine of a job's kind."""

    id: int
    device: str
    closed: bool = False


def chosen(primary: int, members: Iterable[Member], *, exact: bool) -> tuple[int, ...]:
    """The engines a job uses: the open ones; while there are none, its own. In an exact profile only those on the kind
    of device that its own is on."""
    members = list(members)
    own = next((member for member in members if member.id == primary), None)
    usable = [m for m in members if not m.closed and not (exact and own is not None and m.device != own.device)]
    return tuple(sorted(member.id for member in usable)) or ((primary,) if own is not None else ())


def members_of(node: Node, handle: RunnerHandle) -> list[EngineHandle]:
    """The ready engines of the kind that a runner's engine serves."""
    own = node.engines.get(handle.engine or 0)
    if own is None:
        return []
    engines = (e for e in node.engines.values() if e.row.state == "ready" and e.exit is None)
    return [engine for engine in engines if engine.serves == own.serves]


def refresh(node: Node) -> None:
    """Tell every runner of which the engines have changed."""
    devices = {lease.id: device_name(lease) for lease in node.leases or ()}
    for handle in node.runners.values():
        if handle.regrades or handle.engine is None or handle.exit is not None:
            continue
        found = members_of(node, handle)
        members = [Member(e.row.id, devices.get(e.row.lease, ""), bool(e.closed)) for e in found]
        exact = bool(found) and is_exact(found[0].row.numerics)
        engines = chosen(handle.engine, members, exact=exact)
        if engines and engines != handle.endpoints:
            try:
                assign(node, handle.job, [e.row for e in found if e.row.id in engines])
            except OSError as error:  # it goes on with those it has, and is told the next time
                log.warning("j%d: its runner cannot be told of its engines: %s", handle.job, error)
                continue
            withdrawn(node, set(handle.endpoints) - set(engines))
            handle.endpoints = engines


def is_exact(numerics: str) -> bool:
    return any(name == numerics and profile.exact for name, profile in PROFILES.items())


def assign(node: Node, job: int, engines: Iterable[EngineRow]) -> None:
    """Write which engines a runner uses from now on. Every change has a new epoch."""
    endpoints = tuple(
        Endpoint(engine=engine.name, socket=engine.socket, folder=str(node.engine_folder(engine.id)))
        for engine in engines
    )
    folder = node.folder(job)
    try:
        epoch = folder.read_engines().epoch + 1
    except (OSError, ValueError):
        epoch = 1
    folder.write_engines(Engines(epoch=epoch, endpoints=endpoints))


def withdrawn(node: Node, engines: Iterable[int]) -> None:
    """These still have batches of a job that was told to use others: they are not idle yet."""
    for number in engines:
        if (engine := node.engines.get(number)) is not None:
            engine.withdrawn_at = time.monotonic()


async def leave_closed(node: Node) -> None:
    """A job whose engine is closed counts for another of its kind from now on, so that the closed one becomes idle."""
    for handle in list(node.runners.values()):
        own = node.engines.get(handle.engine or 0)
        if own is None or not own.closed or handle.regrades:
            continue
        others = [e for e in members_of(node, handle) if not e.closed]
        job = await get_job(node.store, handle.job) if others else None
        if job is not None:
            own.withdrawn_at = time.monotonic()
            await set_engine(node, job, others[0].row)


async def set_engine(node: Node, job: JobRow, engine: EngineRow) -> None:
    """Count a running job for another engine: its last one is gone or closed."""
    async with node.change() as change:
        await update_job(change.db, job.id, engine=engine.id)
        text = f"{job.name} goes on with {engine.name}"
        await change.note("job.engine", job=job.name, session=job.session, engine=engine.name, text=text)
    node.runners[job.id].engine = engine.id
    refresh(node)
