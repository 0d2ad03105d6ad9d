"""`rwkvctl logs`: one log, or a rotating view of the running jobs."""

import json
import time
from collections.abc import Iterator
from typing import Final

from rwkvctl.client import CutError, Record, segment
from rwkvctl.context import Context
from rwkvctl.protocol.errors import Exit, UnreachableError
from rwkvctl.render import paint
from rwkvctl.safe import safe_line, safe_text
from rwkvctl.verbs import verb

SILENCE_S: Final = 3600.0
PAUSE_S: Final = 1.0


@verb
def logs(
    context: Context, target: str = "", *, follow: bool = False, tail_lines: int = 60, rotate_seconds: float = 15.0
) -> int:
    """The log of a job, of an engine, or of the daemon; without a name, a rotating view of the running jobs.

    target: a job (j12), an engine (e3), or `daemon`
    follow: go on as the log grows, until the job ends (-f)
    tail_lines: begin so many lines before the end
    rotate_seconds: without a name: how long each job is shown

    $ rwkvctl logs -f j12
    $ rwkvctl logs daemon --tail-lines 200
    $ rwkvctl logs --rotate-seconds 5
    """
    if not target:
        return rotate(context, tail_lines, rotate_seconds)
    for chunk in chunks(context, target, tail_lines, follow=follow):
        show(context, chunk)
    return Exit.OK


def show(context: Context, chunk: bytes) -> None:
    """A piece of a log: as it came, or made safe."""
    if context.as_json:
        context.terminal.json(chunk.decode(errors="replace"))
    else:
        context.terminal.write(safe_text(json.loads(chunk)["text"]))


def chunks(context: Context, target: str, tail: int, *, follow: bool) -> Iterator[bytes]:
    """The pieces of a log. When the daemon goes away while following, go on behind the last byte that was seen."""
    route = f"/v1/logs/{segment(target)}"
    place: Record = {"tail": tail}
    waits = False
    while True:
        try:
            for line in context.client.stream(route, SILENCE_S, follow=follow or None, **place):
                yield line
                value = json.loads(line)
                place = {"tail": 0, "attempt": value.get("attempt", 0), "offset": value.get("offset", 0)}
                waits = False
        except (CutError, ConnectionError, UnreachableError):
            if not follow or ("offset" not in place and not waits):
                raise
            if not waits:
                context.say("the daemon went away; the job goes on; waiting for it")
            waits = True
            time.sleep(PAUSE_S)
        else:
            return


def rotate(context: Context, tail: int, seconds: float) -> int:
    """Show each running job's log in turn: for ever on a terminal, once in a pipe."""
    live = context.terminal.is_tty and not context.as_json
    try:
        if live:
            context.terminal.write("\x1b[?1049h")
        while True:
            running = running_jobs(context)
            for place, job in enumerate(running, 1):
                show_one(context, job, f"{place} of {len(running)}", tail, live=live)
                time.sleep(seconds if live else 0)
            if not live:
                return Exit.OK
            if not running:
                context.terminal.write("\x1b[H\x1b[2Jno job is running; waiting (Ctrl-C ends)\n")
                time.sleep(seconds)
    finally:
        if live:
            context.terminal.write("\x1b[?1049l")


def running_jobs(context: Context) -> list[Record]:
    """The jobs that run now."""
    return list(context.client.get("/v1/status").value["running"])


def show_one(context: Context, job: Record, place: str, tail: int, *, live: bool) -> None:
    """The tail of one job's log under a title; on a terminal it gets the whole screen."""
    terminal = context.terminal
    done = f"{job.get('done', 0)}/{job.get('total', 0)}"
    title = f"{job['id']} {job['model']} {job['benchmark']} {job['kind']} · {done} · {place}"
    pieces = list(chunks(context, job["id"], min(tail, terminal.height - 2) if live else tail, follow=False))
    if context.as_json:
        for piece in pieces:
            show(context, piece)
        return
    text = safe_text("".join(json.loads(piece)["text"] for piece in pieces))
    if live:
        text = "\n".join(line[: terminal.width] for line in text.splitlines()[-(terminal.height - 2) :])
    clear = "\x1b[H\x1b[2J" if live else ""
    terminal.write(f"{clear}{paint(safe_line(title), 'title', terminal.colour)}\n{text}\n")
