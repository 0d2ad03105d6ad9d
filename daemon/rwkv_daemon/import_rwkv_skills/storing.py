"""Storing an imported score as a finished job, in one transaction."""

import asyncio
import json
from collections.abc import Iterator
from itertools import islice
from statistics import fmean
from typing import Final, NamedTuple

import msgspec

from rwkv_daemon.changes.change import Change
from rwkv_daemon.changes.records import Records
from rwkv_daemon.import_rwkv_skills.benchmark_names import moment
from rwkv_daemon.import_rwkv_skills.imported_score import ImportedSample, ImportedScore, Place
from rwkv_daemon.import_rwkv_skills.rescore import Recount, reason_of, rows_identity
from rwkv_daemon.rules.work_keys import IMPORTED, digest
from rwkv_daemon.scheduling.waiting_jobs import WaitingJobs
from rwkv_daemon.store import NewJob, Transaction
from rwkv_daemon.store.queries.importing import (
    add_completions,
    add_grades,
    add_prompts,
    add_samples,
    forget_import,
    has_session,
    imported_scores,
    job_of_key,
)
from rwkv_daemon.store.queries.jobs import add_job, add_session, as_json, update_job, work_of
from rwkv_daemon.store.queries.samples import add_score
from rwkv_daemon.store.wall_time import now
from rwkvctl import __version__
from rwkvctl.protocol.views import ScoreView

GRADER: Final = "rwkv-skills"
SLICE: Final = 500


class ImportSession(NamedTuple):
    """The import as a session, stored with its first score; without an id nothing is stored. `overwrite`: remove what
    came from the same files before."""

    id: str
    path: str
    overwrite: bool = False


def import_key(imported: ImportedScore, benchmark: str, kind: str) -> str:
    """Return the key of an imported score. It depends on the content, not the path: the same files elsewhere are the
    same score."""
    return digest(IMPORTED, GRADER, imported.model, benchmark, kind, sorted(imported.files.values()))


def grade_key(key: str) -> str:
    """Return the grade key of an imported score."""
    return digest(key, GRADER, IMPORTED)


async def taken_in(
    db: Transaction, session: ImportSession, imported: ImportedScore, names: tuple[str, str]
) -> tuple[int | None, list[int]]:
    """Return (the job that already has this score, the jobs that it replaces)."""
    if not session.overwrite:
        return await job_of_key(db, grade_key(import_key(imported, *names))), []
    return None, [job for job, score in await imported_scores(db, imported.model) if is_of(imported, score)]


def is_of(imported: ImportedScore, score: str) -> bool:
    """Whether an imported score came from the same file, or from files with the same contents."""
    known = json.loads(score)["provenance"]["imported"]
    return known["source"] == str(imported.source) or sorted(known["files"].values()) == sorted(imported.files.values())


async def take_in(
    records: Records,
    waiting: WaitingJobs,
    session: ImportSession,
    imported: ImportedScore,
    found: Recount,
    names: tuple[str, str],
) -> tuple[int, str]:
    """Store a score; returns its job, and the outcome. Raises BadFileError, and stores nothing, if a file has changed
    since it was read first."""
    key = import_key(imported, *names)
    async with records.change() as change:
        known, earlier = await taken_in(change.db, session, imported, names)
        if known is not None:
            return known, "there"
        for job in earlier:
            await forget_import(change.db, job)
        if not await has_session(change.db, session.id):
            asked = as_json({"import": session.path})
            await add_session(change.db, session.id, asked, records.hostname, (__version__, ""))
        number = await add_job(change.db, session.id, new_job(imported, found, names, key))
        stages = await store_traces(change.db, number, imported)
        await store_grades(change.db, number, imported, grade_key(key))
        view = await finish(change, number, session.id, imported, found, names, stages)
        await add_score(change.db, number, grade_key(key), view.finished, msgspec.json.encode(view).decode())
        instead = f", in the place of {', '.join(f'j{job}' for job in earlier)}" if earlier else ""
        text = f"{view.model} {view.benchmark} {view.kind}: imported from {GRADER}{instead}"
        data = json.loads(msgspec.json.encode(view))
        await change.note("job.score", job=view.job, session=session.id, text=text, data=data)
    if earlier:
        waiting.state_counts.forget()
    return number, "replaced" if earlier else "imported"


def new_job(imported: ImportedScore, found: Recount, names: tuple[str, str], key: str) -> NewJob:
    """Return the job as if it had been queued here. It has no weights, as the checkpoint file is not known."""
    return NewJob(
        model=imported.model,
        weights_path="",
        weights_sha256="",
        benchmark=names[0],
        kind=names[1],
        state="done",
        reason="",
        detail=f"imported from {GRADER}",
        priority=0,
        generation_key=key,
        grade_key=grade_key(key),
        settings="{}",
        configuration=as_json(configuration(imported, found, names[1])),
        grader=GRADER,
        grader_version=IMPORTED,
        grading="{}",
        benchmark_version=0,
        rows_sha256=rows_identity(imported.verdicts),
        seed=0,
        row_limit=None,
        numerics=IMPORTED,
        repeats=found.repeats,
        stages=imported.stages,
        total=len(imported.places | imported.verdicts.keys()),
        run_log_dir="",
    )


def configuration(imported: ImportedScore, found: Recount, kind: str) -> dict[str, object]:
    """Return what is known of how it was asked, in the form of our own jobs' configurations."""
    stages = [
        {"name": f"stage{number}", "mode": "generate", "sampling": imported.sampling.get(f"stage{number}", {})}
        for number in range(1, imported.stages + 1)
    ]
    return {
        "kind": kind,
        "profile": GRADER,
        "profile_version": 0,
        "stages": stages,
        "repeats": found.repeats,
        "chain_of_thought": imported.cot,
    }


async def store_traces(db: Transaction, job: int, imported: ImportedScore) -> int:
    """Store prompts and completions, read a second time; returns how many stages were stored. The file is parsed in a
    thread, a slice at a time."""
    stages, seen = 0, set[Place]()
    source = imported.traces() if imported.traces else iter(())
    while some := await asyncio.to_thread(lambda: list(islice(source, SLICE))):
        fresh = list(not_seen(some, seen))
        turns = [(trace.place, number, turn) for trace in fresh for number, turn in enumerate(trace.turns)]
        await add_prompts(db, [(job, place[0], number, turn.prompt) for place, number, turn in turns])
        await add_completions(db, [(job, *place, number, turn.completion, turn.stop) for place, number, turn in turns])
        stages += len(turns)
    return stages


def not_seen(traces: list[ImportedSample], seen: set[Place]) -> Iterator[ImportedSample]:
    """Yield the traces of samples that are not in `seen`, and add them to it."""
    for trace in traces:
        if trace.place not in seen:
            seen.add(trace.place)
            yield trace


async def store_grades(db: Transaction, job: int, imported: ImportedScore, key: str) -> None:
    """Store samples and their verdicts. A sample without a verdict is an error, never a wrong answer."""
    places = iter(sorted(imported.places | imported.verdicts.keys()))
    while some := list(islice(places, SLICE)):
        await add_samples(db, [(job, *place) for place in some])
        await add_grades(db, [grade_row(imported, place, job, key) for place in some])


def grade_row(imported: ImportedScore, place: Place, job: int, key: str) -> tuple[object, ...]:
    """Return a sample's verdict in the order of columns that `add_grades` takes; without a verdict the value is None
    and the reason `error`."""
    verdict = imported.verdicts.get(place)
    if verdict is None:
        return (key, None, reason_of(None), "", None, "it came without a verdict", job, *place)
    value = float(verdict.passed)
    return (key, value, reason_of(verdict), verdict.expected, verdict.answer or None, verdict.why, job, *place)


async def finish(
    change: Change,
    number: int,
    session: str,
    imported: ImportedScore,
    found: Recount,
    names: tuple[str, str],
    stages: int,
) -> ScoreView:
    """Store the counts and the score; returns the score's view."""
    version, grade_key = await work_of(change.db, number)
    created = moment(imported.created) or now()
    total = len(imported.places | imported.verdicts.keys())
    right = float(sum(verdict.passed for verdict in imported.verdicts.values()))
    await update_job(
        change.db, number, done=total, stages_done=stages, right_sum=right, attempt=1, started=created, finished=now()
    )
    return ScoreView(
        job=f"j{number}",
        model=imported.model,
        benchmark=names[0],
        kind=names[1],
        version=version,
        primary=found.primary,
        metrics=found.metrics,
        n=total or imported.samples,
        rows=found.rows,
        repeats=found.repeats,
        scored=len(imported.verdicts),
        truncated=imported.cut_off,
        errors=len(imported.places - imported.verdicts.keys()),
        why_null=found.why_null,
        finished=created,
        session=session,
        warnings=warnings_of(imported, found),
        provenance=provenance(imported, found, names[1], grade_key),
    )


def warnings_of(imported: ImportedScore, found: Recount) -> tuple[str, ...]:
    """Return the warnings about the score for a reader."""
    said = [f"imported: {words}" for words in found.disagreements]
    if not (imported.places or imported.verdicts):
        said.append("imported without samples: nothing could be checked")
    if imported.duplicates:
        said.append(f"imported: {imported.duplicates} lines repeat a sample; the first one counts")
    return tuple(said)


def provenance(imported: ImportedScore, found: Recount, kind: str, key: str) -> dict[str, object]:
    """Return where the score came from. It has the fields that comparisons ask for, marked as not our own."""
    return {
        "imported": {
            "program": GRADER,
            "layout": imported.layout,
            "source": str(imported.source),
            "files": imported.files,
            "dataset": imported.dataset,
            "task": imported.task,
            "metrics": imported.metrics,
            "created_at": imported.created,
            "disagreements": list(found.disagreements),
            "duplicates": imported.duplicates,
            **imported.more,
        },
        "weights_name": imported.model,
        "weights_sha256": "",
        "rows_sha256": rows_identity(imported.verdicts),
        "benchmark_version": 0,
        "grader": GRADER,
        "grader_version": IMPORTED,
        "grading": {},
        "rwkvctl_version": __version__,
        "configuration": configuration(imported, found, kind),
        "limit": None,
        "numerics": IMPORTED,
        "grade_key": key,
        **by_subject(imported, found),
    }


def by_subject(imported: ImportedScore, found: Recount) -> dict[str, object]:
    """Return the subjects as they came, if the numbers beside them are confirmed."""
    if not imported.subjects or found.disagreements:
        return {}
    macro = fmean(subject["value"] for subject in imported.subjects.values())
    return {"groups": imported.subjects, "macro": macro}
