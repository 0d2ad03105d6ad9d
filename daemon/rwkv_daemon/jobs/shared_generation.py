"""One generation for several grades: a queued job takes over the completions of another job with the same generation
key.

They become the samples file of an attempt of its own, so the runner and `rwkvctl rebuild` need no special case. If
nothing is left to generate, the job is graded at once, without an engine.
"""

import asyncio
import uuid as uuids
from collections.abc import Iterable
from itertools import islice
from pathlib import Path
from typing import Final

import msgspec

from rwkv_daemon.changes.records import Records
from rwkv_daemon.host.daemon_log import log
from rwkv_daemon.jobs import run_archive
from rwkv_daemon.jobs.runner_processes import ingest_all
from rwkv_daemon.scheduling.running_jobs import RunningJobs
from rwkv_daemon.scheduling.waiting_jobs import WaitingJobs
from rwkv_daemon.store import JobRow
from rwkv_daemon.store.queries.jobs import add_attempt, attempts_of, end_attempt, get_job, update_job
from rwkv_daemon.store.queries.pauses_attempts import update_attempt
from rwkv_daemon.store.queries.shared_completions import TAKEN, sources
from rwkv_daemon.store.wall_time import now
from rwkv_daemon.workers.run_directory import RunDir, StageRecord, read_records, replace

AT_ONCE: Final = 400


async def take_over(records: Records, waiting: WaitingJobs, running: RunningJobs) -> None:
    """Give queued jobs the completions that others have generated for them, each pair once; some hundreds of jobs a
    round."""
    to_share = waiting.queue.to_share
    if not to_share or waiting.disk_low:
        return
    some = list(islice(to_share, AT_ONCE))
    for number in some:
        del to_share[number]
    queued = [number for number in some if number in waiting.queue.jobs]
    for pair in await sources(records.store, queued, [number for number in some if number not in waiting.queue.jobs]):
        if pair in running.shared or pair.job not in waiting.queue.jobs:
            continue
        running.shared.add(pair)
        job, source = await get_job(records.store, pair.job), await get_job(records.store, pair.source)
        if job is not None and source is not None:
            try:
                await take(records, waiting, job, source)
            except OSError as error:
                log.warning("%s: the completions of %s cannot be taken over: %s", job.name, source.name, error)


async def take(records: Records, waiting: WaitingJobs, job: JobRow, source: JobRow) -> None:
    """Copy the completions, store them, and have them graded if nothing is left to generate."""
    files = [
        records.folder(source.id).samples(attempt.number) for attempt in await attempts_of(records.store, source.id)
    ]
    number, folder = job.attempt + 1, records.folder(job.id)
    if not await asyncio.to_thread(copy, files, folder, number):
        return
    async with records.change() as change:
        await add_attempt(change.db, job.id, number, str(uuids.uuid4()))
        await end_attempt(change.db, job.id, number, code=0, signal=None, lost=False)
        await update_attempt(change.db, job.id, number, why=f"{TAKEN}{source.name}")
        await update_job(change.db, job.id, attempt=number)
        text = f"{job.name} grades the completions of {source.name}"
        await change.note("job.shared", job=job.name, session=job.session, text=text, data={"source": source.name})
    await run_archive.keep_attempt(records, job.id, number)
    for attempt in await attempts_of(records.store, job.id):
        await ingest_all(records, attempt)
    waiting.queue.unread.add(job.id)  # fewer samples are left, so its length has changed
    job_now = await get_job(records.store, job.id)
    if job_now is not None and job_now.state == "queued" and job_now.stages_done >= job_now.stages_total:
        async with records.change() as change:
            started = await change.move(job_now, "place", started=now(), engine=None)
            await change.move(started, "grade")


def copy(files: Iterable[Path], folder: RunDir, number: int) -> int:
    """Write the finished stages of some attempts as one attempt; returns how many there were. If a stage is there
    twice, the first counts, as it does in the store."""
    stages: dict[tuple[int, int, int], StageRecord] = {}
    for record in (record for path in files for record in read_records(path)):
        if isinstance(record, StageRecord):
            stages.setdefault((record.row, record.repeat, record.stage), record)
    if stages:
        folder.path.mkdir(parents=True, exist_ok=True)
        replace(folder.samples(number), b"".join(msgspec.json.encode(record) + b"\n" for record in stages.values()))
    return len(stages)
