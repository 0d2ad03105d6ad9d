"""Job runners: start them, ingest what they write, handle their ends, adopt them."""

import asyncio
import json
import os
import time
import uuid as uuids
from dataclasses import replace
from pathlib import Path

import msgspec

from rwkv_daemon.catalogue.offered import NodeCatalogue
from rwkv_daemon.changes import event_bus
from rwkv_daemon.changes.job_view import as_data
from rwkv_daemon.changes.records import Records
from rwkv_daemon.host.daemon_log import log
from rwkv_daemon.jobs import (
    attempt_ends,
    harness_jobs,
    log_links,
    low_disk,
    pause_resume,
    regrading,
    run_archive,
    stop_intents,
)
from rwkv_daemon.jobs.attempt_ends import AttemptEnd
from rwkv_daemon.jobs.harness_jobs import HarnessChangedError
from rwkv_daemon.jobs.score_writer import effective_kind, set_kind
from rwkv_daemon.jobs.shortest_right import shortest_right
from rwkv_daemon.judge.judges import Judges
from rwkv_daemon.remote.remote_model import RemoteModel
from rwkv_daemon.rules import lifecycle
from rwkv_daemon.rules.rate_estimate import EngineTimeMeter
from rwkv_daemon.scheduling import endpoint_models, engine_assignment
from rwkv_daemon.scheduling.live_engines import Engines
from rwkv_daemon.scheduling.node_work import NodeWork
from rwkv_daemon.scheduling.running_jobs import RunnerHandle, RunningJobs
from rwkv_daemon.store import AttemptRow, ConflictError, EngineRow, JobRow, StoreError
from rwkv_daemon.store.queries.jobs import add_attempt, attempts_of, get_job, running_attempts
from rwkv_daemon.store.queries.recipes.graded_samples import jobs_numbered
from rwkv_daemon.store.queries.recipes.rewriting import places_of_right
from rwkv_daemon.store.queries.samples import ingest
from rwkv_daemon.store.wall_time import now
from rwkv_daemon.workers import cgroups, stall_detection, worker_process
from rwkv_daemon.workers.cgroups import CgroupLimits
from rwkv_daemon.workers.crash_points import crash_point
from rwkv_daemon.workers.run_directory import (
    HarnessSpec,
    JobSpec,
    Record,
    RewritingSource,
    UnknownFormatError,
    decode_record,
    whole_lines,
)
from rwkv_daemon.workers.stop_ladder import StopLadder, remains
from rwkv_daemon.workers.worker_process import NotStartedError
from rwkvctl.protocol.endpoints import is_endpoint, name_of
from rwkvctl.protocol.engine import EngineStats
from rwkvctl.settings import config
from rwkvctl.settings.module_command import module_command

RUNNER, HARNESS_RUNNER = "rwkv_daemon.runner", "rwkv_daemon.harness.run"
SLICE_BYTES = 1024 * 1024
SLICES = 8
"""Slices of one runner that are stored per round at most: one that writes faster than the store takes it must not delay
the others."""


async def start_runner(
    work: NodeWork, judges: Judges, catalogue: NodeCatalogue, job: JobRow, asked: EngineRow | RemoteModel | None
) -> None:
    """Start a new attempt of a queued job, which asks a ready engine or a model behind an endpoint; without either, one
    that only grades what is there."""
    number, uuid, settings = job.attempt + 1, str(uuids.uuid4()), work.records.config.settings
    earlier = [attempt.number for attempt in await attempts_of(work.records.store, job.id)]
    async with work.records.change() as change:
        await add_attempt(change.db, job.id, number, uuid)
        transition: lifecycle.Transition = "place" if asked else "regrade"
        number_of_engine = asked.id if isinstance(asked, EngineRow) else None
        await change.move(job, transition, attempt=number, engine=number_of_engine, started=job.started or now())
    crash_point("after-attempt-stored")
    folder = work.records.folder(job.id)
    try:
        harness = await asyncio.to_thread(harness_jobs.spec_of, work.records.config, job) if job.is_harness else None
    except HarnessChangedError as error:
        ending = AttemptEnd(job.id, number, None, why=str(error), started=False)
        await attempt_ends.hold_without_rows(work.records, job.id, ending)
        return
    try:
        launch = worker_process.Launch(
            uuid=uuid,
            argv=module_command(HARNESS_RUNNER if job.is_harness else RUNNER, str(folder.path)),
            record=folder.record(number),
            log=folder.log(number),
            environment=runner_environment(),
            cgroup=work.engines.scopes.make(
                uuid, CgroupLimits(settings.runner_memory_max_bytes, settings.worker_pids_max)
            ),
            log_cap_bytes=settings.log_cap_bytes,
        )
        rewriting = await rewriting_source(work.records, catalogue, job) if asked is not None else None
        write_run_directory(work.records, catalogue, job, number, earlier, asked, rewriting, harness)
        await run_archive.keep_attempt(work.records, job.id, number)
        worker = await asyncio.to_thread(worker_process.start, launch)
    except (NotStartedError, OSError) as error:
        why = f"it could not be started: {error}"
        await attempt_ends.attempt_ended(
            work, judges, catalogue, AttemptEnd(job.id, number, None, why=why, started=False)
        )
        return
    crash_point("after-worker-started")
    work.running.runners[job.id] = RunnerHandle(
        job.id, number, worker, engine=number_of_engine, stages_before=job.stages_done, regrades=asked is None,
        endpoint=asked.config.name if isinstance(asked, RemoteModel) else "", meter=EngineTimeMeter(job.done),
        harness=job.is_harness,
    )  # fmt: skip
    log_links.link(work.records, job, folder.log(number))


def runner_environment() -> dict[str, str]:
    """Return the environment of a runner. A crash point of the tests is passed on only if it is one of the runner's."""
    environment = config.base_environment() | {"OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}
    point = config.marker("RWKVCTL_CRASH_AT")
    return environment | ({"RWKVCTL_CRASH_AT": point} if point.startswith("runner-") else {})


def write_run_directory(
    records: Records, catalogue: NodeCatalogue, job: JobRow, number: int, earlier: list[int],
    asked: EngineRow | RemoteModel | None, rewriting: RewritingSource | None, harness: HarnessSpec | None,
) -> None:  # fmt: skip
    """Write what the runner reads: its specification, whom it asks, and that it should run."""
    folder = records.folder(job.id)
    folder.path.mkdir(parents=True, exist_ok=True)
    folder.write_desired("run")
    if isinstance(asked, EngineRow):
        engine_assignment.assign(records, job.id, [asked])
    elif asked is not None:
        folder.write_endpoint(endpoint_models.provenance(asked, effective_kind(catalogue, job)))
        engine_assignment.assign_endpoint(records, job.id, asked)
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
            data_dir=str(records.config.data_dir),
            rows_sha256=job.rows_sha256,
            generation_key=job.generation_key,
            grade_key=job.grade_key,
            regrade=asked is None,
            api=asked.config.api if isinstance(asked, RemoteModel) else "",
            rewriting=rewriting,
            labelling=json.loads(job.configuration)["labelling"]["rule"] if job.labels_rows else "",
            harness=harness,
            catalogue_dir=str(records.config.benchmarks_dir),
            file_sha256=catalogue.benchmarks.file_sha256.get(job.benchmark, ""),
            slots_dir=str(records.config.slots_dir),
            slots=records.config.settings.grading_slots or os.cpu_count() or 1,
            unsandboxed=bool(json.loads(job.grading).get("unsandboxed", False)),
        )
    )


async def rewriting_source(records: Records, catalogue: NodeCatalogue, job: JobRow) -> RewritingSource | None:
    """Return what a job rewrites or splits, as its runner is told; None for any other job. Raises NotStartedError if
    the other job was removed for good meanwhile."""
    if job.source_job is None:
        return None
    if not await jobs_numbered(records.store, [job.source_job]):
        raise NotStartedError(f"j{job.source_job}, which it rewrites, was removed for good")
    what = json.loads(job.configuration)["rewriting"]
    if known := earlier_source(records, job):
        right = known.right  # though errors of the source may have been graded again meanwhile
    elif job.has_variants:
        kind = set_kind(catalogue, job)
        right = tuple(await shortest_right(records.store, kind, job.source_job, what["grade_key"]))
    else:
        right = tuple(await places_of_right(records.store, job.source_job, what["grade_key"]))
    return RewritingSource(
        rule=what["rule"],
        name=what["job"],
        folder=str(records.folder(job.source_job).path),
        attempts=tuple(attempt.number for attempt in await attempts_of(records.store, job.source_job)),
        right=right,
    )


def earlier_source(records: Records, job: JobRow) -> RewritingSource | None:
    """Return what an earlier attempt at a job was told to rewrite; None if there was none."""
    try:
        return records.folder(job.id).read_spec().rewriting
    except (OSError, UnknownFormatError, msgspec.MsgspecError):
        return None


def config_settings(job: JobRow) -> dict[str, str]:
    """Return the settings that the job changes, as text by name."""
    return {str(name): str(value) for name, value in json.loads(job.settings).items()}


async def adopt_runners(work: NodeWork, judges: Judges, catalogue: NodeCatalogue) -> None:
    """After a restart of the daemon: watch the runners that still run, and handle those that ended meanwhile. A stop in
    progress goes on from the step it had reached."""
    await pause_resume.load(work.records, work.waiting)
    await low_disk.look_at_disk(work.records, work.waiting, work.running)
    for attempt in await running_attempts(work.records.store):
        if attempt.job in work.running.runners:
            continue  # adopted before the store went away
        folder = work.records.folder(attempt.job)
        worker = worker_process.adopt(attempt.uuid, folder.record(attempt.number))
        if worker is not None:
            job = await get_job(work.records.store, attempt.job)
            regrades = job is not None and regrading.is_regrade(work.records, job)
            work.running.runners[attempt.job] = RunnerHandle(
                attempt.job,
                attempt.number,
                worker,
                ingested=attempt.ingested,
                engine=job.engine if job else None,
                stages_before=job.stages_done if job else 0,
                regrades=regrades,
                harness=job is not None and job.is_harness,
                endpoint=name_of(job.weights_path) if job and is_endpoint(job.weights_path) and not regrades else "",
                ladder=StopLadder.resumed(attempt.rung),
                meter=EngineTimeMeter(job.done if job else 0),
            )
            log.info("adopted the runner of j%d (pid %d)", attempt.job, worker.pid)
            continue
        await asyncio.to_thread(worker_process.sweep, attempt.uuid)
        await ingest_all(work.records, attempt)
        record = worker_process.read_record(folder.record(attempt.number))
        same_boot = record is not None and record.boot_id == worker_process.boot_id()
        exited = record if record is not None and record.done and same_boot else None
        if exited is not None and exited.code == 0:
            await ingest_missed(work.records, attempt.job)
        await attempt_ends.handled(
            work,
            judges,
            catalogue,
            AttemptEnd(
                attempt.job,
                attempt.number,
                exited,
                step=attempt.rung,
                started=record is not None,
                forgotten=record is None,
            ),
        )
    await stop_intents.apply(work.records, work.waiting.pauses, work.running)


async def watch_runners(work: NodeWork, judges: Judges, catalogue: NodeCatalogue) -> None:
    """Check every runner once: store what it wrote, and handle its end."""
    for handle in list(work.running.runners.values()):
        try:
            await watch_runner(work, judges, catalogue, handle)
        except Exception as error:  # one job fails with it instead of all
            if isinstance(error, StoreError) and not isinstance(error, ConflictError):
                raise
            log.exception("j%d: what its runner did cannot be handled", handle.job)
            await abandon(work.records, work.running, handle, f"{type(error).__name__}: {error}")


async def abandon(records: Records, running: RunningJobs, handle: RunnerHandle, why: str) -> None:
    """Fail a job that cannot be handled. Its runner is ended first: nobody would read what it writes, and the next
    attempt would do the same work beside it."""
    await asyncio.to_thread(worker_process.sweep, handle.worker.uuid)
    if handle.exit is None:
        handle.exit = (await asyncio.to_thread(handle.worker.close),)
    await attempt_ends.give_up(records, handle.job, handle.attempt, why)
    running.runners.pop(handle.job, None)


async def watch_runner(work: NodeWork, judges: Judges, catalogue: NodeCatalogue, handle: RunnerHandle) -> None:
    """Check one runner. Its handle is removed only when the consequences of its end are stored; until then every round
    tries again. What it wrote is read to the end once none of its processes can write any more."""
    if handle.exit is None and worker_process.has_ended(handle.worker):
        await asyncio.to_thread(worker_process.sweep, handle.worker.uuid)
        if await asyncio.to_thread(remains, handle.worker):  # its shim is gone, and a process of it is not
            await stop_intents.intend(work.records, handle, handle.intent or "stalled")
        else:
            handle.exit = (await asyncio.to_thread(handle.worker.close),)
    more = await ingest_some(work.records, handle)
    if handle.exit is None:
        await see_harness(work.records, handle)
        await asyncio.to_thread(worker_process.end_orphans, handle.worker)
        await look_for_stall(work.records, work.engines, handle)
        await stop_intents.escalate(work.records, handle)
        return
    if more:
        return
    if handle.exit[0] is not None and handle.exit[0].code == 0:
        await ingest_missed(work.records, handle.job)
    ending = AttemptEnd(
        handle.job, handle.attempt, handle.exit[0], stages_before=handle.stages_before, stalled=handle.stall,
        step=int(handle.ladder.step),
    )  # fmt: skip
    await attempt_ends.attempt_ended(work, judges, catalogue, ending)
    cgroups.remove_for(handle.worker.record.cgroup)
    work.running.runners.pop(handle.job, None)


async def see_harness(records: Records, handle: RunnerHandle) -> None:
    """Note how far an outside harness is, and first that it is at work: its samples come all at once, when it has
    ended."""
    if not handle.harness or (progress := harness_jobs.progress_of(records, handle)) in {None, handle.progress}:
        return
    begun, handle.progress = handle.progress is not None, progress
    job = await get_job(records.store, handle.job)
    if job is None:
        return
    if not begun and lifecycle.allows(job.state, "generate"):
        async with records.change() as change:
            job = await change.move(job, "generate")
    view = as_data(replace(job, detail=progress or ""))
    records.bus.publish([event_bus.live_event("job.progress", job=job.name, session=job.session, data=view)])


async def look_for_stall(records: Records, engines: Engines, handle: RunnerHandle) -> None:
    """Notice a runner without progress, keep its stacks, and have it ended; its job starts again where it stopped."""
    clock, motion = time.monotonic(), handle.motion
    motion.beat.see(stall_detection.beat_of(records.folder(handle.job).alive(handle.attempt)), clock)
    motion.progress.see(handle.ingested, clock)
    if handle.harness:  # its manifest says how long it may be silent
        motion.progress.at = clock
    asked = [e for n in {handle.engine, *handle.endpoints} if n and (e := engines.live.get(n)) is not None]
    if handle.intent or not (asked or handle.regrades):  # how long an endpoint takes is its affair
        motion.reset(clock)
    elif any(engine.stats is not None and engine.stats.running and tokens_flow(engine.stats) for engine in asked):
        motion.progress.at = clock
    if not (why := stall_detection.verdict(motion, clock, records.config.settings.stall_s)):
        return
    stacks = await asyncio.to_thread(
        stall_detection.dump, handle.worker, records.folder(handle.job).log(handle.attempt)
    )
    job = await get_job(records.store, handle.job)
    assert job is not None
    async with records.change() as change:
        text = f"{job.name} makes no progress: {why}; its stacks are stored, and it is restarted"
        data = {"why": why, "stacks": stacks}
        await change.note("job.stalled", job=job.name, session=job.session, text=text, data=data)
    handle.stall = why
    await stop_intents.intend(records, handle, "stalled")


def tokens_flow(stats: EngineStats) -> bool:
    """Return whether an engine processes any tokens, in prefill or decode."""
    return bool(stats.prefill_tokens_per_s or stats.decode_tokens_per_s)


async def ingest_all(records: Records, attempt: AttemptRow) -> None:
    """Store everything an attempt wrote before it ended."""
    handle = RunnerHandle(attempt.job, attempt.number, worker=None, ingested=attempt.ingested)  # type: ignore[arg-type]
    while await ingest_slice(records, handle):
        pass


async def ingest_some(records: Records, handle: RunnerHandle) -> bool:
    """Store what a runner wrote, up to its share of the round; returns whether there is more."""
    for _ in range(SLICES):
        if not await ingest_slice(records, handle):
            return False
        await asyncio.sleep(0)
    return True


async def ingest_missed(records: Records, number: int) -> None:
    """Store samples that the store lacks although a runner says that all is done: an earlier attempt wrote them just
    before it ended, or the store was restored from a backup. They are in the attempts' files."""
    job = await get_job(records.store, number)
    if job is None or job.done >= job.total or regrading.is_regrade(records, job):
        return
    for attempt in await attempts_of(records.store, number):
        await ingest_all(records, replace(attempt, ingested=0))


async def ingest_slice(records: Records, handle: RunnerHandle) -> bool:
    """Store the next slice of a samples file; returns whether there was one. The offset moves in the same
    transaction."""
    path = records.folder(handle.job).samples(handle.attempt)
    read, used = await asyncio.to_thread(next_records, path, handle.ingested)
    if not used:
        return False
    job = await get_job(records.store, handle.job)
    assert job is not None
    crash_point("before-ingest-commit")
    async with records.change() as change:
        counts = await ingest(change.db, job.id, handle.attempt, job.grade_key, read, handle.ingested + used)
        stage = lifecycle.stage(
            stages_done=counts.stages_done, stages_total=job.stages_total, graded=counts.done, total=job.total
        )
        if stage in {"generate", "grade"} and lifecycle.allows(job.state, stage):
            job = await change.move(job, stage)
    crash_point("after-ingest-commit")
    handle.ingested += used
    job = replace(
        job, done=counts.done, stages_done=counts.stages_done, right_sum=counts.right_sum, judged=counts.judged
    )
    view = as_data(job, rate=handle.rate(counts.done))
    records.bus.publish([event_bus.live_event("job.progress", job=job.name, session=job.session, data=view)])
    return True


def next_records(path: Path, offset: int) -> tuple[list[Record], int]:
    """Return the records of the next slice, and how many bytes they take. Called in a thread: there may be
    thousands."""
    lines, used = whole_lines(read_slice(path, offset))
    return [record for line in lines if (record := decode_record(line)) is not None], used


def read_slice(path: Path, offset: int) -> bytes:
    """Return the next slice, made durable first: what the store counts as done must survive a power loss."""
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
