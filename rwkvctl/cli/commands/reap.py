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
    """End a process that holds GPU memory without use; without --yes, show what would be done.

    Works on orphans of this daemon, and on processes of the daemon's user that
    it did not start. It never ends a process of another user or a container, a
    protected process, or a running engine. --start is the number that `rwkvctl
    zombies` shows: it makes sure that the pid is still the same process.

    SIGTERM, then SIGKILL, each through a pidfd after another check; then NVML
    is asked whether the memory is free. All steps are recorded.

    Exit code: 0 the memory is free, 1 the process or its memory is still there,
    5 refused, 6 still in progress.

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
