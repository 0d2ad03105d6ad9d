"""Ask the planner for the console, and carry out exactly the plan that was shown."""

import asyncio
from typing import Final, NamedTuple

import msgspec

from rwkvctl.cli import show_files
from rwkvctl.cli.client import Client, request_id
from rwkvctl.cli.selection import NO_SUITES, has_none
from rwkvctl.protocol.errors import RefusedError
from rwkvctl.protocol.replies import DispatchReply, PlanReply, Reply, SuitesReply
from rwkvctl.protocol.requests import DispatchRequest, PlanRequest, Selection, SuitesRequest
from rwkvctl.protocol.training.harnesses import HarnessesReply, HarnessesRequest
from rwkvctl.settings import config
from rwkvctl.text.quantities import several
from rwkvctl.tui.console_app import ConsoleApp
from rwkvctl.tui.dispatch import flags
from rwkvctl.tui.dispatch.flags import Words
from rwkvctl.tui.dispatch.plan_rows import FRESH, estimated, fresh, paid
from rwkvctl.tui.jobs import actions
from rwkvctl.tui.widgets.strips import Pieces

PLAN_S: Final = 60.0
"""A plan over every checkpoint and benchmark may take its time when the daemon has just started."""


PAGE: Final = 1000
"""Rows of a plan that are drawn."""
WHOLE_S: Final = 300.0


class PlannedDispatch(NamedTuple):
    """A plan with the filters it was made from."""

    words: Words
    selection: Selection
    reply: PlanReply

    @property
    def fresh(self) -> int:
        """Return how many jobs a dispatch would queue or resume."""
        return fresh(self.reply)

    @property
    def command(self) -> Words:
        """Return the words of the command that dispatches this plan."""
        return ("dispatch", *self.words, "--plan", self.reply.hash)


async def plan(console: ConsoleApp, words: Words) -> PlannedDispatch:
    """Ask the planner. Raises RwkvctlError if the filters are invalid, or the daemon refuses or is gone."""
    selection = await asyncio.to_thread(flags.selected, words)  # which looks for files
    await asyncio.to_thread(show, console, selection)
    if selection.suite or selection.note:
        await check_daemon(console, SuitesRequest(), SuitesReply, NO_SUITES)
    if selection.harness:
        await check_daemon(console, HarnessesRequest(), HarnessesReply, "harnesses")
    reply = await console.link.ask(PlanRequest(selection=selection, limit=PAGE), PlanReply, PLAN_S)
    if not reply.hash:  # there are more: of them all only the sums are drawn
        whole = await console.link.ask(PlanRequest(selection=selection, rows=False), PlanReply, WHOLE_S)
        reply = msgspec.structs.replace(whole, rows=reply.rows, next=reply.next)
    return PlannedDispatch(words, selection, reply)


async def check_daemon(console: ConsoleApp, request: msgspec.Struct, reply: type[Reply], what: str) -> None:
    """Raise RefusedError if the daemon is too old to know what is asked: it would plan something else."""
    try:
        await console.link.ask(request, reply, PLAN_S)
    except RefusedError as error:
        raise (has_none(what) if error.code == "no-such-route" else error) from error


def show(console: ConsoleApp, selection: Selection) -> None:
    """Show the daemon the checkpoints that are named by path: it reads for us what we can read."""
    paths = [one.path for one in (*selection.files, *selection.checkpoints)]
    if paths and console.link.remote is None:
        user = config.load().settings.service_user
        show_files.show(Client(str(console.link.socket), service_user=user), paths)


async def dispatch(console: ConsoleApp, planned: PlannedDispatch) -> str:
    """Carry out a plan and return a sentence. Raises RwkvctlError, also if the plan has changed since."""
    await asyncio.to_thread(show, console, planned.selection)
    request = DispatchRequest(selection=planned.selection, plan_hash=planned.reply.hash, request_id=request_id())
    reply = await console.link.ask(request, DispatchReply, PLAN_S)
    console.did(*planned.command)
    console.undo = [actions.stop(reply.jobs)] if reply.jobs else ()
    undone = "" if not reply.jobs else " · U undoes this: it stops them"
    return f"session {reply.session}: {several(len(reply.jobs), 'job')} queued{undone}"


def question(planned: PlannedDispatch) -> list[Pieces]:
    """Return the lines of the question before a dispatch: jobs, expected time, paid requests and the equal command."""
    rows = [row for row in planned.reply.rows if row.action in FRESH]
    named: list[Pieces] = [[(f"{row.model} × {row.benchmark} {row.kind}", "")] for row in rows[: actions.NAMED]]
    more: list[Pieces] = [[(f"and {planned.fresh - len(named):,} more", "dim")]] if planned.fresh > len(named) else []
    title = "Dispatch this job?" if planned.fresh == 1 else f"Dispatch these {planned.fresh:,} jobs?"
    return [
        [(title, "title")], *named, *more, [("", "")],
        [("takes    ", "dim"), (estimated(planned.reply) or "unknown: no history", "")],
        *paid(planned.reply),
        [("loses    ", "dim"), ("nothing: existing scores stay; U stops these jobs again", "")],
        [("same as  ", "dim"), (flags.line("dispatch", planned.command[1:]), "info")],
    ]  # fmt: skip
