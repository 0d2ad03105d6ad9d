"""`rwkvctl status`."""

from collections.abc import Sequence
from typing import Final

from rwkvctl import views
from rwkvctl.client import Record, stale_note
from rwkvctl.context import Context
from rwkvctl.parsing import UsageError
from rwkvctl.protocol.errors import Exit
from rwkvctl.render import Table, aligned
from rwkvctl.safe import Styled, fit, safe_line, styled
from rwkvctl.verbs import verb

WATCH_S: Final = 2.0
PATIENCE_S: Final = 5.0
"""While watching: a daemon that says nothing for so long is away."""


NO_END: Final = 100_000


@verb
def status(
    context: Context, *, session_id: str = "", limit: int = 20, watch: float | None = None, plain: bool = False
) -> int:
    """What holds the GPUs, what runs, and what waits and why.

    With --watch it is shown again and again, in place, until Ctrl-C; of a slow line it takes only what changed. A
    daemon that goes away is waited for. With --json, or --plain for a screen reader, every line is written below the
    last one: with --plain the changed ones only.

    session_id: only the jobs of this session
    limit: so many waiting and finished jobs at most
    watch: again every so many seconds [2]
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
    context.show(answer, *shown, headline=[views.headline(reply), ""])
    if not any(reply.get(name) for name in ("running", "waiting", "recent")):
        context.say("no jobs; `rwkvctl dispatch --models builtin` queues some")
    for note in reply.get("notes", ()):
        context.say(f"note: {note}")
    return Exit.OK


def tables(reply: Record) -> list[Table]:
    """Leases, engines, and jobs that run, wait and have ended."""
    groups = [views.jobs(reply.get(name, ()), "") for name in ("running", "waiting", "recent")]
    return [views.leases(reply["leases"]), views.engines(reply["engines"]), *groups]


def watched(context: Context, session: str, limit: int, every_s: float, *, plain: bool) -> int:
    """The same again and again."""
    from rwkvctl.client import client_of
    from rwkvctl.watching import watch

    if not every_s >= 0.1:
        raise UsageError("rwkvctl status: --watch takes seconds, 0.1 at least.")
    if context.output == "tsv":
        raise UsageError("rwkvctl status: --watch draws a page, or with --json writes a reply a line; it has no tsv.")
    client = client_of(context.config, PATIENCE_S, 1)
    watch(
        context,
        lambda: client.get("/v1/status", session=session, limit=limit),
        lambda answer: lines(context, answer.value),
        every_s,
        plain=plain,
    )


def lines(context: Context, reply: Record) -> Sequence[Styled]:
    """The lines of a table on a terminal."""
    terminal = context.terminal
    width = terminal.width if terminal.is_tty and context.output != "wide" else 0
    old = stale_note(reply)
    found = [styled(fit(safe_line(f"! {old}"), width or NO_END))] if old else []
    found += [styled(fit(safe_line(views.headline(reply)), width or NO_END))]
    for table in tables(reply):
        if table.rows:
            found += [Styled(), *aligned(table, width, colour=terminal.colour)]
    return [*found, *(styled(fit(safe_line(f"note: {note}"), width or NO_END)) for note in reply.get("notes", ()))]
