"""Held jobs whose reason may be gone: checked again when something they wait for has changed, and released."""

import asyncio
import contextlib
import time

import msgspec

from rwkv_daemon.catalogue import contents
from rwkv_daemon.catalogue.offered import NodeCatalogue
from rwkv_daemon.changes.records import Records
from rwkv_daemon.harness import facts as harness_facts
from rwkv_daemon.host.daemon_log import log
from rwkv_daemon.recipes import labelling, rewriting
from rwkv_daemon.recipes.writer_jobs import why_it_waits
from rwkv_daemon.rules.plan import Facts, KindFact, ModelFact, Pair, SelectionError, plan_pair
from rwkv_daemon.scheduling import placement_facts
from rwkv_daemon.scheduling.held_scan import HeldScan, HeldScanState
from rwkv_daemon.scheduling.node_work import NodeWork
from rwkv_daemon.scheduling.waiting_jobs import WaitingJobs
from rwkv_daemon.store import JobRow, StoreError
from rwkv_daemon.store.queries.jobs import (
    as_json,
    get_job,
    held_checkpoints,
    held_page,
    known_hashes,
    update_job,
    who_does,
)
from rwkv_daemon.store.queries.sessions import selection_of
from rwkv_daemon.store.typed_rows import HeldJob
from rwkv_data.labels import label_file
from rwkvctl.protocol.endpoints import WRITER, is_endpoint, path_of, table_of
from rwkvctl.protocol.requests import NamedCheckpoint, Selection
from rwkvctl.protocol.states import Reason
from rwkvctl.protocol.training.harnesses import is_harness

LOOKED_AT = {"weights-hashing", "weights-copying", "data-missing", "weights-missing", "does-not-load", "disk-low",
             "judge-not-configured", "endpoint-not-configured", "writer-not-configured", "endpoint-away", "no-fit",
             "queued"}  # fmt: skip
"""Reasons that may be gone by themselves."""
ALWAYS_AFTER_S = 600.0
"""Held jobs are checked at this interval even if nothing seems to have changed."""
PAGE, REST = 50, 10.0
"""Jobs that are checked per round (PAGE), and the pause after a check, as a multiple of its duration (REST)."""


async def release_held(work: NodeWork, catalogue: NodeCatalogue) -> None:
    """Queue held jobs whose reason is gone; what they need for their keys is known by then.

    Thousands may be held, and the caller holds a lock that others wait for: so one page is checked per round.
    """
    last = work.waiting.held_scan
    if last.now is None and not await something_changed(work, catalogue, last):
        return
    look = last.now = last.now or await begin(work.records, work.waiting, catalogue)
    held = await held_page(work.records.store, look.after, PAGE)
    last.twins = last.twins or any(job.reason == "queued" for job in held)
    for job in held:
        is_aside = job.id in work.waiting.of_paused_recipes
        if job.reason in LOOKED_AT and work.running.retry_at.get(job.id, 0) <= look.begun and not is_aside:
            try:
                await look_at(work, catalogue, look, job)
            except StoreError:
                raise
            except Exception:  # noqa: BLE001 - one that cannot be looked at keeps none of the others
                log.exception("j%d is held, and cannot be looked at", job.id)
    if len(held) == PAGE:
        look.after = held[-1].id
        work.waiting.look_at_held = True
        work.records.wake.set()
    else:
        last.now, last.ended = None, time.monotonic()


async def something_changed(work: NodeWork, catalogue: NodeCatalogue, last: HeldScanState) -> bool:
    """Whether a check is due. After a long check the next one waits: else a folder of many checkpoints that are being
    hashed would keep the daemon busy."""
    clock = time.monotonic()
    if clock - last.ended < REST * (last.ended - last.begun):
        work.waiting.look_at_held = True  # as soon as the pause is over
        return False
    surroundings = await what_is_there(work, catalogue)
    due = any(last.begun < at <= clock for at in work.running.retry_at.values())
    if not due and surroundings == last.surroundings and clock - last.begun < ALWAYS_AFTER_S:
        return False
    last.begun, last.surroundings = clock, surroundings
    return True


async def begin(records: Records, waiting: WaitingJobs, catalogue: NodeCatalogue) -> HeldScan:
    """Begin a check of all held jobs: read the checkpoints that they name once, for every page of the check."""
    named = await held_checkpoints(records.store)
    folder = f"{records.config.weights_dir}/"
    waiting.held_scan.twins = False
    waiting.held_scan.elsewhere = tuple(path for path in named if not path.startswith(folder))
    return HeldScan(waiting.held_scan.begun, await models_of(records, catalogue, named), waiting.disk_low)


async def what_is_there(work: NodeWork, catalogue: NodeCatalogue) -> tuple[object, ...]:
    """Return everything that a held job may wait for, cheaply: if it is equal, nothing has changed."""
    rows, files = await asyncio.to_thread(stamps, work.records, work.waiting)
    await work.waiting.state_counts.of(work.records.store)  # of what was dispatched since
    return (
        rows, files, work.waiting.disk_low, catalogue.benchmarks.judge, catalogue.benchmarks.as_read,
        placement_facts.sizes(work.records, work.engines), catalogue.settling.said,
        tuple(catalogue.endpoints.facts()), catalogue.endpoints.writer and catalogue.endpoints.writer.config.identity,
        work.waiting.state_counts.held, work.waiting.of_paused_recipes, *await known_hashes(work.records.store),
        work.waiting.state_counts.over if work.waiting.held_scan.twins else 0,
    )  # fmt: skip


def stamps(records: Records, waiting: WaitingJobs) -> tuple[object, object]:
    """Return (prepared rows, their labels, and harnesses; checkpoint files), each with a value that changes when it
    does."""
    manifests = []
    data_dir = records.config.data_dir
    for path in sorted([*data_dir.glob("*/manifest.json"), *data_dir.glob(f"*/{label_file.FOLDER}/*.jsonl")]):
        with contextlib.suppress(OSError):
            found = path.stat()
            manifests.append((str(path), found.st_mtime_ns, found.st_size, found.st_ino))
    config = records.config
    for path in sorted([*config.harness_installations.glob("*/*/tasks.json"), *config.harnesses_dir.glob("*")]):
        with contextlib.suppress(OSError):
            found = path.stat()
            manifests.append((str(path), found.st_mtime_ns, found.st_size, found.st_ino))
    files = [(str(one.path), one.identity) for one in contents.checkpoints(records.config.weights_dir)]
    for text in waiting.held_scan.elsewhere:
        with contextlib.suppress(SelectionError):
            files += [(text, one.identity) for one in contents.named([NamedCheckpoint(path=text)])]
    return tuple(manifests), tuple(files)


async def look_at(work: NodeWork, catalogue: NodeCatalogue, look: HeldScan, job: HeldJob) -> None:
    """Check one held job: queue it, or store what it waits for now."""
    damaged = work.running.bad_rows.get(job.id)
    if damaged is not None and damaged == contents.rows_stamp(work.records.config, job.benchmark, job.source_job):
        return
    if job.weights_path == path_of(WRITER):
        await look_at_writer_job(work.records, catalogue, look, job)
        return
    wanted = (job.benchmark, job.kind, job.settings)
    if is_harness(job.kind):
        look.kinds[wanted] = await harness_kind(work.records, job)
    pair = replan(work, catalogue, look, job)
    if isinstance(pair, tuple):
        await change_reason(work.records, job, *pair)
    elif pair.row.action != "run":
        await change_reason(work.records, job, pair.row.reason, pair.row.detail)
    elif job.generation_key and pair.generation_key != job.generation_key:
        missing: Reason = "data-missing"
        if pair.model.sha256 != job.weights_sha256:
            missing = "endpoint-not-configured" if pair.model.api else "weights-missing"
        what = "its manifest, lock" if is_harness(job.kind) else "its rows"
        detail = f"{what} or weights were replaced by others; dispatch again for those"
        await change_reason(work.records, job, missing, detail)
    else:
        await queue_held(work.records, work.waiting, job, pair)


async def look_at_writer_job(records: Records, catalogue: NodeCatalogue, look: HeldScan, held: HeldJob) -> None:
    """Check one held job of the writer: queue it, or store what it waits for now."""
    job, fact, writer = await get_job(records.store, held.id), kind_of(catalogue, held), catalogue.endpoints.writer
    if job is None or job.state != "held":
        return
    if isinstance(fact, str):
        await change_reason(records, held, "data-missing", fact)
    elif waits := why_it_waits(
        catalogue, writer, fact, job.rows_sha256, disk_low=look.disk_low, is_graded=not job.labels_rows
    ):
        await change_reason(records, held, *waits)
    elif writer is not None and job.weights_sha256 not in {"", writer.config.identity}:
        again = "label" if job.labels_rows else "rewrite"
        detail = f"{table_of(job.weights_path)} is another model now; {again} again for that"
        await change_reason(records, held, "writer-not-configured", detail)
    else:
        if job.labels_rows:
            columns = labelling.keys(labelling.what_of(job), fact, job.row_limit, writer)
        else:
            columns = rewriting.keys(rewriting.what_of(job), fact, writer) | rewriting.grading(fact)
        async with records.change() as change:
            await change.move(job, "release", **columns)


async def models_of(records: Records, catalogue: NodeCatalogue, named: dict[str, str]) -> dict[str, ModelFact]:
    """Return the checkpoints under the weights folder, those elsewhere that jobs were dispatched with, and the models
    behind endpoints, by path."""
    found = {str(one.path): one for one in contents.checkpoints(records.config.weights_dir)}
    for path, name in named.items():
        if path not in found:
            with contextlib.suppress(SelectionError):
                given = NamedCheckpoint(path=path, name=name)
                found |= {str(one.path): one for one in contents.named([given])}
    facts = [fact for _, fact in await contents.model_facts(records.store, found.values(), catalogue.settling)]
    return {fact.path: fact for fact in (*facts, *catalogue.endpoints.facts())}


def replan(work: NodeWork, catalogue: NodeCatalogue, look: HeldScan, job: HeldJob) -> Pair | tuple[Reason, str]:
    """Return the job's pair as the planner sees it now, or (reason, detail) why there is none."""
    model = look.models.get(job.weights_path)
    if model is None and is_endpoint(job.weights_path):
        return "endpoint-not-configured", f"the configuration has no {table_of(job.weights_path)} any more"
    if model is None:
        return "weights-missing", f"{job.weights_path} is gone"
    known = bool(job.weights_sha256) and model.sha256 == job.weights_sha256
    if job.weights_inodes and job.weights_inodes != model.inodes and not known:
        return "weights-missing", f"{job.weights_path} is another file by now; dispatch again for it"
    wanted = (job.benchmark, job.kind, job.settings)
    if wanted not in look.kinds:
        look.kinds[wanted] = kind_of(catalogue, job)
    kind = look.kinds[wanted]
    if isinstance(kind, str):
        return "data-missing", kind
    selection = Selection(limit=job.row_limit, seed=job.seed, overwrite=True, only_jobs=(job.kind,))
    facts = Facts(
        models=(model,),
        kinds=(kind,),
        numerics=job.numerics,
        used=lambda key: key == job.generation_key,
        disk_low=look.disk_low,
        fits=lambda one: placement_facts.misfit(work.records, work.waiting, work.engines, one.sha256, job.numerics),
        judge=catalogue.benchmarks.judge,
    )
    return plan_pair(selection, facts, model, kind)


def kind_of(catalogue: NodeCatalogue, job: HeldJob) -> KindFact | str:
    """Return the job's kind with its settings, or why it cannot be asked any more."""
    benchmark = catalogue.benchmarks.all().get(job.benchmark)
    if benchmark is None or job.kind not in benchmark.kinds:
        return f"this version has no {job.benchmark} {job.kind}"
    settings = msgspec.json.decode(job.settings.encode(), type=dict[str, str])
    try:
        return contents.kind_fact(catalogue.benchmarks, benchmark, benchmark.kinds[job.kind], settings)
    except SelectionError as error:
        return str(error)


async def harness_kind(records: Records, held: HeldJob) -> KindFact | str:
    """Return the kind of a job of a harness, or why it cannot be asked now."""
    job = await get_job(records.store, held.id)
    assert job is not None
    try:
        return await asyncio.to_thread(harness_facts.fact_of_job, records.config, job)
    except SelectionError as error:
        return str(error)


async def queue_held(records: Records, waiting: WaitingJobs, held: HeldJob, pair: Pair) -> None:
    """Queue a job that lacks nothing any more; if its key shows now that another job does the same work, it waits until
    that one ends, and uses its score."""
    job = await get_job(records.store, held.id)
    if job is None or job.state != "held":
        return
    twin = None
    if job.attempt == 0 and not await was_overwrite(records, job):
        twin = await who_does(records.store, pair.generation_key, pair.grade_key, job.id)
    if twin is not None and not twin.done:
        waiting.held_scan.twins = True
        await change_reason(records, held, "queued", twin.told)
        return
    columns = {
        "weights_sha256": pair.model.sha256,
        "generation_key": pair.generation_key,
        "grade_key": pair.grade_key,
        "rows_sha256": pair.kind.rows_sha256,
        "settings": as_json(dict(pair.kind.settings)),
        "configuration": as_json(pair.kind.configuration),
        "grader": pair.kind.grader,
        "grader_version": pair.kind.grader_version,
        "grading": as_json(dict(pair.kind.grading)),
        "benchmark_version": pair.kind.benchmark_version,
        "repeats": pair.kind.repeats,
        "stages": len(pair.kind.configuration["stages"]),  # type: ignore[arg-type]  # a list
        "row_limit": pair.work.limit,
        "total": pair.row.samples or 0,
    }
    async with records.change() as change:
        if twin is not None:
            await change.move(job, "same", reason="done", detail=twin.told, **columns)
        else:
            await change.move(job, "release", **columns)


async def was_overwrite(records: Records, job: JobRow) -> bool:
    """Whether the job was dispatched with --overwrite."""
    found = await selection_of(records.store, job.session)
    return bool(found) and msgspec.json.decode(found, type=Selection).overwrite


async def change_reason(records: Records, job: HeldJob, reason: Reason, detail: str) -> None:
    """Store that a held job is held for another reason now."""
    if (job.reason, job.detail) != (reason, detail):
        async with records.change() as change:
            await update_job(change.db, job.id, reason=reason, detail=detail)
