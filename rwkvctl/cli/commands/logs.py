"""`rwkvctl logs`: one log, or a rotating view of the running jobs."""

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from rwkvctl.cli.client import Record, segment
from rwkvctl.cli.context import Context
from rwkvctl.cli.log_lines import LogLines, pattern
from rwkvctl.cli.registry import verb
from rwkvctl.protocol.errors import Exit, UnreachableError
from rwkvctl.text.sanitize import LINE_END, Styled, fit, safe_line, styled

SILENCE_S: Final = 3600.0
PAUSE_S: Final = 1.0
ENTER: Final = Styled("\x1b[?1049h")
LEAVE: Final = Styled("\x1b[?1049l")
CLEAR: Final = Styled("\x1b[H\x1b[2J")


@dataclass(frozen=True)
class LogQuery:
    """Which part of a log, and how it is shown."""

    tail: int
    since: str = ""
    follow: bool = False
    timestamps: bool = False
    grep: str = ""

    @property
    def query(self) -> Record:
        """The query of the request, without the regular expression: matching it could keep the daemon busy for ever."""
        times = self.timestamps or None
        return {"tail": self.tail, "since": self.since, "follow": self.follow or None, "timestamps": times}


@verb
def logs(
    context: Context, target: str = "", *, follow: bool = False, tail_lines: int = 60, since: str = "",
    grep: str = "", timestamps: bool = False, rotate_seconds: float = 15.0,
) -> int:  # fmt: skip
    """Show the log of a job, of an engine, or of the daemon; without a name, of each running job in turn.

    A job's log includes the events of the job and its engines, and continues
    with its next attempt. A log keeps its beginning and its newest part; a
    line tells how much is missing between them.

    target: a job (j12), an engine (e3), or `daemon`
    follow: show new lines until the job ends (-f)
    tail_lines: start this many lines before the end (--tail, -n)
    since: start at a time or an age like 5m
    grep: only lines that match this regular expression
    timestamps: each line with the time at which it was written
    rotate_seconds: without a name: how long each job is shown

    $ rwkvctl logs -f j12
    $ rwkvctl logs j12 --since 5m --grep 'Error|signal'
    $ rwkvctl logs daemon -n 200
    """
    if since:
        from rwkvctl.cli.time_argument import moment

        since = moment(since)
    if not target:
        return rotate(context, LogQuery(tail_lines, since, timestamps=timestamps, grep=grep), rotate_seconds)
    wanted = LogQuery(tail_lines, since, follow, timestamps, grep)
    lines = LogLines(pattern(grep), timestamps=timestamps) if grep or timestamps else None
    for chunk in chunks(context, target, wanted):
        show(context, chunk, lines)
    if lines is not None:
        context.terminal.write(lines.rest())
    return Exit.OK


def show(context: Context, chunk: bytes, lines: LogLines | None) -> None:
    """Write a piece of a log: as JSON, or as text; with `lines`, only if or as far as a line in it matches."""
    value = json.loads(chunk)
    text = value.get("text", "")
    if context.as_json:
        if text and (lines is None or lines.add(value)):
            context.terminal.json(chunk.decode(errors="replace"))
    elif text:
        context.terminal.write(text if lines is None else lines.add(value))


def chunks(context: Context, target: str, wanted: LogQuery) -> Iterator[bytes]:
    """Yield the pieces of a log. If the daemon goes away while following, resume after the last byte that was
    received."""
    route = f"/v1/logs/{segment(target)}"
    place: Record = wanted.query
    waits = False
    while True:
        try:
            for line in context.client.stream(route, SILENCE_S, **place):
                yield line
                value = json.loads(line)
                if value.get("offset"):
                    place |= {"tail": 0, "since": "", "attempt": value.get("attempt", 0), "offset": value["offset"]}
                waits = False
        except (ConnectionError, UnreachableError):
            if not wanted.follow or ("offset" not in place and not waits):
                raise
            if not waits:
                context.say("lost the connection to the daemon; reconnecting (the job continues)")
            waits = True
            time.sleep(PAUSE_S)
        else:
            return


def rotate(context: Context, wanted: LogQuery, seconds: float) -> int:
    """Show each running job's log in turn: for ever on a terminal, once in a pipe."""
    live = context.terminal.is_tty and not context.as_json
    try:
        if live:
            context.terminal.write(ENTER)
        while True:
            running = running_jobs(context)
            for place, job in enumerate(running, 1):
                show_one(context, job, f"{place} of {len(running)}", wanted, live=live)
                time.sleep(seconds if live else 0)
            if not live:
                return Exit.OK
            if not running:
                context.terminal.write(styled(CLEAR, "no job is running; waiting for one (Ctrl-C quits)", LINE_END))
                time.sleep(seconds)
    finally:
        if live:
            context.terminal.write(LEAVE)


def running_jobs(context: Context) -> list[Record]:
    """Return the running jobs from `GET /v1/status`."""
    return list(context.client.get("/v1/status").value["running"])


def show_one(context: Context, job: Record, place: str, wanted: LogQuery, *, live: bool) -> None:
    """The tail of one job's log under a title; on a terminal it gets the whole screen."""
    terminal = context.terminal
    done = f"{job.get('done', 0)}/{job.get('total', 0)}"
    title = f"{job['id']} {job['model']} {job['benchmark']} {job['kind']} · {done} · {place}"
    lines = LogLines(pattern(wanted.grep), timestamps=wanted.timestamps)
    pieces = list(chunks(context, job["id"], wanted))
    if context.as_json:
        for piece in pieces:
            show(context, piece, None)
        return
    text = "".join(lines.add(json.loads(piece)) for piece in pieces) + lines.rest()
    if live:
        terminal.write(CLEAR)
        last = text.rstrip("\n").split("\n")[-(terminal.height - 2) :]
        text = "\n".join(fit(line, terminal.width) for line in last)
    terminal.line(fit(safe_line(title), terminal.width) if live else title, "title")
    terminal.write(f"{text}\n")
