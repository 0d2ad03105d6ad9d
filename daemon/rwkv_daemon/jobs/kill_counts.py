"""What the daemon does when somebody outside has ended one of its processes: it counts and reports it. The rules are in
`rules.outside_kills`."""

import time
from typing import Any

from rwkv_daemon.changes.change import Change
from rwkv_daemon.jobs.pause_resume import put_aside_in
from rwkv_daemon.jobs.stop_intents import apply
from rwkv_daemon.judge.judges import Judges
from rwkv_daemon.rules import outside_kills
from rwkv_daemon.rules.outside_kills import RecentKills
from rwkv_daemon.scheduling.node_work import NodeWork
from rwkv_daemon.store import JobRow
from rwkv_daemon.store.queries.jobs import ACTIVE, jobs_by_id, update_job


def counted(job: JobRow) -> dict[str, Any]:
    """Return the columns of a job whose runner or engine was just ended from outside."""
    return {"kills": outside_kills.in_a_row(job.kills, job.killed_at, job.stages_done), "killed_at": job.stages_done}


def too_often(job: JobRow, what: str) -> str:
    """Return why a job is held that makes no progress; empty if it may be tried again."""
    count = counted(job)["kills"]
    if count < outside_kills.MOST:
        return ""
    return f"ended from outside {count} times in a row, the last time {what}; `rwkvctl resume {job.name}` tries again"


async def tell(kills: RecentKills, change: Change, what: str, *, job: JobRow | None = None, engine: str = "") -> None:
    """Store an event about an end from outside, and an alarm if it happens again and again."""
    whose = (job.id, job.attempt) if job else engine
    alarm = kills.note(time.monotonic(), what, whose)
    text = f"{what}: something outside rwkvctl did that; it does not count as a failure, and the work is retried"
    named = {"job": job.name, "session": job.session} if job else {}
    data = {"alarm": alarm, "said": kills.sentence(time.monotonic())}
    await change.note("killed", engine=engine, text=text, data=data, **named)


async def engine_killed(work: NodeWork, judges: Judges, engine: int, name: str, how: str) -> bool:
    """Count an end of an engine from outside with the jobs it served. Returns whether one of those has made progress
    since the kill before."""
    numbers = [n for n, handle in work.running.runners.items() if engine in {handle.engine, *handle.endpoints}]
    found = await jobs_by_id(work.records.store, numbers)
    served = [job for job in found if job.state in ACTIVE and job.state != "stopping"]
    async with work.records.change() as change:
        for job in served:
            await update_job(change.db, job.id, **counted(job))
            if why := too_often(job, f"its engine {name}: {how}"):
                await put_aside_in(judges, change, job, "hold", "killed", why)
        await tell(work.engines.kills, change, f"{name} was ended ({how})", engine=name)
    await apply(work.records, work.waiting.pauses, work.running)
    return any(counted(job)["kills"] == 1 for job in served)
