"""How many jobs are in each state, counted once and then updated with each change, so that a `status` does not count a
million jobs."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from rwkv_daemon.changes.change import StateChange
from rwkv_daemon.store import Store, StoreError
from rwkv_daemon.store.queries.jobs import GOING, count_newer, count_of_session, counts, newest_job


@dataclass(slots=True)
class StateCounts:
    """Jobs by state, of those up to number `newest`: of all sessions, and of each session that was asked for. `held`
    and `over` count how often jobs became held, and ended: a change tells that held jobs may have to be checked."""

    sessions: dict[str, Counter[str]] = field(default_factory=dict)
    whole: Counter[str] = field(default_factory=Counter)
    newest: int = 0
    held: int = 0
    over: int = 0

    def follow(self, steps: Iterable[StateChange]) -> None:
        """Apply what a transaction has moved. Jobs that are not counted yet are skipped."""
        for step in steps:
            self.held += step.jobs if step.now == "held" else 0
            self.over += step.jobs if step.now not in GOING and step.was in GOING else 0
            if step.job <= self.newest:
                self.add(step.session, step.was, -step.jobs)
                self.add(step.session, step.now, step.jobs)

    def add(self, session: str, state: str, jobs: int) -> None:
        self.whole[state] += jobs
        if session in self.sessions:
            self.sessions[session][state] += jobs

    def forget(self) -> None:
        """Forget everything, as counted jobs were removed; all are counted again."""
        self.sessions, self.whole, self.newest = {}, Counter(), 0

    async def of(self, store: Store, session: str = "") -> dict[str, int]:
        """Return how many jobs of a session (empty: of all) are in each state, without deleted ones."""
        unknown = session and session not in self.sessions
        if unknown and not (found := await counts(store, session)):
            return found  # nothing is kept for a session without jobs
        if unknown or await newest_job(store) > self.newest:
            try:
                await self.count(store, session)
            except StoreError:  # the store can be read, but not written
                return await counts(store, session)
        counted = self.sessions[session] if session else self.whole
        return {state: number for state, number in sorted(counted.items()) if number and state != "deleted"}

    async def count(self, store: Store, session: str) -> None:
        """Count new jobs, and those of a session that was not asked for before; in a write transaction, as a job that
        moves meanwhile would be counted twice."""
        async with store.write() as db:
            newest, found = await count_newer(db, self.newest)
            for name, state, jobs in found:
                self.add(name, state, jobs)
                self.held += jobs if state == "held" else 0
            self.newest = newest
            if session and session not in self.sessions:
                self.sessions[session] = Counter(await count_of_session(db, session))
