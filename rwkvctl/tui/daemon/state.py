"""What the console knows: plain data, changed only by replies and events. Screens read it and draw."""

from collections import deque
from dataclasses import dataclass, field
from datetime import UTC, datetime

import msgspec

from rwkvctl.protocol.events import Event
from rwkvctl.protocol.replies import StatusReply
from rwkvctl.protocol.states import ACTIVE, TERMINAL, JobState
from rwkvctl.protocol.views import EngineView, JobView, LeaseView, PauseView, ScoreView
from rwkvctl.scoreboard.book import Book

EVENTS_KEPT = 200
JOBS_KEPT = 2000
USES_KEPT = 120
"""Samples of a device's use that are kept for its spark: two minutes at one a second."""

QUIET = frozenset({"heartbeat", "job.progress", "engine.stats", "lease"})
"""Kinds of events that change the picture but are no news."""


class Moved(msgspec.Struct, frozen=True):
    """What a `jobs.state` event says: these jobs were in one state and are in another."""

    was: JobState
    state: JobState
    jobs: tuple[int, ...]


@dataclass(slots=True)
class ConsoleState:
    """The node as last heard of. `problem` says why nothing is heard; then everything else is stale.

    `revision` counts every change, `news` those that are shown at once and not with the next tick. Times are seconds
    since the epoch: `heard_at` of the last word from the daemon, `lost_at` of the loss, `retry_at` of the next try.
    `lag_s` is how old the last word was when it came. `trouble` is why the daemon's store cannot be used, `stale`
    of when its last word on jobs is then.
    """

    problem: str = "connecting"
    node: str = ""
    version: str = ""
    home: str = ""
    started: float = 0.0
    disk_free_bytes: int = 0
    eta_s: float | None = None
    not_estimated: int = 0
    pauses: tuple[PauseView, ...] = ()
    notes: tuple[str, ...] = ()
    trouble: str = ""
    stale: str = ""
    seq: int = 0
    leases: dict[str, LeaseView] = field(default_factory=dict)
    engines: dict[str, EngineView] = field(default_factory=dict)
    jobs: dict[str, JobView] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    events: deque[Event] = field(default_factory=lambda: deque(maxlen=EVENTS_KEPT))
    uses: dict[str, deque[float]] = field(default_factory=dict)
    scores: Book = field(default_factory=Book)
    heard_at: float = 0.0
    lost_at: float = 0.0
    retry_at: float = 0.0
    lag_s: float = 0.0
    revision: int = 0
    news: int = 0

    def load(self, status: StatusReply, now: float) -> None:
        """Replace the state by a complete status reply; `now` is when it was received."""
        self.problem, self.node, self.version, self.home = "", status.node, status.version, status.home
        self.started = now - status.uptime_s
        self._whole(status)
        self.leases = {lease.id: lease for lease in status.leases}
        self.engines = {engine.id: engine for engine in status.engines}
        self.jobs = {job.id: job for job in (*status.running, *status.waiting, *status.recent)}
        self.counts = dict(status.counts)
        self.scores.complete = False
        self.seq = max(self.seq, status.last_event)
        self.heard_at, self.lost_at = now, 0.0
        self.revision, self.news = self.revision + 1, self.news + 1

    def refresh(self, status: StatusReply) -> bool:
        """What no event says: when all is done, what is paused, which jobs are new, when each is expected to start or
        to end, which make no progress; and the devices, since what is said of them is not kept for those who come a
        moment later.

        False if more has happened than was heard: then of jobs only the estimates are taken.
        """
        self._whole(status)
        self.leases = {lease.id: lease for lease in status.leases}
        whole = status.last_event <= self.seq
        if whole:
            self.counts = dict(status.counts)
        for job in (*status.running, *status.waiting):
            known = self.jobs.get(job.id)
            if whole or (known is not None and known.state == job.state):
                self.jobs[job.id] = job
        self.revision, self.news = self.revision + 1, self.news + 1
        return whole

    @property
    def unknown(self) -> str:
        """Return since when the daemon has not been heard; empty if it is heard."""
        if not self.problem:
            return ""
        return (
            f"not known since {datetime.fromtimestamp(self.heard_at, UTC):%H:%M:%S}"
            if self.heard_at
            else "not known yet"
        )

    def _whole(self, status: StatusReply) -> None:
        self.eta_s, self.not_estimated, self.pauses = status.eta_s, status.not_estimated, status.pauses
        self.notes, self.disk_free_bytes = status.notes, status.disk_free_bytes
        self.trouble, self.stale = status.trouble, status.as_of[11:19] if status.stale_since else ""

    def lose(self, problem: str, now: float = 0.0, retry_at: float = 0.0) -> None:
        """Mark the state as stale: the connection to the daemon is lost."""
        self.problem, self.lost_at, self.retry_at = problem, self.lost_at or now, retry_at
        self.revision, self.news = self.revision + 1, self.news + 1

    def time(self, event: Event, now: float) -> None:
        """Record when the daemon was heard, and how old its message was."""
        self.heard_at = now
        if event.seq == 0:
            self.lag_s = max(0.0, now - seconds(event.at))

    def hear(self, event: Event) -> None:
        """Apply one event. Raises msgspec.ValidationError if its data do not fit its kind. An event that the loaded
        status already includes counts only as news."""
        if event.kind not in QUIET:
            self.events.appendleft(event)
            self.news += 1
        self.revision += event.kind != "heartbeat"
        score = msgspec.convert(event.data, ScoreView) if event.kind == "job.score" and "job" in event.data else None
        if score is not None:
            self.scores.take([score])
        if 0 < event.seq <= self.seq:
            return
        self.seq = max(self.seq, event.seq)
        if score is not None and (known := self.jobs.get(score.job)):
            self.jobs[known.id] = msgspec.structs.replace(known, score=score)
        if event.kind.startswith("job.") and "id" in event.data:
            self._put(msgspec.convert(event.data, JobView), new=event.kind == "job.queued")
        elif event.kind == "jobs.state":
            self._put_many(msgspec.convert(event.data, Moved))
        elif event.kind.startswith("engine.") and "id" in event.data:
            engine = msgspec.convert(event.data, EngineView)
            self.engines[engine.id] = engine
            if engine.state in {"gone", "failed"}:
                del self.engines[engine.id]
        elif event.kind == "lease" and "id" in event.data:
            lease = msgspec.convert(event.data, LeaseView)
            self.leases[lease.id] = lease
            self.uses.setdefault(lease.id, deque(maxlen=USES_KEPT)).append(lease.utilisation or 0.0)

    def _put(self, job: JobView, *, new: bool) -> None:
        """Keep a job's newest view; a score that an earlier view had stays with it.

        A job that was not listed and is not new comes from the part of the queue that `status` left out.
        """
        before = self.jobs.get(job.id)
        if job.state == "deleted":
            self._lose(before)
            return
        self.scores.complete = self.scores.complete and (before is not None or job.state != "done")  # it is undeleted
        old_state = before.state if before else "" if new else "queued"
        if old_state != job.state:
            self.counts[old_state] = max(0, self.counts.get(old_state, 0) - 1)
            self.counts[job.state] = self.counts.get(job.state, 0) + 1
        if before and before.score and job.score is None and job.state == "done":
            job = msgspec.structs.replace(job, score=before.score)
        self.jobs[job.id] = job
        if len(self.jobs) > JOBS_KEPT:
            for old in self.ended[JOBS_KEPT // 4 :]:
                del self.jobs[old.id]

    def _put_many(self, moved: "Moved") -> None:
        """Apply a state change of very many jobs; of jobs that are not listed only the counts change."""
        self.counts[moved.was] = max(0, self.counts.get(moved.was, 0) - len(moved.jobs))
        if moved.state == "deleted":
            self.scores.forget()
        else:
            self.counts[moved.state] = self.counts.get(moved.state, 0) + len(moved.jobs)
        for name in self.jobs.keys() & {f"j{number}" for number in moved.jobs}:
            if moved.state == "deleted":
                del self.jobs[name]
            else:
                self.jobs[name] = msgspec.structs.replace(self.jobs[name], state=moved.state, reason="", detail="")

    def _lose(self, job: JobView | None) -> None:
        """Remove a deleted job; if it had the newest score, an older score takes its place."""
        if job is not None:
            del self.jobs[job.id]
            self.counts[job.state] = max(0, self.counts.get(job.state, 0) - 1)
        self.scores.forget()

    @property
    def running(self) -> list[JobView]:
        """Return the jobs in an active state, oldest first."""
        return sorted((job for job in self.jobs.values() if job.state in ACTIVE), key=number)

    @property
    def waiting(self) -> list[JobView]:
        """Return the jobs that wait, in order of priority and age."""
        found = [job for job in self.jobs.values() if job.state not in ACTIVE | TERMINAL]
        return sorted(found, key=lambda job: (-job.priority, job.state == "held", number(job)))

    @property
    def ended(self) -> list[JobView]:
        """Return the jobs in a terminal state, newest first."""
        return sorted((job for job in self.jobs.values() if job.state in TERMINAL), key=number, reverse=True)


def seconds(stamp: str) -> float:
    """Return an RFC 3339 stamp as seconds since the epoch; 0 if it is not one."""
    try:
        return datetime.fromisoformat(stamp).timestamp()
    except ValueError:
        return 0.0


def stamp(at: float) -> str:
    """Return a time as an RFC 3339 stamp."""
    return datetime.fromtimestamp(at, UTC).isoformat()


def number(job: JobView) -> int:
    """Return the number in a job's id, for sorting."""
    digits = job.id.lstrip("j")
    return int(digits) if digits.isdecimal() else 0
