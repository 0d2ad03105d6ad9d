"""What an operator does to jobs: the question that says what will be, then the request, then what came of it."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from rwkvctl.client import request_id
from rwkvctl.protocol.errors import RwkvctlError
from rwkvctl.protocol.messages import ChangedReply, JobView, StopRequest
from rwkvctl.tui.link import STOP_S
from rwkvctl.tui.strips import Pieces

if TYPE_CHECKING:
    from rwkvctl.tui.app import Console

NAMED: Final = 5
"""Jobs that a question names; of more it says how many."""


async def stop(console: "Console", ids: Sequence[str]) -> None:
    """Ask whether to stop jobs, and do it."""
    from rwkvctl.tui.dialogs import Question  # forms are not part of the first frame

    jobs = [console.state.jobs[job] for job in ids if job in console.state.jobs]
    if not ids or not console.may_write() or not await console.push_screen_wait(Question(stop_lines(jobs, ids))):
        return
    if not console.may_write():
        return
    console.did("stop", *ids)
    try:
        reply = await console.link.ask(StopRequest(jobs=tuple(ids), request_id=request_id()), ChangedReply, STOP_S)
    except RwkvctlError as error:
        console.say(str(error), "bad")
        return
    tell(console, reply)


def stop_lines(jobs: Sequence[JobView], ids: Sequence[str]) -> list[Pieces]:
    """What stopping these jobs means."""
    title = f"Stop {ids[0]}?" if len(ids) == 1 else f"Stop {len(ids)} jobs?"
    named: list[Pieces] = [
        [(f"{job.id} ", "bold"), (f"{job.model} × {job.benchmark} {job.kind}  {job.done:,}/{job.total:,} samples", "")]
        for job in jobs[:NAMED]
    ]
    more: list[Pieces] = [[(f"and {len(ids) - NAMED} more", "dim")]] if len(ids) > NAMED else []
    return [
        [(title, "title")], *named, *more, [("", "")],
        [("loses    ", "dim"), ("nothing: finished samples are kept, and resume goes on from there", "")],
        [("same as  ", "dim"), (f"rwkvctl stop {' '.join(ids)}", "info")],
    ]  # fmt: skip


def tell(console: "Console", reply: ChangedReply) -> None:
    """What became of each job."""
    wrong = [f"{item.job}: {item.error}" for item in reply.items if item.error]
    said = [f"{item.job} {item.state}" for item in reply.items if not item.error]
    console.say("; ".join([*wrong, *said][:8]), "bad" if wrong else "ok")
