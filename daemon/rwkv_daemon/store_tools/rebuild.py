"""Building a new store from the run directories, for when the old one cannot be read any more.

A run directory holds enough for the job, its attempts, samples, verdicts and scores, under their old numbers. Nothing
starts by itself afterwards: unfinished jobs are `stopped`, and jobs that lack only their score get one from the daemon.
What only the store knew is lost, and is reported.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from rwkv_daemon.harness.outputs import result
from rwkv_daemon.store import Store, open_store
from rwkv_daemon.store.location import daemon_name, store_place
from rwkv_daemon.store.queries.jobs import any_job, update_job
from rwkv_daemon.store.queries.samples import ingest, refresh_counts
from rwkv_daemon.store.queries.verdicts import add_verdicts, copy_for_judge, numbers_of
from rwkv_daemon.store.sqlite_files import jobs_in_file, problem_of_file, set_aside
from rwkv_daemon.store.table_copy import insert
from rwkv_daemon.store.wall_time import now
from rwkv_daemon.store_tools.kept_runs import KeptJob, kept_engines, kept_jobs
from rwkv_daemon.store_tools.offline import RefusedHereError, ToolResult, daemon_down, described
from rwkv_daemon.workers import worker_process
from rwkv_daemon.workers.run_directory import read_records
from rwkvctl.protocol.training.harnesses import is_harness
from rwkvctl.settings.config import Config

AT_ONCE: Final = 2000
"""Records per transaction."""

LOST: Final = (
    "jobs that never ran (dispatch again: what is done is not done twice)",
    "scores that were imported or given (import or add them again)",
    "events and the audit trail",
    "what the checker found, what people decided about it, and points that searches promoted",
    "what judges and endpoints were paid, so budgets begin anew, and replies that no sample holds yet",
    "recipes (run them again: no sample is made twice)",
    "pauses, GPU quarantines and reservations, measured rates, notices that were not sent yet",
    "watched folders and pinned baselines",
)
"""What no run directory holds."""


@dataclass(slots=True)
class RebuildCounts:
    """How many jobs, samples and scores a rebuild has restored, which jobs lack their score or were unfinished, and
    what could not be read."""

    jobs: int = 0
    samples: int = 0
    scores: int = 0
    unscored: list[str] = field(default_factory=list)
    unfinished: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


async def rebuild(settings: Config, *, sure: bool) -> ToolResult:
    """Set the store aside and build another. Raises RwkvctlError, OSError, StoreError."""
    place = store_place(settings)
    with daemon_down(settings, "rebuild"):
        aside = make_way(place, sure=sure) if isinstance(place, Path) else None
        worker_process.end_all(settings.runs_dir)
        store = await open_store(place, daemon_name(settings))
        try:
            if (job := await any_job(store)) is not None:
                raise RefusedHereError(
                    f"{described(place)} holds jobs (j{job} for one); rebuild fills an empty database only."
                )
            found = await from_runs(settings, store)
        finally:
            await store.close()
    return told(place, aside, found)


def make_way(place: Path, *, sure: bool) -> Path | None:
    """Rename the old file; returns its new path. Raises RefusedHereError if it is whole and --yes was not given."""
    if not place.exists():
        return None
    jobs = jobs_in_file(place)
    if jobs and not problem_of_file(place) and not sure:
        raise RefusedHereError(
            f"{place} is whole and holds {jobs:,} jobs; a rebuilt store would know less. `rwkvctl rebuild --yes` sets "
            "it aside all the same."
        )
    return set_aside(place, "damaged")


async def from_runs(settings: Config, store: Store) -> RebuildCounts:
    """Restore everything that the run directories hold into an empty store, and return what was restored."""
    found = RebuildCounts()
    engines, problems = kept_engines(settings.runs_dir)
    found.problems += problems
    async with store.write() as db:
        for engine in engines:
            ended = {"state": "gone", "detail": "known from its directory", "ended": engine["ended"] or now()}
            await insert(db, "engine", engine | ended)
        await db.count_on("engine", "id")
    jobs, problems = kept_jobs(settings.runs_dir)
    found.problems += problems
    for kept in jobs:
        await add_job(store, kept)
        await add_samples(store, kept, found)
        await finish(store, kept, found)
    async with store.write() as db:
        await db.count_on("job", "id")
    return found


async def add_job(store: Store, kept: KeptJob) -> None:
    """Add the job with its session and attempts, without samples."""
    fresh = {"state": "stopped", "done": 0, "stages_done": 0, "right_sum": 0.0, "judged": 0}
    fresh |= {"engine": None, "checking": ""}
    async with store.write() as db:
        await insert(db, "session", kept.session)
        await insert(db, "job", kept.job | fresh)
        for attempt in kept.attempts.values():
            ended = {"state": "ended", "ingested": 0, "ended": attempt.row["ended"] or now()}
            await insert(db, "attempt", attempt.row | ended)


async def add_samples(store: Store, kept: KeptJob, found: RebuildCounts) -> None:
    """Add what its runners wrote, each attempt under its grade key, and the judge's verdicts. Existing rows stay, so
    the last record is added first."""
    number = int(kept.job["id"])
    for attempt in reversed(kept.attempts.values()):
        records = list(read_records(attempt.samples))
        size = attempt.samples.stat().st_size if attempt.samples.exists() else 0
        for start in range(0, len(records), AT_ONCE):
            async with store.write() as db:
                piece = records[start : start + AT_ONCE]
                await ingest(db, number, attempt.number, attempt.grade_key, piece, size)
    known = {attempt.grade_key for attempt in kept.attempts.values()}
    for grade_key, verdicts in kept.verdicts.items():
        async with store.write() as db:
            if grade_key not in known:
                await copy_for_judge(db, number, kept.last_key, grade_key)
            numbers = await numbers_of(db, number)
            placed = [one.judged(numbers[one.place]) for one in verdicts if one.place in numbers]
            await add_verdicts(db, grade_key, placed)
    found.jobs += 1


async def finish(store: Store, kept: KeptJob, found: RebuildCounts) -> None:
    """Add its scores, and set its state."""
    job = kept.job
    number, name = int(job["id"]), f"j{job['id']}"
    async with store.write() as db:
        for score in kept.scores:
            await insert(db, "score", score)
        counts = await refresh_counts(db, number, job["grade_key"])
        scored = any(score["grade_key"] == job["grade_key"] for score in kept.scores)
        if scored and job["state"] == "done":
            await update_job(db, number, state="done")
        elif is_harness(job["kind"]) and has_result(kept, counts.done):
            found.unscored.append(name)
            await update_job(db, number, state="generating", reason="", detail="its score is stored again")
        elif job["total"] and counts.done >= job["total"]:
            found.unscored.append(name)
            await update_job(db, number, state="judging", reason="", detail="its score is computed again")
        else:
            found.unfinished.append(name)
            there = f"{counts.done} of {job['total']} samples are there" if job["total"] else "it begins anew"
            text = f"rebuilt from its run directory: {there}"
            await update_job(db, number, state="stopped", reason="", detail=text)
    found.samples += counts.done
    found.scores += len(kept.scores)


def has_result(kept: KeptJob, samples: int) -> bool:
    """Whether an outside harness has left a whole result, whose score the daemon did not store any more."""
    attempt = kept.attempts.get(int(kept.job["attempt"]))
    found = result.read(attempt.samples.parent, attempt.number) if attempt is not None else None
    return found is not None and found.state in result.USABLE and samples >= found.samples


def told(place: Path | str, aside: Path | None, found: RebuildCounts) -> ToolResult:
    """Return the result: what was built, what is to be done, and what is lost."""
    lines = [f"the old store is kept as {aside}"] if aside else []
    lines += [f"{described(place)} holds {found.jobs:,} jobs, {found.samples:,} samples and {found.scores:,} scores"]
    if found.unscored:
        lines += [f"the daemon computes the scores of {len(found.unscored)} jobs when it starts"]
    if found.unfinished:
        lines += [f"{len(found.unfinished)} jobs were unfinished and are stopped: `rwkvctl resume --all` goes on"]
    lines += [f"could not be read: {problem}" for problem in found.problems]
    lines += ["not in run directories, and lost with the old store:", *(f"  {one}" for one in LOST)]
    fields = {
        "store": described(place),
        "set_aside": str(aside or ""),
        "jobs": found.jobs,
        "samples": found.samples,
        "scores": found.scores,
        "unscored": found.unscored,
        "unfinished": found.unfinished,
        "problems": found.problems,
        "lost": list(LOST),
    }
    return ToolResult(lines, fields)
