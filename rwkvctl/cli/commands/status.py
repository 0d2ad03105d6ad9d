"""`rwkvctl status`: show GPUs, running jobs and waiting jobs, once or continuously."""

from collections.abc import Sequence
from typing import Final

from rwkvctl.cli.client import Record, stale_note
from rwkvctl.cli.context import Context
from rwkvctl.cli.parser import UsageError
from rwkvctl.cli.registry import verb
from rwkvctl.cli.render import Table, aligned
from rwkvctl.cli.tables import core_tables, recipe_tables
from rwkvctl.protocol.errors import Exit
from rwkvctl.text.sanitize import Styled, fit, safe_line, styled

PATIENCE_S: Final = 5.0
"""While watching: a daemon that says nothing for so long is away."""


NO_END: Final = 100_000


@verb
def status(
    context: Context, *, session_id: str = "", limit: int = 20, watch: float | None = None, plain: bool = False
) -> int:
    """What uses the GPUs, which jobs run, which wait and why, and which recipes are at work.

    With --watch it is redrawn in place until Ctrl-C; only changes are sent, for slow lines. If the daemon goes away,
    the command reconnects. With --json, or --plain for a screen reader, lines are written one below the other: with
    --plain only the changed ones.

    session_id: only the jobs of this session
    limit: at most this many waiting and finished jobs
    watch: redraw every this many seconds [2]
    plain: with --watch: write changed lines one below the other

    $ rwkvctl status
    $ rwkvctl status --session-id s3 --json
    $ rwkvctl status --watch
    """
    if watch is not None:
        return watched(context, session_id, limit, watch, plain=plain)
    answer = context.client.get("/v1/status", session=session_id, limit=limit)
    reply = answer.value
    shown = tables(reply)
    context.show(answer, *shown, headline=[core_tables.headline(reply), ""])
    if not any(reply.get(name) for name in ("running", "waiting", "recent")):
        context.say("no jobs; `rwkvctl dispatch --models builtin` queues some")
    for note in reply.get("notes", ()):
        context.say(f"note: {note}")
    return Exit.OK


def tables(reply: Record) -> list[Table]:
    """Return the tables of leases, engines, running, waiting and finished jobs, and recipes at work."""
    groups = [core_tables.jobs(reply.get(name, ()), "") for name in ("running", "waiting", "recent")]
    recipes = recipe_tables.at_work(reply.get("recipes", ()))
    return [core_tables.leases(reply["leases"]), core_tables.engines(reply["engines"]), *groups, recipes]


def watched(context: Context, session: str, limit: int, every_s: float, *, plain: bool) -> int:
    """Show the status anew every `every_s` seconds until Ctrl-C. Raises UsageError for less than 0.1 s and for tsv
    output."""
    from rwkvctl.cli.client import client_of
    from rwkvctl.cli.watch import watch

    if not every_s >= 0.1:
        raise UsageError("rwkvctl status: --watch takes a number of seconds, at least 0.1.")
    if context.output == "tsv":
        raise UsageError("rwkvctl status: --watch cannot write tsv; leave out the format, or use --json.")
    client = client_of(context.config, PATIENCE_S, 1)
    watch(
        context,
        lambda: client.get("/v1/status", session=session, limit=limit),
        lambda answer: lines(context, answer.value),
        every_s,
        plain=plain,
    )


def lines(context: Context, reply: Record) -> Sequence[Styled]:
    """Return the lines of a table on a terminal."""
    terminal = context.terminal
    width = terminal.width if terminal.is_tty and context.output != "wide" else 0
    old = stale_note(reply)
    found = [styled(fit(safe_line(f"! {old}"), width or NO_END))] if old else []
    found += [styled(fit(safe_line(core_tables.headline(reply)), width or NO_END))]
    for table in tables(reply):
        if table.rows:
            found += [Styled(), *aligned(table, width, colour=terminal.colour)]
    return [*found, *(styled(fit(safe_line(f"note: {note}"), width or NO_END)) for note in reply.get("notes", ()))]
