"""The order of requests: jobs take turns, so that a big one cannot starve a small one. Higher priorities come first.

A request that two jobs want is in the queue of both, and is taken from whichever comes up first. One that failed is set
aside until its time has come, and is then the next of its job.
"""

import heapq
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from rwkv_daemon.remote.request import PendingRequest


@dataclass(slots=True)
class RequestQueue:
    """Requests by job. The order of `jobs` is the order of turns; `aside` holds (time, counter, request) of those to
    retry."""

    jobs: dict[str, deque[PendingRequest]] = field(default_factory=dict)
    priorities: dict[str, int] = field(default_factory=dict)
    aside: list[tuple[float, int, PendingRequest]] = field(default_factory=list)
    counter: int = 0

    def add(self, job: str, request: PendingRequest) -> None:
        """Append a request to the queue of a job."""
        self.jobs.setdefault(job, deque()).append(request)

    def put_aside(self, request: PendingRequest, until: float) -> None:
        """Set a request aside until a time, after which it is in the queue again."""
        request.queued, request.not_before = True, until
        self.counter += 1
        heapq.heappush(self.aside, (until, self.counter, request))

    def next(self, now: float, allowed: Callable[[str, PendingRequest], bool]) -> tuple[str, PendingRequest] | None:
        """Return the job whose turn it is and its first request; jobs whose first one is not allowed are passed
        over."""
        self._call_back(now)
        for job in sorted(self.jobs, key=lambda job: -self.priorities.get(job, 0)):
            waiting = self.jobs[job]
            while waiting and (not waiting[0].queued or waiting[0].not_before > now):
                waiting.popleft()  # taken from another job's queue, or set aside since: it comes back by itself
            if waiting and allowed(job, waiting[0]):
                return job, waiting[0]
        return None

    def take(self, job: str, request: PendingRequest) -> None:
        """Note that the job has had its turn; it goes behind the others."""
        request.queued = False
        waiting = self.jobs.pop(job)
        waiting.popleft()
        if waiting:
            self.jobs[job] = waiting

    def due(self) -> float | None:
        """Return when the first request that was set aside may be sent again."""
        while self.aside and not self.aside[0][2].queued:
            heapq.heappop(self.aside)
        return self.aside[0][0] if self.aside else None

    def requests(self) -> list[PendingRequest]:
        """Return every waiting request once, those set aside for a later retry included."""
        everyone = [request for waiting in self.jobs.values() for request in waiting]
        everyone += [request for _, _, request in self.aside]
        return list(dict.fromkeys(request for request in everyone if request.queued))

    def _call_back(self, now: float) -> None:
        while self.aside and self.aside[0][0] <= now:
            request = heapq.heappop(self.aside)[2]
            if request.queued:
                for job in request.jobs:
                    self.jobs.setdefault(job, deque()).appendleft(request)
