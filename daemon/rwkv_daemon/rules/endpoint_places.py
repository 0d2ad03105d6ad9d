"""Which waiting jobs begin to ask a model behind an endpoint. Pure, as `placement` is for engines: facts in, commands
out.

An endpoint has no place on the node, so nothing is started or unloaded for it. Its jobs take turns within the daemon,
where all of them share its keys, limits and budget; here only the number of their runners is limited.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from rwkv_daemon.rules.placement import EngineKind, Wait, WaitingJob, in_order
from rwkvctl.protocol.endpoints import is_api


@dataclass(frozen=True, slots=True)
class EndpointFact:
    """A model behind an endpoint: its `name`, how many `jobs` have a runner, and why nothing is sent to it now
    (`parked`; empty if something is)."""

    name: str
    jobs: int = 0
    parked: str = ""


@dataclass(frozen=True, slots=True)
class AskEndpoint:
    """Start the runner of a job, which asks this endpoint."""

    job: int
    endpoint: str


@dataclass(frozen=True, slots=True)
class HoldJob:
    """Hold a job, waiting or running, whose model is not in the configuration any more, or is another one there."""

    job: int


def asks_endpoint(kind: EngineKind) -> bool:
    """Whether this kind of work is done by a model behind an endpoint."""
    return is_api(kind.numerics)


def place(
    waiting: Iterable[WaitingJob],
    running: Mapping[int, EngineKind],
    endpoints: Mapping[EngineKind, EndpointFact],
    groups: Mapping[str, int],
    runners_per_endpoint: int,
) -> list[AskEndpoint | HoldJob | Wait]:
    """Return a command for each waiting job, the more urgent ones first, and for each running one (`running`) that
    cannot go on. `groups`: how many more jobs of a group may start."""
    commands: list[AskEndpoint | HoldJob | Wait] = [
        HoldJob(number) for number, kind in running.items() if kind not in endpoints
    ]
    asking = {kind: endpoint.jobs for kind, endpoint in endpoints.items()}
    left = dict(groups)
    for job in in_order(waiting):
        endpoint = endpoints.get(job.needs)
        if endpoint is None:
            commands.append(HoldJob(job.id))
        elif endpoint.parked:
            commands.append(Wait(job.id, "endpoint-away", endpoint.parked))
        elif left.get(job.group, 1) <= 0:
            detail = f"as many jobs of group {job.group} run as [groups] in the configuration allows"
            commands.append(Wait(job.id, "group-limit", detail))
        elif asking[job.needs] >= runners_per_endpoint:
            detail = f"{asking[job.needs]} jobs ask {endpoint.name} already, as many as runners_per_engine allows"
            commands.append(Wait(job.id, "endpoint-busy", detail))
        else:
            asking[job.needs] += 1
            if job.group in left:
                left[job.group] -= 1
            commands.append(AskEndpoint(job.id, endpoint.name))
    return commands
