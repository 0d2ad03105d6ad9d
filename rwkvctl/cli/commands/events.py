"""`rwkvctl events`: the events of the node, stored and new."""

import json
import time
from collections.abc import Iterator
from itertools import chain, islice

from rwkvctl.cli.client import Record
from rwkvctl.cli.context import Context
from rwkvctl.cli.parser import UsageError
from rwkvctl.cli.registry import verb
from rwkvctl.cli.render import Column, Table, paint, role_of, separated, text_of
from rwkvctl.cli.tables.history_tables import event_cells
from rwkvctl.cli.time_argument import moment
from rwkvctl.protocol.errors import Exit, UnreachableError
from rwkvctl.text.sanitize import safe_line, styled

SILENCE_S = 60.0
"""The daemon says something every 15 s."""
PAUSE_S = 1.0
TITLES = ("EVENT", "AT", "KIND", "ABOUT", "TEXT")
WIDTHS = (6, 24, 12, 8)


@verb
def events(
    context: Context, *, follow: bool = False, since: str = "", tail_lines: int = 50, kind: list[str] = [],  # noqa: B006
    session_id: str = "", all_: bool = False,
) -> int:  # fmt: skip
    """Events of the node, one line each; with -f, follow new ones.

    A line has the event's number, its time (UTC), its kind, what it is about, and a sentence. If the daemon goes away
    while you follow, the command reconnects, and no event is missed. --json prints each event as a line of JSON.

    follow: show new events until Ctrl-C (-f)
    since: start at this event number, time or age: 2026-11-01T12:00Z, or an age like 10m
    tail_lines: without --since: start this many events before the end
    kind: only kinds that begin with one of these: job, job.state, engine, gpu, lease, judge, watch, daemon
    session_id: only events of this session
    all_: with -f: also progress and telemetry, which are not stored

    $ rwkvctl events -f
    $ rwkvctl events --since 8h --kind job.state gpu
    $ rwkvctl events --since 1200 --json
    """
    if tail_lines < 0:
        raise UsageError("rwkvctl events: --tail-lines must not be negative.")
    lines = stream(context, start(context, since, tail_lines), session_id, follow=follow)
    first = list(islice(lines, 1))  # a daemon that does not answer leaves no header behind
    if context.as_tabs:
        context.tables(Table([Column(title) for title in TITLES], []))
    for raw in chain(first, lines):
        event = json.loads(raw)
        if wanted(event, kind, everything=all_):
            show(context, raw, event)
    return Exit.OK


def start(context: Context, since: str, tail: int) -> Record:
    """Return the start of the stream as a query for the daemon."""
    if since.isdecimal():
        return {"since": int(since)}
    if since:
        return {"after": moment(since)}
    return {"since": max(0, context.client.get("/v1/status", limit=1).value.get("last_event", 0) - tail)}


def stream(context: Context, place: Record, session: str, *, follow: bool) -> Iterator[bytes]:
    """Yield events as they come; if the daemon goes away while following, continue after the last event seen."""
    waits = False
    while True:
        try:
            for line in context.client.stream("/v1/events", SILENCE_S, follow=follow, session=session, **place):
                waits = False
                place = {"since": seq} if (seq := json.loads(line).get("seq")) else place
                yield line
        except (ConnectionError, TimeoutError, UnreachableError):
            if not follow or ("since" not in place and not waits):
                raise
        if not follow:
            return
        if not waits:
            context.say("lost the connection to the daemon; reconnecting")
        waits = True
        time.sleep(PAUSE_S)


def wanted(event: Record, kinds: list[str], *, everything: bool) -> bool:
    """Return whether an event passes the filters."""
    if not event.get("seq") and not everything:
        return False
    return not kinds or any(event["kind"] == kind or event["kind"].startswith(f"{kind}.") for kind in kinds)


def show(context: Context, raw: bytes, event: Record) -> None:
    """Print one event: as JSON, tab-separated, or as a line."""
    if context.as_json:
        context.terminal.json(raw.decode(errors="replace"))
        return
    cells = event_cells(event)
    if context.as_tabs:
        context.terminal.write(separated(Table([Column(title) for title in TITLES], [cells]))[1] + "\n")
        return
    *heads, last = cells
    line = "  ".join(f"{safe_line(text_of(cell)):<{width}}" for cell, width in zip(heads, WIDTHS, strict=True))
    context.terminal.line(styled(f"{line}  ", paint(text_of(last), role_of(last), context.terminal.colour)))
