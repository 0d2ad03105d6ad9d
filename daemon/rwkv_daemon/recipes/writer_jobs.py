"""Jobs of the writer, a model behind an endpoint that measures nothing: what they wait for, and how they are queued.

They are jobs like those of other endpoints, so pauses, outages, budgets and retries need nothing of their own.
"""

from collections.abc import Sequence
from typing import Protocol

import msgspec

from rwkv_daemon.catalogue.offered import NodeCatalogue
from rwkv_daemon.changes.session_id import new_session_id
from rwkv_daemon.host.source_commit import source_commit
from rwkv_daemon.jobs.pause_resume import resume_in
from rwkv_daemon.remote.remote_model import RemoteModel
from rwkv_daemon.rules.plan import KindFact
from rwkv_daemon.scheduling.node_work import NodeWork
from rwkv_daemon.store import JobRow, NewJob
from rwkv_daemon.store.queries.jobs import OPEN, add_jobs, add_session, get_job
from rwkv_daemon.workers.crash_points import crash_point
from rwkvctl import __version__
from rwkvctl.protocol.endpoints import WRITER
from rwkvctl.protocol.requests import Selection
from rwkvctl.protocol.states import Action, Reason
from rwkvctl.text.quantities import several


class PlannedWriterJob(Protocol):
    """A new job (`new`), or one that is there already (`job`) and goes on with the action `resume`."""

    @property
    def action(self) -> Action: ...

    @property
    def job(self) -> str: ...

    @property
    def new(self) -> NewJob | None: ...


def there_already(known: JobRow, what: str) -> tuple[Action, Reason, str]:
    """Return what becomes of work for which there is a job: it goes on if it was stopped or has failed. `what` is what
    the job is called when it is done."""
    if known.state == "done":
        return "skip", "done", f"{known.name} is the {what}"
    if known.state in OPEN:
        return "skip", "queued", f"{known.name} is {known.state}"
    return "resume", "resume", f"{known.name} has {known.done} of {known.total} samples"


def why_it_waits(
    catalogue: NodeCatalogue, writer: RemoteModel | None, fact: KindFact, rows_sha256: str, *, disk_low: bool,
    is_graded: bool,
) -> tuple[Reason, str] | None:  # fmt: skip
    """Return (reason, detail) if a job of the writer cannot begin now; None if it can."""
    if writer is None:
        return "writer-not-configured", ""
    if fact.rows_sha256 != rows_sha256:
        return "data-missing", f"its rows are not there, or were replaced: rwkvctl data prepare {fact.benchmark}"
    if is_graded and fact.judged and not catalogue.benchmarks.judge:
        return "judge-not-configured", ""
    return ("disk-low", "") if disk_low else None


async def queue(work: NodeWork, plans: Sequence[PlannedWriterJob], what: str) -> list[str]:
    """Queue new jobs as one session, and let those go on that were stopped; returns the name of each job. `what` they
    are, for the event."""
    new = [plan.new for plan in plans if plan.new is not None]
    goes_on = [job for plan in plans if plan.action == "resume" and (job := await by_name(work, plan.job)) is not None]
    if not new and not goes_on:
        return [plan.job for plan in plans]
    session = new_session_id()
    selection = Selection(models=(WRITER,), disable_checker=True)
    crash_point("before-dispatch-commit")
    async with work.records.change() as change:
        fresh = iter(list[str]())
        if new:
            versions = (__version__, source_commit())
            selected = msgspec.json.encode(selection).decode()
            await add_session(change.db, session, selected, work.records.hostname, versions)
            fresh = iter([f"j{number}" for number in await add_jobs(change.db, session, new)])
        for job in goes_on:
            await resume_in(work.waiting, work.running, work.engines, change, job)
        names = [next(fresh) if plan.new is not None else plan.job for plan in plans]
        text = f"{several(len(new), what)} queued, {len(goes_on):,} resumed"
        await change.note("session", session=session if new else "", text=text, data={"jobs": names})
    crash_point("after-dispatch-commit")
    return names


async def by_name(work: NodeWork, name: str) -> JobRow | None:
    return await get_job(work.records.store, int(name[1:]))
