"""What an operator does to jobs: the requests, their outcome, and the requests that undo them. Each action is recorded
as the command that does the same. One key undoes it; the undo is built from the changes that the daemon reports, never
from the request."""

from collections.abc import Callable, Iterable, Sequence
from typing import Final

import msgspec

from rwkvctl.cli.client import request_id
from rwkvctl.protocol.errors import RwkvctlError
from rwkvctl.protocol.operation import (
    DrainRequest,
    HoldRequest,
    PauseRequest,
    PausesReply,
    PriorityRequest,
    ReleaseRequest,
)
from rwkvctl.protocol.replies import ChangedReply
from rwkvctl.protocol.requests import ResumeRequest, StopRequest
from rwkvctl.protocol.views import ChangedJob, JobView
from rwkvctl.tui.console_app import ConsoleApp
from rwkvctl.tui.daemon.client import STOP_S
from rwkvctl.tui.jobs.act import Act
from rwkvctl.tui.widgets.strips import Pieces

NAMED: Final = 5
"""Jobs that a question names; of more it says how many."""


Undo = Callable[[list[str]], Sequence[Act]]
"""What takes a change of these jobs back."""


def resume(jobs: Sequence[str]) -> Act:
    return Act(("resume", *jobs), ResumeRequest(jobs=tuple(jobs)))


def retry(jobs: Sequence[str]) -> Act:
    """Return the act of `rwkvctl retry`: a resume that is limited to failed jobs."""
    return Act(("retry", *jobs), ResumeRequest(jobs=tuple(jobs), failed=True))


def stop(jobs: Sequence[str]) -> Act:
    return Act(("stop", *jobs), StopRequest(jobs=tuple(jobs)))


def pause(jobs: Sequence[str]) -> Act:
    return Act(("pause", *jobs), PauseRequest(jobs=tuple(jobs)))


def hold(jobs: Sequence[str], why: str) -> Act:
    """Return the act of `rwkvctl hold`; without a reason the command has no `--reason`."""
    reason = ("--reason", why) if why else ()
    return Act(("hold", *jobs, *reason), HoldRequest(jobs=tuple(jobs), why=why))


def release(jobs: Sequence[str]) -> Act:
    """Return the act of `rwkvctl release`."""
    return Act(("release", *jobs), ReleaseRequest(jobs=tuple(jobs)))


def priority(job: str, number: int) -> Act:
    """Return the act of `rwkvctl priority` for one job."""
    return Act(("priority", job, str(number)), PriorityRequest(jobs=(job,), priority=number))


def wide(*, off: bool, model: str = "", group: str = "") -> Act:
    """Return the act that pauses or resumes the queue, a model or a group."""
    name = ("--model", model) if model else ("--group", group) if group else ("--queue",)
    request = PauseRequest(model=model, group=group, queue=not (model or group), off=off)
    return Act(("resume" if off else "pause", *name), request)


def judge(*, off: bool) -> Act:
    """Return the act that pauses or resumes requests to the judge and the checker."""
    return Act(("resume" if off else "pause", "--judge"), PauseRequest(judge=True, off=off))


def drain(*, off: bool) -> Act:
    """Return the act that drains this node (no new jobs start), or ends the drain."""
    return Act(("drain", *(("--off",) if off else ())), DrainRequest(off=off))


async def do(console: ConsoleApp, acts: Sequence[Act], undo: Undo = lambda _: ()) -> bool:
    """Send a request, report its outcome, and remember what undoes it. Returns False if it could not be sent."""
    changed: list[ChangedJob] = []
    pauses: tuple[str, ...] = ()
    for act in acts:
        console.did(*act.words)
        try:
            reply = await console.link.ask(asked(act.request), expected(act.request), STOP_S)
        except RwkvctlError as error:
            forget(console, acts)
            console.say(str(error), "bad")
            return False
        changed += reply.items
        learn(console, act.request, reply)
        if isinstance(reply, PausesReply) and not reply.items:
            pauses = (f"{len(reply.pauses)} paused" if reply.pauses else "nothing is paused",)
    forget(console, acts)
    moved = [item.job for item in changed if item.changed]
    console.undo = undo(moved) if moved or pauses else ()
    tell(console, changed, pauses)
    return True


def learn(console: ConsoleApp, request: msgspec.Struct, reply: ChangedReply | PausesReply) -> None:
    """Update the state from a reply, since the next key may come before the event that reports the change."""
    if isinstance(reply, PausesReply):
        console.state.pauses = reply.pauses
    if isinstance(request, PriorityRequest):
        jobs = console.state.jobs
        for item in reply.items:
            if item.changed and item.job in jobs:
                jobs[item.job] = msgspec.structs.replace(jobs[item.job], priority=request.priority)


def expect(console: ConsoleApp, acts: Iterable[Act]) -> None:
    """Record the requested priorities, for keys that are pressed before the reply."""
    requests = [act.request for act in acts if isinstance(act.request, PriorityRequest)]
    console.wanted_priorities.update({job: request.priority for request in requests for job in request.jobs})


def forget(console: ConsoleApp, acts: Iterable[Act]) -> None:
    """Drop expected priorities that were answered or could not be sent; later ones stay."""
    for request in (act.request for act in acts if isinstance(act.request, PriorityRequest)):
        for job in request.jobs:
            if console.wanted_priorities.get(job) == request.priority:
                del console.wanted_priorities[job]


def asked(request: msgspec.Struct) -> msgspec.Struct:
    """Return the request with a new request id, so that sending it again does not carry it out twice."""
    return msgspec.structs.replace(request, request_id=request_id())


def expected(request: msgspec.Struct) -> type[ChangedReply | PausesReply]:
    """Return the type of the reply: PausesReply to a pause or a drain, else ChangedReply."""
    return PausesReply if isinstance(request, (PauseRequest, DrainRequest)) else ChangedReply


def tell(console: ConsoleApp, changed: Iterable[ChangedJob], pauses: Sequence[str] = ()) -> None:
    """Report the outcome for each job, and how to undo it."""
    items = list(changed)
    wrong = [f"{item.job}: {item.error}" for item in items if item.error]
    said = [f"{item.job} {item.still or item.state}" for item in items if not item.error]
    back = f" · U undoes this: {console.undo[0].line}" if console.undo and not wrong else ""
    more = f" and {len(wrong + said) - 2 * NAMED} more" if len(wrong + said) > 2 * NAMED else ""
    console.say("; ".join([*pauses, *wrong, *said][: 2 * NAMED]) + more + back, "bad" if wrong else "ok", for_s=15.0)


def undo(console: ConsoleApp) -> Sequence[Act]:
    """Undo the last change once; do nothing if there is none or nothing may be changed."""
    acts = console.undo
    if not acts:
        console.say("nothing to undo")
    elif console.may_write():
        console.undo = ()
        return acts
    return ()


async def ask_stop(console: ConsoleApp, ids: Sequence[str]) -> None:
    """Ask whether to stop jobs, and do it."""
    from rwkvctl.tui.shell.dialogs import Question  # forms are not part of the first frame

    jobs = [console.state.jobs[job] for job in ids if job in console.state.jobs]
    if not ids or not console.may_write() or not await console.push_screen_wait(Question(stop_lines(jobs, ids))):
        return
    if console.may_write():
        await do(console, [stop(ids)], lambda moved: [resume(moved)])


def stop_lines(jobs: Sequence[JobView], ids: Sequence[str]) -> list[Pieces]:
    """Return the lines of the question before jobs are stopped: the jobs, what is lost and the equal command."""
    title = f"Stop {ids[0]}?" if len(ids) == 1 else f"Stop {len(ids)} jobs?"
    named: list[Pieces] = [
        [(f"{job.id} ", "bold"), (f"{job.model} × {job.benchmark} {job.kind}  {job.done:,}/{job.total:,} samples", "")]
        for job in jobs[:NAMED]
    ]
    more: list[Pieces] = [[(f"and {len(ids) - NAMED} more", "dim")]] if len(ids) > NAMED else []
    return [
        [(title, "title")], *named, *more, [("", "")],
        [("loses    ", "dim"), ("nothing: finished samples are kept; U or resume continues from there", "")],
        [("same as  ", "dim"), (f"rwkvctl stop {' '.join(ids)}", "info")],
    ]  # fmt: skip
