"""One transaction of the node, with the events that it stores."""

from dataclasses import dataclass, field, replace
from typing import Any

from rwkv_daemon.changes import event_bus
from rwkv_daemon.changes.job_view import as_data
from rwkv_daemon.host import daemon_log
from rwkv_daemon.host.daemon_log import log
from rwkv_daemon.rules import lifecycle
from rwkv_daemon.store import JobRow, Transaction
from rwkv_daemon.store.queries.jobs import update_job
from rwkv_daemon.store.wall_time import now
from rwkvctl.protocol.events import Event
from rwkvctl.protocol.states import ACTIVE, TERMINAL


@dataclass(frozen=True, slots=True)
class StateChange:
    """How many jobs of a session went from one state to another. `job` is the highest of their numbers."""

    session: str
    was: str
    now: str
    job: int
    jobs: int = 1


def kept_hold(job: JobRow, transition: lifecycle.Transition) -> dict[str, str]:
    """Return the columns with which a stopped or deleted job keeps an operator's hold, or an intended one: it is held
    again when it is resumed, and only `release` ends that. A job that uses another job's score keeps that reason."""
    if transition in {"stop", "delete", "undelete"} and job.reason == "held":
        return {"reason": "held", "detail": job.detail}
    if transition in {"delete", "undelete done"} and job.reason == "done":
        return {"reason": "done", "detail": job.detail}
    if transition == "ended" and job.wanted == "hold" and job.wanted_reason == "held":
        return {"reason": "held", "detail": job.wanted_why}
    return {}


@dataclass(slots=True)
class Change:
    """An open transaction with the jobs it has moved and the events it has stored; `Records.change` reports both after
    the commit."""

    db: Transaction
    events: list[Event] = field(default_factory=list)
    moved: list[JobRow] = field(default_factory=list)
    steps: list[StateChange] = field(default_factory=list)

    async def move(self, job: JobRow, transition: lifecycle.Transition, **columns: Any) -> JobRow:
        """Apply a transition to a job, with other columns; returns the job as it is then."""
        state = lifecycle.after(job.state, transition)
        columns = {"reason": "", "detail": ""} | kept_hold(job, transition) | columns
        if state in TERMINAL:
            columns = {"finished": now()} | columns
        if state not in ACTIVE:
            columns |= {"wanted": "", "wanted_reason": "", "wanted_why": ""}
        if state != "failed":
            columns |= {"failure": ""}
        await update_job(self.db, job.id, state=state, **columns, was=job.state)
        text = f"{job.model} {job.benchmark} {job.kind}: {state}"
        text += f" ({columns['detail'] or columns['reason']})" if columns["detail"] or columns["reason"] else ""
        moved = replace(job, state=state, **columns)
        self.moved.append(moved)
        self.steps.append(StateChange(job.session, job.state, state, job.id))
        data = as_data(moved)
        engine = f"e{moved.engine}" if state == "starting" and moved.engine else ""
        await self.note("job.state", job=job.name, session=job.session, engine=engine, text=text, data=data)
        return moved

    async def note(self, kind: str, **values: Any) -> None:
        """Store an event of another kind."""
        event = await event_bus.record(self.db, kind, **values)
        self.events.append(event)
        log.info("%s", event.text or kind, extra=daemon_log.fields(event))
