"""`rwkvctl drain`: start no new jobs on this node, or end the drain."""

import time
from typing import Final

from rwkvctl.cli.client import Record
from rwkvctl.cli.context import Context
from rwkvctl.cli.parser import UsageError
from rwkvctl.cli.registry import verb
from rwkvctl.cli.tables import operation_tables
from rwkvctl.protocol.errors import Exit

LOOK_S: Final = 1.0


@verb
def drain(
    context: Context, *, off: bool = False, reason: str = "", wait: bool = False, timeout: float | None = None
) -> int:
    """Start no new jobs on this node; running jobs finish.

    For maintenance: --wait returns when the node is idle. Engines without work
    are unloaded. `--off` ends the drain; a restart of the daemon does not.

    off: end the drain: jobs start again
    reason: the reason, shown to other operators
    wait: wait until no job runs
    timeout: with --wait, seconds after which waiting ends (exit code 6)

    $ rwkvctl drain --reason "new driver" --wait
    $ rwkvctl drain --off
    """
    if off and wait:
        raise UsageError("rwkvctl drain: --off and --wait cannot be combined.")
    answer = context.change("/v1/drain", {"off": off, "why": reason})
    operation_tables.show_paused(context, answer)
    if off:
        return Exit.OK
    running = list(answer.value.get("running", ()))
    say(context, running)
    deadline = float("inf") if timeout is None else time.monotonic() + timeout
    while wait and running:
        if time.monotonic() > deadline:
            return Exit.TIMEOUT
        time.sleep(LOOK_S)
        before, running = running, still_running(context)
        if running != before:
            say(context, running)
    return Exit.OK


def still_running(context: Context) -> list[str]:
    """Return the ids of the jobs that hold an engine or a runner: those that run and are not being judged."""
    status: Record = context.client.get("/v1/status").value
    return [job["id"] for job in status["running"] if job["state"] != "judging"]


def say(context: Context, running: list[str]) -> None:
    """Print which jobs still run, or that the node is idle; print nothing with --json."""
    if not context.as_json:
        names = " ".join(running)
        context.say(f"still running: {names}" if running else "the node is idle: nothing runs, nothing starts")
