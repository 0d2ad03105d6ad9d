"""Jobs, scores and samples as messages for clients."""

import json
import time
from collections.abc import Mapping, Sequence

import msgspec

from rwkv_daemon.catalogue import second_names
from rwkv_daemon.changes import job_view
from rwkv_daemon.changes.records import Records
from rwkv_daemon.jobs import stop_intents
from rwkv_daemon.scheduling.running_jobs import RunningJobs
from rwkv_daemon.scheduling.waiting_jobs import WaitingJobs
from rwkv_daemon.store import JobRow, StoreRow
from rwkv_daemon.store.queries.samples import score_of_work, scores_of, stages_of
from rwkvctl.protocol.views import JobView, SampleView, ScoreView, StageView

score_decoder = msgspec.json.Decoder(ScoreView)


class UnreadScore(ScoreView, frozen=True, kw_only=True, omit_defaults=True):
    """A score whose provenance, nearly all of its bytes, is left undecoded."""

    provenance: dict[str, msgspec.Raw] = msgspec.field(default_factory=dict)  # type: ignore[assignment]  # raw objects


unread_decoder = msgspec.json.Decoder(UnreadScore)


def brief_score(view: str) -> ScoreView:
    """Decode a score without its provenance, except whether it was imported."""
    score = unread_decoder.decode(view)
    kept = {"imported": score.provenance["imported"]} if "imported" in score.provenance else {}
    return msgspec.structs.replace(score, provenance=kept)


async def live_job_view(
    records: Records, waiting: WaitingJobs, running: RunningJobs, job: JobRow, *, with_score: bool = False
) -> JobView:
    """Return a job with its measured speed, and its score if asked for."""
    return (await live_job_views(records, waiting, running, [job], with_score=with_score))[0]


async def live_job_views(
    records: Records, waiting: WaitingJobs, running: RunningJobs, jobs: Sequence[JobRow], *, with_score: bool = False
) -> tuple[JobView, ...]:
    """Return many jobs with their measured speeds, in their order."""
    scores = await scores_by_job(records, [job for job in jobs if with_score and job.state == "done"])
    return tuple(
        job_view.job_view(
            job,
            rate=rate_of(running, job),
            score=scores.get(job.id),
            detail=stop_intents.still_running(records, running, job)
            or lost_twin(job, scores, asked=with_score)
            or harness_progress(running, job),
            expected=waiting.forecast.jobs.get(job.id),
            idle_s=idle_of(running, job),
        )
        for job in jobs
    )


async def scores_by_job(records: Records, jobs: Sequence[JobRow]) -> dict[int, ScoreView]:
    """Return the score of each job: its own, or that of the job which measured the same."""
    own = await scores_of(records.store, [job.id for job in jobs])
    scores = {number: score_decoder.decode(view) for number, view in own.items()}
    for job in jobs:
        if not second_names.is_same_work(job):
            continue
        if view := await score_of_work(records.store, job.generation_key, job.grade_key):
            scores[job.id] = second_names.renamed(score_decoder.decode(view), job.model)
    return scores


def lost_twin(job: JobRow, scores: Mapping[int, ScoreView], *, asked: bool) -> str:
    """Return the note beside a job that used another one's score, if that job was deleted since; else empty."""
    lost = asked and second_names.is_same_work(job) and job.id not in scores
    return "the job whose score it used is deleted; dispatch again to measure it" if lost else ""


def harness_progress(running: RunningJobs, job: JobRow) -> str:
    """Return how far an outside harness is, which alone knows how many rows there are; empty for any other job."""
    handle = running.runners.get(job.id)
    return handle.progress or "" if handle is not None and not job.total else ""


def rate_of(running: RunningJobs, job: JobRow) -> float | None:
    """Return the samples a second of a running job; None if it does not run."""
    handle = running.runners.get(job.id)
    return handle.rate(job.done) if handle else None


def idle_of(running: RunningJobs, job: JobRow) -> float | None:
    """Return how long (s) a running job has finished no sample, if that is far more than usual; else None."""
    handle = running.runners.get(job.id)
    return handle.pace.idle_s(time.monotonic()) if handle and job.done < job.total else None


async def sample_views(
    records: Records, job: JobRow, rows: Sequence[StoreRow], stage_names: list[str], *, tail: int = 0
) -> tuple[SampleView, ...]:
    """Return samples with the prompt and completion of each stage. `tail`: only so many characters at the end of each
    text."""
    stages = await stages_of(records.store, job.id, [(row["row"], row["repeat"]) for row in rows])
    return tuple(sample_view(row, stages[row["row"], row["repeat"]], stage_names, tail) for row in rows)


def sample_view(row: StoreRow, stages: Sequence[StoreRow], stage_names: list[str], tail: int = 0) -> SampleView:
    """Return a graded sample with its stages. A positive `tail` keeps that many characters at the end of each text and
    leaves `judge` empty."""
    extracted = row["extracted"]
    return SampleView(
        number=row["number"],
        row=row["row"],
        repeat=row["repeat"],
        value=row["value"],
        reason=row["reason"],
        expected=row["expected"][-tail:],
        extracted=None if extracted is None else extracted[-tail:],
        detail=row["detail"],
        route=row["route"],
        parts=json.loads(row["parts"]),
        judge={} if tail else json.loads(row["judge"]),
        stages=tuple(
            StageView(
                stage=stage_names[s["stage"]] if s["stage"] < len(stage_names) else str(s["stage"]),
                prompt=s["prompt"][-tail:],
                completion=s["text"][-tail:],
                stop=s["stop"] or "choice",
                prompt_tokens=s["prompt_tokens"],
                generated_tokens=s["generated_tokens"],
                seconds=s["seconds"],
                engine=s["engine"],
                logprobs=tuple(json.loads(s["logprobs"])),
            )
            for s in stages
        ),
    )
