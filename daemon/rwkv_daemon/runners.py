"""Job runners: start, ingest what they write, act on how they end, stop, adopt."""

import asyncio
import json
import os
import sys
import time
import uuid as uuids
from dataclasses import replace
from pathlib import Path

from rwkv_daemon import endings, events, lifecycle, processes
from rwkv_daemon.clock import now
from rwkv_daemon.endings import Ending
from rwkv_daemon.faults import crash_point
from rwkv_daemon.jobview import as_data
from rwkv_daemon.node import Change, Node, RunnerHandle, log
from rwkv_daemon.placement import EngineKind
from rwkv_daemon.processes import NotStartedError
from rwkv_daemon.rundir import Endpoint, Engines, JobSpec, decode_record, whole_lines
from rwkv_daemon.store import AttemptRow, EngineRow, JobRow, StoreError
from rwkv_daemon.store.jobs import (
    add_attempt,
    attempts_of,
    forget_load_failures,
    get_job,
    running_attempts,
    update_job,
)
from rwkv_daemon.store.samples import ingest
from rwkvctl import config
from rwkvctl.protocol.states import Reason

SLICE_BYTES = 1024 * 1024


async def start_runner(node: Node, job: JobRow, engine: EngineRow | None) -> None:
    """A new attempt at a queued job, on an engine that is ready; without one, only to grade what is there."""
    number, uuid = job.attempt + 1, str(uuids.uuid4())
    earlier = [attempt.number for attempt in await attempts_of(node.store, job.id)]
    async with node.change() as change:
        await add_attempt(change.db, job.id, number, uuid)
        happening: lifecycle.Happening = "place" if engine else "regrade"
        number_of_engine = engine.id if engine else None
        await change.move(job, happening, attempt=number, engine=number_of_engine, started=job.started or now())
    crash_point("after-attempt-stored")
    folder = node.folder(job.id)
    launch = processes.Launch(
        uuid=uuid,
        argv=(sys.executable, "-m", "rwkv_daemon.runner", str(folder.path)),
        record=folder.record(number),
        log=folder.log(number),
        environment=runner_environment(),
    )
    try:
        write_run_directory(node, job, number, earlier, engine)
        worker = await asyncio.to_thread(processes.start, launch)
    except (NotStartedError, OSError) as error:
        await endings.attempt_ended(node, Ending(job.id, number, None, why=f"it could not be started: {error}"))
        return
    crash_point("after-worker-started")
    node.runners[job.id] = RunnerHandle(
        job.id, number, worker, engine=number_of_engine, stages_before=job.stages_done, regrades=engine is None
    )
    link_log(job, folder.log(number))


def runner_environment() -> dict[str, str]:
    """What a runner inherits. A crash point of the tests is passed on only if it is one of the runner's."""
    environment = config.base_environment() | {"OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}
    point = config.marker("RWKVCTL_CRASH_AT")
    return environment | ({"RWKVCTL_CRASH_AT": point} if point.startswith("runner-") else {})


def write_run_directory(node: Node, job: JobRow, number: int, earlier: list[int], engine: EngineRow | None) -> None:
    """What the runner reads: its specification, its engines, and that it should run."""
    folder = node.folder(job.id)
    folder.path.mkdir(parents=True, exist_ok=True)
    folder.write_desired("run")
    if engine is not None:
        assign_engine(node, job.id, engine)
    folder.write_spec(
        JobSpec(
            job=job.id,
            attempt=number,
            earlier=tuple(earlier),
            model=job.model,
            benchmark=job.benchmark,
            kind=job.kind,
            settings=config_settings(job),
            seed=job.seed,
            limit=job.row_limit,
            repeats=job.repeats,
            data_dir=str(node.config.data_dir),
            rows_sha256=job.rows_sha256,
            generation_key=job.generation_key,
            grade_key=job.grade_key,
            regrade=engine is None,
            catalogue_dir=str(node.config.benchmarks_dir),
            file_sha256=node.benchmarks.file_sha256.get(job.benchmark, ""),
            slots_dir=str(node.config.slots_dir),
            slots=node.config.settings.grading_slots or os.cpu_count() or 1,
            unsandboxed=bool(json.loads(job.grading).get("unsandboxed", False)),
        )
    )


def config_settings(job: JobRow) -> dict[str, str]:
    """What --set changed for this job."""
    return {str(name): str(value) for name, value in json.loads(job.settings).items()}


def assign_engine(node: Node, job: int, engine: EngineRow) -> None:
    """Tell a runner which engine to use from now on. The engine's number is the epoch: a new process has a new one."""
    endpoint = Endpoint(engine=engine.name, socket=engine.socket)
    node.folder(job).write_engines(Engines(epoch=engine.id, endpoints=(endpoint,)))


def link_log(job: JobRow, path: Path) -> None:
    """`--run-log-dir`: a link to the attempt's log under a name that says what it is of. Nice to have, never fatal."""
    if not job.run_log_dir:
        return
    link = Path(job.run_log_dir) / f"{job.name}_{job.model}_{job.benchmark}_{job.kind}.log"
    try:
        link.parent.mkdir(parents=True, exist_ok=True)
        if link.is_symlink():
            link.unlink()
        link.symlink_to(path)
    except (OSError, ValueError) as error:
        log.warning("%s: no link in --run-log-dir: %s", job.name, error)


async def adopt_runners(node: Node) -> None:
    """After a restart of the daemon: watch the runners that still run, and act on those that ended meanwhile."""
    for attempt in await running_attempts(node.store):
        folder = node.folder(attempt.job)
        worker = processes.adopt(attempt.uuid, folder.record(attempt.number))
        if worker is not None:
            job = await get_job(node.store, attempt.job)
            node.runners[attempt.job] = RunnerHandle(
                attempt.job,
                attempt.number,
                worker,
                ingested=attempt.ingested,
                engine=job.engine if job else None,
                stages_before=job.stages_done if job else 0,
                regrades=job is not None and job.engine is None,
            )
            log.info("adopted the runner of j%d (pid %d)", attempt.job, worker.pid)
            continue
        await asyncio.to_thread(processes.sweep, attempt.uuid)
        await ingest_all(node, attempt)
        record = processes.read_record(folder.record(attempt.number))
        same_boot = record is not None and record.boot_id == processes.boot_id()
        exited = record if record is not None and record.done and same_boot else None
        await endings.handled(node, Ending(attempt.job, attempt.number, exited))


async def watch_runners(node: Node) -> None:
    """One look at every runner: store what it wrote; if it has ended, act on that."""
    for handle in list(node.runners.values()):
        try:
            await watch_runner(node, handle)
        except StoreError:
            raise
        except Exception as error:  # noqa: BLE001 - one job fails with it instead of all
            log.exception("j%d: what its runner did cannot be handled", handle.job)
            await endings.give_up(node, handle.job, handle.attempt, f"{type(error).__name__}: {error}")
            node.runners.pop(handle.job, None)


async def watch_runner(node: Node, handle: RunnerHandle) -> None:
    """A handle goes only when what follows from its end is stored: until then every round tries again."""
    ended = handle.exit is not None or processes.has_ended(handle.worker)
    while await ingest_slice(node, handle):
        await asyncio.sleep(0)
    if not ended:
        await asyncio.to_thread(processes.end_orphans, handle.worker)
        await climb_stop_ladder(node, handle)
        return
    if handle.exit is None:
        handle.exit = (await asyncio.to_thread(handle.worker.close),)
        await asyncio.to_thread(processes.sweep, handle.worker.uuid)
    ending = Ending(handle.job, handle.attempt, handle.exit[0], stages_before=handle.stages_before)
    await endings.attempt_ended(node, ending)
    node.runners.pop(handle.job, None)


async def ingest_all(node: Node, attempt: AttemptRow) -> None:
    """Store everything an attempt wrote before it ended."""
    handle = RunnerHandle(attempt.job, attempt.number, worker=None, ingested=attempt.ingested)  # type: ignore[arg-type]
    while await ingest_slice(node, handle):
        pass


async def ingest_slice(node: Node, handle: RunnerHandle) -> bool:
    """Store the next slice of a samples file; whether there was one. The offset moves in the same transaction."""
    data = await asyncio.to_thread(read_slice, node.folder(handle.job).samples(handle.attempt), handle.ingested)
    lines, used = whole_lines(data)
    if not used:
        return False
    job = await get_job(node.store, handle.job)
    assert job is not None
    records = [record for line in lines if (record := decode_record(line)) is not None]
    crash_point("before-ingest-commit")
    async with node.change() as change:
        counts = await ingest(change.db, job.id, handle.attempt, job.grade_key, records, handle.ingested + used)
        stage = lifecycle.stage(
            stages_done=counts.stages_done, stages_total=job.stages_total, graded=counts.done, total=job.total
        )
        if stage in {"generate", "grade"} and lifecycle.allows(job.state, stage):
            job = await change.move(job, stage)
    crash_point("after-ingest-commit")
    handle.ingested += used
    job = replace(job, done=counts.done, stages_done=counts.stages_done, right_sum=counts.right_sum)
    view = as_data(job, rate=handle.rate(counts.done))
    node.bus.publish([events.passing("job.progress", job=job.name, session=job.session, data=view)])
    return True


def read_slice(path: Path, offset: int) -> bytes:
    """The next slice, made durable first: what the store counts as done must survive a power loss."""
    try:
        with path.open("rb") as file:
            if os.fstat(file.fileno()).st_size <= offset:
                return b""
            os.fdatasync(file.fileno())
            file.seek(offset)
            data = file.read(SLICE_BYTES)
            while data and b"\n" not in data and (more := file.read(SLICE_BYTES)):
                data += more
            return data
    except FileNotFoundError:
        return b""


async def stop_job(node: Node, job: JobRow) -> JobRow:
    """Begin to stop a job. The target state is stored before anything is done about it."""
    async with node.change() as change:
        moved = await change.move(job, "stop")
    if job.id in node.runners:
        await climb_stop_ladder(node, node.runners[job.id])
    elif moved.state == "stopping":
        if node.judge is not None:
            node.judge.cancel_job(job.name)
        async with node.change() as change:
            moved = await change.move(moved, "ended")
    return moved


async def climb_stop_ladder(node: Node, handle: RunnerHandle) -> None:
    """A runner that was asked to stop and has not: after the grace SIGTERM, later SIGKILL to all with its marker."""
    if handle.stop_asked is None:
        job = await get_job(node.store, handle.job)
        if job is None or job.state != "stopping":
            return
        handle.stop_asked = time.monotonic()
        node.folder(handle.job).write_desired("stop")
    settings = node.config.settings
    waited = time.monotonic() - handle.stop_asked
    if handle.stop_rung == 0 and waited > settings.stop_grace_s:
        handle.stop_rung = 1
        processes.ask_to_stop(handle.worker)
    elif handle.stop_rung == 1 and waited > settings.stop_grace_s + settings.stop_term_s:
        handle.stop_rung = 2
        await asyncio.to_thread(processes.kill, handle.worker)


async def resume_job(node: Node, job: JobRow) -> JobRow:
    """Let a stopped, failed or held job go on."""
    async with node.change() as change:
        return await resume_in(node, change, job)


async def resume_in(node: Node, change: Change, job: JobRow) -> JobRow:
    """The same in a transaction of the caller's. Restarts, and failures of its engine, count afresh. A job that never
    got its keys waits for them first."""
    node.retry_at.pop(job.id, None)
    node.back_off.pop(EngineKind(job.weights_sha256, job.numerics), None)
    await forget_load_failures(change.db, job.weights_sha256)
    if job.total and job.done >= job.total and lifecycle.allows(job.state, "rejudge"):
        return await change.move(job, "rejudge", restarts=0, finished="", engine=None)
    if job.total and job.stages_done >= job.stages_total and lifecycle.allows(job.state, "regrade"):
        node.look_at_held = True
        return await change.move(job, "regrade", restarts=0, finished="", engine=None)
    moved = await change.move(job, "resume", restarts=0, finished="", engine=None)
    if moved.generation_key:
        return moved
    reason: Reason = "data-missing" if moved.weights_sha256 else "weights-hashing"
    return await change.move(moved, "hold", reason=reason, detail="waits for what it needs to be identified")


async def set_engine(node: Node, job: JobRow, engine: EngineRow) -> None:
    """Give a running job another engine: its last one is gone."""
    async with node.change() as change:
        await update_job(change.db, job.id, engine=engine.id)
        text = f"{job.name} goes on with {engine.name}"
        await change.note("job.engine", job=job.name, session=job.session, engine=engine.name, text=text)
    assign_engine(node, job.id, engine)
    node.runners[job.id].engine = engine.id
