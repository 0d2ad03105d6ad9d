"""`dispatch --wait`: follow jobs over the event stream until all have ended, then show their scores."""

import json
import time
from collections.abc import Iterable
from typing import Final

from rwkvctl.cli.client import Answer, CutError, Record
from rwkvctl.cli.context import Context
from rwkvctl.cli.job_progress import Progress
from rwkvctl.cli.tables import core_tables
from rwkvctl.protocol.errors import Exit, NotNowError, RefusedError, UnreachableError
from rwkvctl.protocol.states import TERMINAL
from rwkvctl.text.json_envelope import envelope

SILENCE_S: Final = 45.0
"""The daemon sends heartbeats; a longer silence means that the connection is dead."""

PAUSE_S: Final = 1.0
PAGE: Final = 500
PASSING: Final = frozenset(
    {
        "",
        "weights-hashing",
        "weights-copying",
        "retry",
        "waits-for-engine",
        "group-limit",
        "paused",
        "disk-low",
        "no-fit",
        "queued",
    }
)
"""Reasons that pass by themselves; a job held for another one needs the operator, and is not waited for."""


class AwaitedJobs:
    """The jobs that are waited for, by id, as last heard of."""

    def __init__(self, ids: Iterable[str], deadline: float | None) -> None:
        self.jobs: dict[str, Record] = {name: {} for name in ids}
        self.deadline, self.seq = deadline, -1

    def hear(self, job: Record) -> None:
        """Update one job."""
        if job.get("id") in self.jobs:
            self.jobs[job["id"]] = job

    def hear_of_many(self, moved: Record) -> None:
        """Update the state of many jobs at once (event `jobs.state`)."""
        for name in self.jobs.keys() & {f"j{number}" for number in moved["jobs"]}:
            self.jobs[name] = self.jobs[name] | {"id": name, "state": moved["state"], "reason": ""}

    def score(self, score: Record) -> None:
        """Update the score of a job."""
        if self.jobs.get(score.get("job", "")):
            self.jobs[score["job"]] |= {"score": score}

    def forget(self, ids: Iterable[str]) -> None:
        """Remove jobs that the daemon does not know."""
        for name in ids:
            del self.jobs[name]

    def is_over(self) -> bool:
        """Return whether every job has ended or needs the operator."""
        return all(has_ended(job) for job in self.jobs.values())

    @property
    def left_s(self) -> float:
        """Seconds until the deadline: negative after it, infinite if there is none."""
        return float("inf") if self.deadline is None else self.deadline - time.monotonic()


def has_ended(job: Record) -> bool:
    """Return whether a job has ended, or is held until an operator acts."""
    return job.get("state") in TERMINAL or (job.get("state") == "held" and job.get("reason", "") not in PASSING)


def wait(context: Context, dispatched: Answer, timeout_s: float | None) -> int:
    """Follow the jobs of a dispatch; the exit code says how they ended."""
    reply = dispatched.value
    rows = reply["plan"]["rows"]
    ids = dict.fromkeys(
        [*reply["jobs"], *(row["job"] for row in rows if row.get("job") and row["reason"] != "excluded")]
    )
    waiting = AwaitedJobs(ids, None if timeout_s is None else time.monotonic() + timeout_s)
    progress = Progress(context.terminal)
    try:
        follow(context, waiting, progress)
    except KeyboardInterrupt:
        progress.close()
        context.say(f"stopped waiting; the jobs continue. To stop them: rwkvctl stop {' '.join(unfinished(waiting))}")
        return Exit.INTERRUPTED
    progress.close()
    if not waiting.is_over():
        said = f"not finished after {timeout_s:g} s; the jobs continue."
        raise RefusedError("timed-out", said, f"See: rwkvctl status --session-id {reply['session']}", Exit.TIMEOUT)
    return conclude(context, reply, list(waiting.jobs.values()))


def unfinished(waiting: AwaitedJobs) -> list[str]:
    """Return the ids of jobs that have not ended."""
    return [name for name, job in waiting.jobs.items() if not has_ended(job)]


def follow(context: Context, waiting: AwaitedJobs, progress: Progress) -> None:
    """Read events until all jobs have ended or the deadline; reconnect if the daemon goes away."""
    away = False
    while waiting.jobs and not waiting.is_over() and waiting.left_s > 0:
        try:
            refresh(context, waiting)
            away = False
            progress.draw(waiting.jobs.values())
            listen(context, waiting, progress)
        except TimeoutError:
            continue
        except (ConnectionError, UnreachableError):
            if not away:
                progress.say("lost the connection to the daemon; reconnecting (running jobs continue)")
            away = True
            time.sleep(min(PAUSE_S, max(0.0, waiting.left_s)))


def refresh(context: Context, waiting: AwaitedJobs) -> None:
    """Ask for the jobs that are not known to be over, page by page, newest first.

    The number of the last event is asked for before, so that no change falls between this and the event stream.
    """
    if waiting.seq < 0:
        waiting.seq = context.client.get("/v1/status", limit=1).value.get("last_event", 0)
    wanted, before = set(unfinished(waiting)), None
    while wanted:
        reply = context.client.get("/v1/jobs", limit=PAGE, before=before).value
        refuse_stale(reply)
        for job in reply["items"]:
            waiting.hear(job)
            wanted.discard(job["id"])
        before = reply.get("next") or None
        if before is None:
            waiting.forget(wanted)
            return


def refuse_stale(reply: Record) -> None:
    """Raise NotNowError for a stale reply, because no decision may rest on it."""
    if since := reply.get("stale_since"):
        raise NotNowError("store-trouble", f"The daemon's store has not answered since {since}.", "Try again later.")


def listen(context: Context, waiting: AwaitedJobs, progress: Progress) -> None:
    """Read one connection's events until all jobs are over, it is cut, or time is up."""
    if waiting.is_over():
        return
    silence = min(SILENCE_S, max(0.05, waiting.left_s))
    for line in context.client.stream("/v1/events", silence, since=waiting.seq, follow=True):
        event = json.loads(line)
        waiting.seq = max(waiting.seq, event.get("seq", 0))
        if event["kind"] == "jobs.state":
            waiting.hear_of_many(event["data"])
        if event["kind"].startswith("job."):
            take = waiting.score if event["kind"] == "job.score" else waiting.hear
            take(event.get("data", {}))
            progress.draw(waiting.jobs.values())
        if waiting.is_over() or waiting.left_s <= 0:
            return
    raise CutError("the event stream ended")


def conclude(context: Context, reply: Record, jobs: list[Record]) -> int:
    """Show the scores and say which jobs have none."""
    whole = [context.client.get(f"/v1/jobs/{job['id']}").value["item"] for job in jobs]
    scores = [job["score"] for job in whole if job.get("score")]
    raw = envelope("rwkvctl.waited/1", {"session": reply["session"], "items": scores, "jobs": whole})
    context.show(Answer(raw.encode(), {}), core_tables.scores(scores))
    others = [job for job in whole if job["state"] != "done"]
    for job in others:
        why = core_tables.why(job)
        context.say(f"{job['id']} {job['model']} {job['benchmark']} {job['kind']}: {job['state']}. {why}".rstrip())
    return outcome(whole)


def outcome(jobs: list[Record]) -> int:
    """0 all done; 1 a job failed or was stopped; 8 some are held and the rest done."""
    if any(job["state"] in {"failed", "stopped"} for job in jobs):
        return Exit.FAILED
    if all(job["state"] == "done" for job in jobs):
        return Exit.OK
    return Exit.PARTLY if any(job["state"] == "done" for job in jobs) else Exit.FAILED
