"""What a job generates now: one sample at a time, asked of the engines that it uses."""

import json
from pathlib import Path
from typing import Final

from rwkv_daemon.engines import engine_questions
from rwkv_daemon.engines.engine_questions import NoAnswerError
from rwkv_daemon.scheduling.live_engines import EngineHandle, Engines
from rwkv_daemon.scheduling.running_jobs import RunningJobs
from rwkv_daemon.store import JobRow
from rwkvctl.protocol.engine import GroupNow
from rwkvctl.protocol.replies import NowReply
from rwkvctl.protocol.requests import NowRequest

FIELDS: Final = 6
"""Parts of a request's name as the runner builds it: job, attempt, row, repeat, stage, deaths."""


async def now(running: RunningJobs, engines: Engines, job: JobRow, request: NowRequest) -> NowReply:
    """Return the sample that is asked for, or the first one in progress. `request.sample` is `e3/ID/INDEX`, as in an
    earlier reply."""
    name, _, rest = request.sample.partition("/")
    sample, _, index = rest.rpartition("/")
    asked = engines_of(running, engines, job)
    for engine in sorted(asked, key=lambda one: one.row.name != name):
        known = (sample, int(index), request.step) if engine.row.name == name and index.isdecimal() else ("", 0, 0)
        try:
            found = await engine_questions.group_now(Path(engine.row.socket), f"j{job.id}", *known)
        except NoAnswerError:
            continue
        if found.count:
            return reply(job, engine, found)
    return NowReply(note=why_none(job, asked))


def engines_of(running: RunningJobs, engines: Engines, job: JobRow) -> list[EngineHandle]:
    """Return the engines that work for a job."""
    handle = running.runners.get(job.id)
    numbers = {handle.engine, *handle.endpoints} if handle is not None else set()
    return [engines.live[number] for number in sorted(filter(None, numbers)) if number in engines.live]


def why_none(job: JobRow, engines: list[EngineHandle]) -> str:
    """Return why no sample of the job is being generated right now."""
    if job.state not in {"starting", "generating"}:
        return f"{job.name} is {job.state}"
    return (
        "no text is being generated: choices are scored, or the engine is between two batches"
        if engines
        else ("no engine works for it yet")
    )


def reply(job: JobRow, engine: EngineHandle, found: GroupNow) -> NowReply:
    """Return a sample as its job sees it. Repeats that were sent in one request are numbered in order."""
    parts = [int(part) for part in found.id.split(".") if part.isdecimal()]
    row, repeat, stage = parts[2:5] if len(parts) == FIELDS else (0, 0, 0)
    names = [one["name"] for one in json.loads(job.configuration or "{}").get("stages", ())]
    return NowReply(
        count=found.count,
        place=found.place,
        sample=f"{engine.row.name}/{found.id}/{found.index}",
        row=row,
        repeat=repeat + found.index,
        stage=names[stage] if stage < len(names) else str(stage),
        prompt=found.prompt,
        text=found.text,
        tokens=found.tokens,
        max_tokens=found.max_tokens,
        engine=engine.row.name,
    )
