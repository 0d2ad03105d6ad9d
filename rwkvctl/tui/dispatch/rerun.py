"""Measuring a cell of the matrix again, or for the first time: plan, ask, dispatch just what the plan said."""

from collections.abc import Sequence
from typing import Final

from rwkvctl.cli.client import request_id
from rwkvctl.cli.render import joined
from rwkvctl.protocol.errors import RwkvctlError
from rwkvctl.protocol.record import ReproReply, ReproRequest
from rwkvctl.protocol.replies import DispatchReply, PlanReply
from rwkvctl.protocol.requests import DispatchRequest, PlanRequest, Selection
from rwkvctl.protocol.views import PlanRow
from rwkvctl.scoreboard.book import Key
from rwkvctl.text.quantities import count, duration
from rwkvctl.text.shell_words import as_typed
from rwkvctl.tui.console_app import ConsoleApp
from rwkvctl.tui.dispatch.plan_rows import paid
from rwkvctl.tui.widgets.strips import Pieces

NAMED: Final = 6
"""Jobs that a question names."""

WILD: Final = {ord(char): f"[{char}]" for char in "*?["}


async def ask(console: ConsoleApp, models: Sequence[str], key: Key, job: str) -> None:
    """Ask whether to measure models on a kind of a benchmark; one that has a score, `job`'s, with its settings."""
    try:
        selection, differs = await wanted(console, models, key, job)
        plan = await console.link.ask(PlanRequest(selection=selection), PlanReply)
        if console.may_write() and await sure(console, selection, plan, differs) and console.may_write():
            console.did(*command(selection))
            request = DispatchRequest(selection=selection, plan_hash=plan.hash, request_id=request_id())
            console.say(queued(await console.link.ask(request, DispatchReply)), "ok")
    except RwkvctlError as error:
        console.say(str(error), "bad")


async def sure(console: ConsoleApp, selection: Selection, plan: PlanReply, differs: Sequence[str]) -> bool:
    """Return whether the operator wants what was planned."""
    from rwkvctl.tui.shell.dialogs import Question  # forms are not part of the first frame

    if not any(row.action in {"run", "resume", "hold"} for row in plan.rows):
        console.say(joined(f"{row.model}: {row.detail or row.reason}" for row in plan.rows) or "nothing to run", "warn")
        return False
    asked = Question(question(selection, plan, differs))
    answer: bool = await console.push_screen_wait(asked)
    return answer


async def wanted(console: ConsoleApp, models: Sequence[str], key: Key, job: str) -> tuple[Selection, tuple[str, ...]]:
    """What to dispatch, and what would be another than it was."""
    if job and len(models) == 1:
        found = await console.link.ask(ReproRequest(job=job), ReproReply)
        return found.selection, found.differs
    names = tuple(name.translate(WILD) for name in models)
    return Selection(models=names, only_datasets=key[:1], only_jobs=key[1:], overwrite=True), ()


def question(selection: Selection, plan: PlanReply, differs: Sequence[str]) -> list[Pieces]:
    """What will be done, and what will be another than it was."""
    jobs = [row for row in plan.rows if row.action in {"run", "resume", "hold"}]
    named = [line(row) for row in jobs[:NAMED]]
    more: list[Pieces] = [[(f"and {len(jobs) - NAMED} more", "dim")]] if len(jobs) > NAMED else []
    other: list[Pieces] = [[("differs  ", "dim"), (text, "warn")] for text in differs]
    return [
        [(f"Run {len(jobs)} jobs again?" if len(jobs) > 1 else "Run this job again?", "title")], *named, *more, *other,
        [("", "")],
        *paid(plan),
        [("loses    ", "dim"), ("nothing: existing scores stay as earlier versions", "")],
        [("same as  ", "dim"), (as_typed(["rwkvctl", *command(selection)]), "info")],
    ]  # fmt: skip


def line(row: PlanRow) -> Pieces:
    """Return one planned job in a line: what it measures, how many samples, how long, and why it would be held."""
    took = f"  about {duration(row.est_s)}" if row.est_s is not None else ""
    held = f"  held: {row.detail or row.reason}" if row.action == "hold" else ""
    said = f"{row.benchmark} {row.kind}  {count(row.samples)} samples{took}"
    return [(f"{row.model} ", "bold"), (said, ""), (held, "warn")]


def command(selection: Selection) -> list[str]:
    """Return the equal command as words."""
    words = ["dispatch", "--models", *selection.models, "--only-datasets", *selection.only_datasets]
    words += ["--only-jobs", *selection.only_jobs]
    words += ["--limit", str(selection.limit)] if selection.limit is not None else []
    words += ["--seed", str(selection.seed)] if selection.seed is not None else []
    words += ["--numerics", selection.numerics] if selection.numerics else []
    pairs = [f"{name}={text}" for name, text in sorted(selection.settings.items())]
    return [*words, *(["--set", *pairs] if pairs else []), "--overwrite"]


def queued(reply: DispatchReply) -> str:
    """Return a sentence on the jobs that were queued; of many it names only the first ones."""
    names = joined(reply.jobs[:NAMED]) + (" …" if len(reply.jobs) > NAMED else "")
    return f"queued {names} in session {reply.session}" if reply.jobs else "no job was queued"
