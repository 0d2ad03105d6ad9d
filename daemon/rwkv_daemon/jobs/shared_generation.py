"""One generation for several grades: a queued job takes over the completions of another one that asked the very same.

What it takes becomes the samples file of an attempt of its own, so the runner, `rwkvctl rebuild` and whatever follows
know only what they know already. Where nothing is left to generate the job is graded at once, without an engine.
"""

import asyncio
import uuid as uuids
from collections.abc import Iterable
from itertools import islice
from pathlib import Path
from typing import Final

import msgspec

from rwkv_daemon.clock import now
from rwkv_daemon.jobs import run_archive
from rwkv_daemon.jobs.runner_processes import ingest_all
from rwkv_daemon.node import Node, log
from rwkv_daemon.store import JobRow
from rwkv_daemon.store.queries.jobs import add_attempt, attempts_of, end_attempt, get_job, update_job
from rwkv_daemon.store.queries.pauses_attempts import update_attempt
from rwkv_daemon.store.queries.shared_completions import TAKEN, sources
from rwkv_daemon.workers.run_directory import RunDir, StageRecord, read_records, replace

AT_ONCE: Final = 400


async def take_over(node: Node) -> None:
    """Give queued jobs what others have generated for them, each pair once; some hundreds of jobs a round."""
    waiting = node.queue.to_share
    if not waiting or node.disk_low:
        return
    some = list(islice(waiting, AT_ONCE))
    for number in some:
        del waiting[number]
    queued = [number for number in some if number in node.queue.jobs]
    for pair in await sources(node.store, queued, [number for number in some if number not in node.queue.jobs]):
        if pair in node.shared or pair.job not in node.queue.jobs:
            continue
        node.shared.add(pair)
        job, source = await get_job(node.store, pair.job), await get_job(node.store, pair.source)
        if job is not None and source is not None:
            try:
                await take(node, job, source)
            except OSError as error:
                log.warning("%s: the completions of %s cannot be taken over: %s", job.name, source.name, error)


async def take(node: Node, job: JobRow, source: JobRow) -> None:
    """Copy the completions, store them, and have them graded if nothing is left to generate."""
    files = [node.folder(source.id).samples(attempt.number) for attempt in await attempts_of(node.store, source.id)]
    number, folder = job.attempt + 1, node.folder(job.id)
    if not await asyncio.to_thread(copy, files, folder, number):
        return
    async with node.change() as change:
        await add_attempt(change.db, job.id, number, str(uuids.uuid4()))
        await end_attempt(change.db, job.id, number, code=0, signal=None, lost=False)
        await update_attempt(change.db, job.id, number, why=f"{TAKEN}{source.name}")
        await update_job(change.db, job.id, attempt=number)
        text = f"{job.name} grades the completions of {source.name}"
        await change.note("job.shared", job=job.name, session=job.session, text=text, data={"source": source.name})
    await run_archive.keep_attempt(node, job.id, number)
    for attempt in await attempts_of(node.store, job.id):
        await ingest_all(node, attempt)
    node.queue.unread.add(job.id)  # less of it is left
    job_now = await get_job(node.store, job.id)
    if job_now is not None and job_now.state == "queued" and job_now.stages_done >= job_now.stages_total:
        async with node.change() as change:
            started = await change.move(job_now, "place", started=now(), engine=None)
            await change.move(started, "grade")


def copy(files: Iterable[Path], folder: RunDir, number: int) -> int:
    """Write the finished stages of some attempts as one attempt; returns how many there were. The first word of a stage
    counts, as it does in the store."""
    stages: dict[tuple[int, int, int], StageRecord] = {}
    for record in (record for path in files for record in read_records(path)):
        if isinstance(record, StageRecord):
            stages.setdefault((record.row, record.repeat, record.stage), record)
    if stages:
        folder.path.mkdir(parents=True, exist_ok=True)
        replace(folder.samples(number), b"".join(msgspec.json.encode(record) + b"\n" for record in stages.values()))
    return len(stages)
