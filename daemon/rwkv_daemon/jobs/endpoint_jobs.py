"""Models behind endpoints while jobs ask them: their services, what each server does, and why running jobs wait.

A job that asks an endpoint has a runner, as others have; what it asks goes through a relay of the daemon, where all
jobs share the endpoint's keys, limits and budget. An outage or an empty budget stops nothing: the runner waits, and the
job says why.
"""

import asyncio
import contextlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from rwkv_daemon.changes.records import Records
from rwkv_daemon.host.daemon_log import log
from rwkv_daemon.jobs.judge_jobs import TOLD
from rwkv_daemon.remote.remote_model import RemoteModel
from rwkv_daemon.remote.server_reply import NOTHING, TokenUsage
from rwkv_daemon.rules.placement import EngineKind
from rwkv_daemon.scheduling.endpoint_models import EndpointModels, kind_of
from rwkv_daemon.scheduling.running_jobs import RunningJobs
from rwkv_daemon.scheduling.waiting_jobs import WaitingJobs
from rwkv_daemon.store import JobRow, StoreError
from rwkv_daemon.store.queries.jobs import MovedMeanwhileError, held_checkpoints, jobs_by_id, update_job
from rwkv_daemon.store.queries.samples import asked_tokens
from rwkv_daemon.store.queries.verdicts import StoredReplies, paid_by, paid_to, payers_known_since, spent
from rwkvctl.http.listeners import SocketInUseError
from rwkvctl.protocol.endpoints import name_of
from rwkvctl.protocol.states import Reason
from rwkvctl.settings import config
from rwkvctl.settings.endpoints import EndpointModel

LOOK_S, AGAIN_S = 1.0, 30.0
AWAY: Final[Reason] = "endpoint-away"


async def open_models(records: Records, endpoints: EndpointModels) -> None:
    """Open the models of the configuration. Raises ConfigError."""
    endpoints.folder = records.config.home / "cache" / "endpoints"
    endpoints.by_name = await models(records, endpoints)


async def models(records: Records, endpoints: EndpointModels) -> dict[str, RemoteModel]:
    """Return the models of the configuration; those whose settings and keys are unchanged stay, unless they have
    stopped. Raises ConfigError."""
    found = {}
    for name, wanted in config.endpoint_models().items():
        known = endpoints.by_name.get(name)
        stays = known is not None and not known.exchange.stopping and known.is_of(wanted)
        found[name] = known if known and stays else await model(records, endpoints, wanted)
    return found


async def model(records: Records, endpoints: EndpointModels, wanted: EndpointModel) -> RemoteModel:
    """Return a model behind an endpoint, with what was paid for it so far. Raises ConfigError."""
    endpoints.tried_at.pop(EngineKind(wanted.identity, wanted.api), None)  # new keys or limits may be what it lacked
    paid = await spent(records.store, wanted.path, wanted.service.budget_resets)
    remote = RemoteModel(
        wanted,
        StoredReplies(records.store, wanted.path),
        socket_of(records, wanted),
        spent=paid,
        tell=lambda event: endpoints.says.append((wanted.name, event)),
    )
    endpoints.recall(remote)
    return remote


def socket_of(records: Records, wanted: EndpointModel) -> Path:
    """Return the socket of a model's relay. It belongs to the model, not to the name: a runner never asks another model
    because the configuration has changed."""
    return records.config.socket.parent / f"r{wanted.identity[:10]}{wanted.api[:2]}.sock"


async def serve_forever(
    records: Records, waiting: WaitingJobs, running: RunningJobs, endpoints: EndpointModels
) -> None:
    """Serve the models of the configuration until cancelled, try out the servers that have work for the first time, and
    say why running jobs wait."""
    serving: dict[RemoteModel, asyncio.Task[None]] = {}
    known: dict[str, RemoteModel] = {}
    if any(remote.exchange.stopping for remote in endpoints.by_name.values()):
        await open_models(records, endpoints)  # they ended when this task was restarted
    async with asyncio.TaskGroup() as tasks:
        while True:
            wanted = set(endpoints.by_name.values())
            gone = serving.keys() - wanted
            for old in gone:
                old.stop()
                serving.pop(old)
            for new in wanted - serving.keys():
                new.follow(gone)
                serving[new] = tasks.create_task(served(endpoints, new), name=f"relay {new.config.name}")
            with contextlib.suppress(StoreError):
                await store_events(records, endpoints)
                asking = await jobs_that_ask(records, running, endpoints.by_name)
                await register(records, asking, known)
                await say_why_jobs_wait(records, asking)
                for remote in await untried(records, waiting, running, endpoints):
                    tasks.create_task(endpoints.try_out([remote]), name=f"probe {remote.config.name}")
            await asyncio.sleep(LOOK_S)


async def served(endpoints: EndpointModels, remote: RemoteModel) -> None:
    """Serve a model until it is stopped. One whose relay cannot be opened keeps none of the others from being served,
    and is tried again."""
    while True:
        try:
            await remote.run()
        except (OSError, SocketInUseError) as error:
            endpoints.problems[kind_of(remote)] = f"its relay cannot be opened: {error}"
            log.error("%s: %s", remote.config.path, endpoints.problems[kind_of(remote)])
            await asyncio.sleep(AGAIN_S)
        else:
            return


async def untried(
    records: Records, waiting: WaitingJobs, running: RunningJobs, endpoints: EndpointModels
) -> list[RemoteModel]:
    """Return the models that jobs wait for, held ones included, and whose servers are to be tried out now."""
    if not (found := endpoints.untried()):
        return []
    held = await held_checkpoints(records.store)
    kinds = asked(waiting, running)
    return [remote for remote in found if kind_of(remote) in kinds or remote.config.path in held]


def asked(waiting: WaitingJobs, running: RunningJobs) -> set[EngineKind]:
    """Return the kinds of work that are queued or run."""
    running_jobs = (waiting.queue.running.get(number) for number in running.runners)
    return {key.needs for key in waiting.queue.lanes.lanes} | {
        EngineKind(job.weights_sha256, job.numerics) for job in running_jobs if job is not None
    }


async def store_events(records: Records, endpoints: EndpointModels) -> None:
    """Store what an operator should know of the endpoints."""
    while endpoints.says:
        name, said = endpoints.says.popleft()
        if said.kind in TOLD:
            async with records.change() as change:
                await change.note("endpoint", text=said.text, data={"kind": said.kind, "endpoint": name})


async def jobs_that_ask(
    records: Records, running: RunningJobs, remotes: Mapping[str, RemoteModel]
) -> list[tuple[JobRow, RemoteModel]]:
    """Return the jobs that have a runner which asks an endpoint, each with its model."""
    numbers = [number for number, handle in running.runners.items() if handle.endpoint]
    jobs = await jobs_by_id(records.store, numbers) if numbers else []
    pairs = ((job, remotes.get(name_of(job.weights_path))) for job in jobs)
    return [(job, remote) for job, remote in pairs if remote is not None]


async def register(
    records: Records, asking: Iterable[tuple[JobRow, RemoteModel]], known: dict[str, RemoteModel]
) -> None:
    """Tell each model which jobs ask it, with their priority and what they cost before: those in `known` were told
    already. A job that asks no longer is forgotten."""
    now = {job.name: (job, remote) for job, remote in asking}
    for name in [name for name, remote in known.items() if name not in now or now[name][1] is not remote]:
        known.pop(name).close_job(name)
    for name, (job, remote) in now.items():
        if name in known:
            remote.rank(name, job.priority)
        else:
            remote.open_job(name, priority=job.priority, spent=await paid_for(records, job, remote))
            known[name] = remote


async def paid_for(records: Records, job: JobRow, remote: RemoteModel) -> TokenUsage:
    """Return what a job has paid for replies of a model, unusable ones included. Of one that is older than what is
    stored of payers, the cost of its completions counts if that is more: it must not have its budget once more."""
    paid = paid_to(await paid_by(records.store, [job.name])).get(remote.config.path, NOTHING)
    if job.queued >= await payers_known_since(records.store):
        return paid
    prompt, generated = await asked_tokens(records.store, job.id)
    server = remote.config.server
    cost = (prompt * server.prompt_price + generated * server.completion_price) / 1_000_000
    return TokenUsage(max(prompt, paid.prompt_tokens), max(generated, paid.completion_tokens), max(cost, paid.cost))


async def say_why_jobs_wait(records: Records, asking: Iterable[tuple[JobRow, RemoteModel]]) -> None:
    """Store as the detail of running jobs why their endpoint takes no requests now; or that it does again."""
    for job, remote in asking:
        why = remote.parked_for(job.name)
        if is_news(job, why):
            with contextlib.suppress(MovedMeanwhileError):  # it goes on, or has ended: then it has other reasons
                async with records.change() as change:
                    await update_job(change.db, job.id, was=job.state, reason=AWAY if why else "", detail=why)
            log.info("%s: %s", job.name, why or "its endpoint answers again")


def is_news(job: JobRow, why: str) -> bool:
    """Whether a job's detail is to be replaced by why its endpoint takes no requests."""
    return job.detail != why if why else job.reason == AWAY
