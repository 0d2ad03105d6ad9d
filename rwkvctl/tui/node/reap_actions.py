"""Actions on orphaned processes and on the condition of GPUs: question, request, outcome."""

from collections.abc import Sequence
from typing import Final

from rwkvctl.cli.client import request_id
from rwkvctl.protocol.errors import RwkvctlError
from rwkvctl.protocol.gpus import GpuChange, GpusChangedReply, GpuView
from rwkvctl.protocol.zombies import ReapReply, ReapRequest, ZombieView
from rwkvctl.tui.console_app import ConsoleApp
from rwkvctl.tui.node import gpu_columns, process_columns
from rwkvctl.tui.node.gpu_columns import GpuDecision

REAP_S: Final = 120.0
"""The daemon answers within 100 s: SIGTERM, SIGKILL and NVML have their times."""

OUTCOMES: Final = {"freed": "ok", "under-way": "warn"}


async def reap(console: ConsoleApp, items: Sequence[ZombieView]) -> None:
    """Ask whether to end these processes, and end them one by one."""
    from rwkvctl.tui.shell.dialogs import Question  # dialogs are not part of the first frame

    pids = {item.pid: item for item in items}
    if not pids or not await may(console, items):
        return
    first = next(iter(pids.values()))
    try:
        request = ReapRequest(pid=first.pid, start_ticks=first.start_ticks)
        dry = await console.link.ask(request, ReapReply)
    except RwkvctlError as error:
        console.say(str(error), "bad")
        return
    waiting = sum(job.state == "queued" for job in console.state.waiting)
    asked = process_columns.question([*items], dry.plan, waiting)
    if await console.push_screen_wait(Question(asked)) and console.may_write():
        for item in pids.values():
            await end(console, item)


async def may(console: ConsoleApp, items: Sequence[ZombieView]) -> bool:
    """Return whether all of these may be ended from here; says why not."""
    refusal = next((why for item in items if (why := process_columns.why_not(item))), "")
    if refusal:
        console.say(refusal, "warn", for_s=20.0)
    return not refusal and console.may_write()


async def end(console: ConsoleApp, item: ZombieView) -> None:
    """End one process, identified by its start time, and tell the operator the outcome."""
    console.did(*process_columns.command_of(item).split()[1:])
    console.say(f"ending pid {item.pid}: SIGTERM first", for_s=REAP_S)
    request = ReapRequest(pid=item.pid, start_ticks=item.start_ticks, yes=True, request_id=request_id())
    try:
        reply = await console.link.ask(request, ReapReply, REAP_S)
    except RwkvctlError as error:
        console.say(str(error), "bad")
        return
    console.say(reply.text, OUTCOMES.get(reply.outcome, "bad"), for_s=20.0)


async def decide(console: ConsoleApp, items: Sequence[GpuView]) -> None:
    """Choose what is decided about these GPUs; what needs a reason asks for it."""
    from rwkvctl.tui.shell.dialogs import Menu

    if not items or not console.may_write():
        return
    open_ = gpu_columns.decisions(items)
    names = ", ".join(item.index for item in items)
    words = [f"{one.action:<13} {one.words}" for one in open_]
    place = await console.push_screen_wait(Menu(f"GPU {names}", words))
    if place is None:
        return
    decision = open_[place]
    if decision.asks:
        console.say(f"{decision.action} GPU {names}: {decision.asks}?", for_s=60.0)
        console.frame.ask(">", "", done=lambda text: carry_out(console, items, decision, text))
    else:
        carry_out(console, items, decision, "")


def carry_out(console: ConsoleApp, items: Sequence[GpuView], decision: GpuDecision, reason: str) -> None:
    """Send a decision. Raises ValueError if its reason is missing."""
    if decision.asks and not reason.strip():
        raise ValueError(f"A reason is needed ({decision.asks}); it is shown with the GPU.")
    if console.may_write():
        console.run_worker(_sent(console, items, decision, reason), group="gpus")


async def _sent(console: ConsoleApp, items: Sequence[GpuView], decision: GpuDecision, reason: str) -> None:
    console.did("gpus", decision.action, *(item.index for item in items), *gpu_columns.flags(decision, reason))
    request = GpuChange(action=decision.action, gpus=tuple(item.id for item in items), reason=reason)
    try:
        reply = await console.link.ask(request, GpusChangedReply)
    except RwkvctlError as error:
        console.say(str(error), "bad")
        return
    wrong = [f"GPU {item.gpu}: {item.error}" for item in reply.items if item.error]
    said = [f"GPU {item.gpu} {item.condition}" for item in reply.items if not item.error]
    console.say("; ".join([*wrong, *said]), "bad" if wrong else "ok")
