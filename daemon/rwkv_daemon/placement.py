"""Which job starts next on which engine, and which engine starts or goes. Pure: facts in, commands out.

Three rules, in this order. A job whose engine is loaded and has room starts there. Else an engine is started for the
first waiting job on a free lease. Else, if an engine has no work and a waiting job needs its place, it is unloaded. So
an engine that is loaded is always used before a new one is started, and jobs keep their queue order within an engine.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from rwkvctl.protocol.states import EngineState, Reason


@dataclass(frozen=True, slots=True)
class EngineKind:
    """What an engine can serve: one set of weights (by sha256, never by path) in one numerics profile."""

    weights: str
    numerics: str


@dataclass(frozen=True, slots=True)
class WaitingJob:
    """A queued job in queue order, and how long it has been waiting for a place."""

    id: int
    needs: EngineKind
    waited_s: float = 0.0


@dataclass(frozen=True, slots=True)
class EngineFact:
    """An engine: `jobs` run on it now, `idle_s` since the last one ended; `wants_work` is what its `room` says."""

    id: int
    serves: EngineKind
    lease: str
    state: EngineState
    jobs: int
    idle_s: float = 0.0
    wants_work: bool = True
    closed: bool = False


@dataclass(frozen=True, slots=True)
class StartJob:
    job: int
    engine: int


@dataclass(frozen=True, slots=True)
class StartEngine:
    serves: EngineKind
    lease: str
    job: int


@dataclass(frozen=True, slots=True)
class UnloadEngine:
    engine: int
    why: str


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing to do for this job now, and the reason the operator is shown."""

    job: int
    reason: Reason
    detail: str


Command = StartJob | StartEngine | UnloadEngine | Wait
LIVE = {"starting", "loading", "ready"}
PATIENCE_S = 900.0
"""A job that has waited longer for a place gets the next one: no new job is started on the engine that is to go."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """What the node has: engines, the leases that are free, and the limits from the settings."""

    engines: tuple[EngineFact, ...]
    free_leases: tuple[str, ...]
    runners_per_engine: int
    idle_unload_s: float


def place(waiting: list[WaitingJob], node: Node) -> list[Command]:
    """Commands for one round. Each job gets at most one, each lease and engine at most one new use."""
    commands: list[Command] = []
    engines = {engine.id: engine for engine in node.engines}
    free = list(node.free_leases)
    coming = {e.serves for e in node.engines if e.state in {"starting", "loading"}}
    drained = engine_to_drain(waiting, node)
    if drained is not None:
        engines[drained] = replace(engines[drained], wants_work=False, closed=True)
    for job in waiting:
        command = place_one(job, engines, free, coming, node)
        if isinstance(command, StartJob):
            engines[command.engine] = replace(engines[command.engine], jobs=engines[command.engine].jobs + 1)
        elif isinstance(command, StartEngine):
            free.remove(command.lease)
            coming.add(job.needs)
        elif isinstance(command, UnloadEngine):
            engines[command.engine] = replace(engines[command.engine], state="unloading")
        commands.append(command)
    return commands + unload_idle(engines.values(), node.idle_unload_s)


def engine_to_drain(waiting: list[WaitingJob], node: Node) -> int | None:
    """The engine that makes place for a job that has waited too long: the one with the fewest jobs. Bounds starvation
    where a steady flow of other jobs would keep every engine busy for ever."""
    if node.free_leases:
        return None
    served = {engine.serves for engine in node.engines if engine.state in LIVE}
    starved = next((job for job in waiting if job.waited_s > PATIENCE_S and job.needs not in served), None)
    ready = [engine for engine in node.engines if engine.state == "ready"]
    if starved is None or not ready or any(engine.state == "unloading" for engine in node.engines):
        return None
    return min(ready, key=lambda engine: (engine.jobs, engine.id)).id


def place_one(
    job: WaitingJob, engines: dict[int, EngineFact], free: list[str], coming: set[EngineKind], node: Node
) -> Command:
    """The best thing to do for one job, given what the jobs before it got."""
    loaded = [e for e in engines.values() if e.serves == job.needs and e.state == "ready"]
    open_ones = [e for e in loaded if not e.closed]
    with_room = [e for e in open_ones if e.jobs == 0 or (e.wants_work and e.jobs < node.runners_per_engine)]
    if with_room:
        return StartJob(job.id, min(with_room, key=lambda e: (e.jobs, e.id)).id)
    if job.needs in coming:
        return Wait(job.id, "waits-for-engine", "its engine is loading")
    if loaded:
        full = "its engine is full" if open_ones else "its engine makes place for a job that has waited long"
        return Wait(job.id, "waits-for-engine", full)
    if free:
        return StartEngine(job.needs, free[0], job.id)
    if any(e.state == "unloading" for e in engines.values()):
        return Wait(job.id, "waits-for-engine", "another engine is being unloaded")
    idle = [e for e in engines.values() if e.state == "ready" and e.jobs == 0]
    if idle:
        longest = max(idle, key=lambda e: (e.idle_s, -e.id))
        return UnloadEngine(longest.id, "a waiting job needs its place")
    return Wait(job.id, "waits-for-engine", "no free lease: " + busy_leases(engines))


def busy_leases(engines: dict[int, EngineFact]) -> str:
    """Who holds what, for the operator."""
    held = [f"{e.lease} by e{e.id}" for e in engines.values() if e.state in LIVE]
    return ", ".join(held) or "none on this node"


def unload_idle(engines: Iterable[EngineFact], idle_unload_s: float) -> list[Command]:
    """Engines that have had no work for too long."""
    return [
        UnloadEngine(e.id, f"no work for {idle_unload_s:.0f} s")
        for e in engines
        if e.state == "ready" and e.jobs == 0 and e.idle_s >= idle_unload_s
    ]
