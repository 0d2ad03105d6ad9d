"""Storing an imported score as a job that is done: everything in one transaction, once."""

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
from rwkv_daemon.import_rwkv_skills.imported_score import Finding, Place, Trace
from rwkv_daemon.import_rwkv_skills.rescore import Recount, reason_of, rows_identity
from rwkv_daemon.rules.work_keys import digest
from rwkv_daemon.scheduling.waiting_jobs import Waiting
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

IMPORTED: Final = "imported"
"""Stands for the numerics: no engine of ours has a profile of that name, so no plan takes the score for its own."""

GRADER: Final = "rwkv-skills"
SLICE: Final = 500


class Session(NamedTuple):
    """The import as a session, stored with its first score; without an id nothing is stored. `overwrite`: what came
    from the same files before is taken out again."""

    id: str
    path: str
    overwrite: bool = False


def import_key(finding: Finding, benchmark: str, kind: str) -> str:
    """By content, not by path: the same files somewhere else are the same score."""
    return digest(IMPORTED, GRADER, finding.model, benchmark, kind, sorted(finding.files.values()))


def grade_key(key: str) -> str:
    """The grade key of an imported score."""
    return digest(key, GRADER, IMPORTED)


async def taken_in(
    db: Transaction, session: Session, finding: Finding, names: tuple[str, str]
) -> tuple[int | None, list[int]]:
    """(the job that this score is already, the jobs that it takes the place of)."""
    if not session.overwrite:
        return await job_of_key(db, grade_key(import_key(finding, *names))), []
    return None, [job for job, score in await imported_scores(db, finding.model) if is_of(finding, score)]


def is_of(finding: Finding, score: str) -> bool:
    """Whether an imported score came from the same file, or from the same contents of files elsewhere."""
    known = json.loads(score)["provenance"]["imported"]
    return known["source"] == str(finding.source) or sorted(known["files"].values()) == sorted(finding.files.values())


async def take_in(
    records: Records, waiting: Waiting, session: Session, finding: Finding, found: Recount, names: tuple[str, str]
) -> tuple[int, str]:
    """Store it; returns its job, and what became of it. Raises BadFileError if a file is no longer what it was, and
    then nothing is stored."""
    key = import_key(finding, *names)
    async with records.change() as change:
        known, earlier = await taken_in(change.db, session, finding, names)
        if known is not None:
            return known, "there"
        for job in earlier:
            await forget_import(change.db, job)
        if not await has_session(change.db, session.id):
            asked = as_json({"import": session.path})
            await add_session(change.db, session.id, asked, records.hostname, (__version__, ""))
        number = await add_job(change.db, session.id, new_job(finding, found, names, key))
        stages = await store_traces(change.db, number, finding)
        await store_grades(change.db, number, finding, grade_key(key))
        view = await finish(change, number, session.id, finding, found, names, stages)
        await add_score(change.db, number, grade_key(key), view.finished, msgspec.json.encode(view).decode())
        instead = f", in the place of {', '.join(f'j{job}' for job in earlier)}" if earlier else ""
        text = f"{view.model} {view.benchmark} {view.kind}: imported from {GRADER}{instead}"
        data = json.loads(msgspec.json.encode(view))
        await change.note("job.score", job=view.job, session=session.id, text=text, data=data)
    if earlier:
        waiting.tally.forget()
    return number, "replaced" if earlier else "imported"


def new_job(finding: Finding, found: Recount, names: tuple[str, str], key: str) -> NewJob:
    """The job as if it had been queued here. It has no weights: which file answered is not known."""
    return NewJob(
        model=finding.model,
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
        configuration=as_json(configuration(finding, found, names[1])),
        grader=GRADER,
        grader_version=IMPORTED,
        grading="{}",
        benchmark_version=0,
        rows_sha256=rows_identity(finding.verdicts),
        seed=0,
        row_limit=None,
        numerics=IMPORTED,
        repeats=found.repeats,
        stages=finding.stages,
        total=len(finding.places | finding.verdicts.keys()),
        run_log_dir="",
    )


def configuration(finding: Finding, found: Recount, kind: str) -> dict[str, object]:
    """What is known of how it was asked, in the shape of ours."""
    stages = [
        {"name": f"stage{number}", "mode": "generate", "sampling": finding.sampling.get(f"stage{number}", {})}
        for number in range(1, finding.stages + 1)
    ]
    return {
        "kind": kind,
        "profile": GRADER,
        "profile_version": 0,
        "stages": stages,
        "repeats": found.repeats,
        "chain_of_thought": finding.cot,
    }


async def store_traces(db: Transaction, job: int, finding: Finding) -> int:
    """Prompts and completions, read a second time; returns how many stages are stored. The file is parsed beside the
    event loop, a slice at a time."""
    stages, seen = 0, set[Place]()
    source = finding.traces() if finding.traces else iter(())
    while some := await asyncio.to_thread(lambda: list(islice(source, SLICE))):
        fresh = list(not_seen(some, seen))
        turns = [(trace.place, number, turn) for trace in fresh for number, turn in enumerate(trace.turns)]
        await add_prompts(db, [(job, place[0], number, turn.prompt) for place, number, turn in turns])
        await add_completions(db, [(job, *place, number, turn.completion, turn.stop) for place, number, turn in turns])
        stages += len(turns)
    return stages


def not_seen(traces: list[Trace], seen: set[Place]) -> Iterator[Trace]:
    """Yield the traces of samples that are not in `seen`, and add them to it."""
    for trace in traces:
        if trace.place not in seen:
            seen.add(trace.place)
            yield trace


async def store_grades(db: Transaction, job: int, finding: Finding, key: str) -> None:
    """Samples and their verdicts. One without a verdict is an error, never a wrong answer."""
    places = iter(sorted(finding.places | finding.verdicts.keys()))
    while some := list(islice(places, SLICE)):
        await add_samples(db, [(job, *place) for place in some])
        await add_grades(db, [grade_row(finding, place, job, key) for place in some])


def grade_row(finding: Finding, place: Place, job: int, key: str) -> tuple[object, ...]:
    """Return a sample's verdict in the order of columns that `add_grades` takes; without a verdict the value is None
    and the reason `error`."""
    verdict = finding.verdicts.get(place)
    if verdict is None:
        return (key, None, reason_of(None), "", None, "it came without a verdict", job, *place)
    value = float(verdict.passed)
    return (key, value, reason_of(verdict), verdict.expected, verdict.answer or None, verdict.why, job, *place)


async def finish(
    change: Change, number: int, session: str, finding: Finding, found: Recount, names: tuple[str, str], stages: int
) -> ScoreView:
    """Fill in what is known when everything is stored; returns the score's view."""
    version, grade_key = await work_of(change.db, number)
    created = moment(finding.created) or now()
    total = len(finding.places | finding.verdicts.keys())
    right = float(sum(verdict.passed for verdict in finding.verdicts.values()))
    await update_job(
        change.db, number, done=total, stages_done=stages, right_sum=right, attempt=1, started=created, finished=now()
    )
    return ScoreView(
        job=f"j{number}",
        model=finding.model,
        benchmark=names[0],
        kind=names[1],
        version=version,
        primary=found.primary,
        metrics=found.metrics,
        n=total or finding.samples,
        rows=found.rows,
        repeats=found.repeats,
        scored=len(finding.verdicts),
        truncated=finding.cut_off,
        errors=len(finding.places - finding.verdicts.keys()),
        why_null=found.why_null,
        finished=created,
        session=session,
        warnings=warnings_of(finding, found),
        provenance=provenance(finding, found, names[1], grade_key),
    )


def warnings_of(finding: Finding, found: Recount) -> tuple[str, ...]:
    """What a reader of the score must know."""
    said = [f"imported: {words}" for words in found.disagreements]
    if not (finding.places or finding.verdicts):
        said.append("imported without samples: nothing could be checked")
    if finding.duplicates:
        said.append(f"imported: {finding.duplicates} lines repeat a sample; the first one counts")
    return tuple(said)


def provenance(finding: Finding, found: Recount, kind: str, key: str) -> dict[str, object]:
    """Where it came from. What compares scores finds the fields it asks for, and that they are not ours."""
    return {
        "imported": {
            "program": GRADER,
            "layout": finding.layout,
            "source": str(finding.source),
            "files": finding.files,
            "dataset": finding.dataset,
            "task": finding.task,
            "metrics": finding.metrics,
            "created_at": finding.created,
            "disagreements": list(found.disagreements),
            "duplicates": finding.duplicates,
            **finding.more,
        },
        "weights_name": finding.model,
        "weights_sha256": "",
        "rows_sha256": rows_identity(finding.verdicts),
        "benchmark_version": 0,
        "grader": GRADER,
        "grader_version": IMPORTED,
        "grading": {},
        "rwkvctl_version": __version__,
        "configuration": configuration(finding, found, kind),
        "limit": None,
        "numerics": IMPORTED,
        "grade_key": key,
        **by_subject(finding, found),
    }


def by_subject(finding: Finding, found: Recount) -> dict[str, object]:
    """The subjects as they came, where nothing speaks against the numbers beside them."""
    if not finding.subjects or found.disagreements:
        return {}
    macro = fmean(subject["value"] for subject in finding.subjects.values())
    return {"groups": finding.subjects, "macro": macro}
