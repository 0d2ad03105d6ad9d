"""`rwkvctl reap`: end an orphaned or foreign process that holds a GPU."""

from rwkvctl.cli.context import Context
from rwkvctl.cli.parser import UsageError
from rwkvctl.cli.registry import verb
from rwkvctl.cli.tables import zombie_tables
from rwkvctl.protocol.errors import Exit

LONGEST_S = 120.0
"""The daemon answers within 100 s: SIGTERM, SIGKILL and NVML have their times."""

FOUND = {"freed": Exit.OK, "dry-run": Exit.OK, "under-way": Exit.TIMEOUT, "not-touched": Exit.REFUSED}


@verb
def reap(context: Context, pid: int, *, start: int = 0, yes: bool = False) -> int:
    """End a process that holds a GPU for nobody; without --yes, say what would be done.

    Works on our own orphans, and on processes of the daemon's user that it
    did not start. Never on another user's, a container's, a protected one, or
    an engine that runs. --start is the number that `rwkvctl zombies` shows: a
    pid may be another process's by the time you press enter.

    SIGTERM, then SIGKILL, each through a pidfd after another look; then NVML
    is asked whether the memory is back. All of it is written down.

    Exit code: 0 its memory is free, 1 it or its memory is still there,
    5 refused, 6 it goes on.

    pid: the process
    start: when it started, in clock ticks since boot
    yes: do it

    $ rwkvctl reap 31877
    $ rwkvctl reap 31877 --start 993311 --yes
    """
    if yes and not start:
        raise UsageError(f"rwkvctl reap: --yes needs --start; see `rwkvctl zombies {pid}`.")
    answer = context.change("/v1/reap", {"pid": pid, "start_ticks": start, "yes": yes}, LONGEST_S)
    reply = answer.value
    tables = []
    if reply.get("plan"):
        tables = [zombie_tables.zombies(reply["items"], verdicts=context.as_tabs), zombie_tables.plan(reply["plan"])]
    context.show(answer, *tables)
    if not context.as_json:
        context.say(reply["text"])
    return FOUND.get(reply["outcome"], Exit.FAILED)
