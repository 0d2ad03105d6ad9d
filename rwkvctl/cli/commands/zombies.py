"""`rwkvctl zombies`: list the processes that hold GPUs, with a verdict on each."""

from rwkvctl.cli.context import Context
from rwkvctl.cli.registry import verb
from rwkvctl.cli.render import LONGEST
from rwkvctl.cli.tables import zombie_tables
from rwkvctl.text.sanitize import fit, safe_line


@verb
def zombies(context: Context, pid: int = 0) -> int:
    """List the processes that hold GPU memory, with a verdict on each.

    Classes: ours (a running engine of this daemon), orphan (left behind by an
    attempt of this daemon that ended), foreign (the daemon's user, but not
    started by this daemon), other-user, container, protected (a system service,
    a debugger's target, your lists), and three that cannot be killed: defunct
    (dead, not collected by its parent), stuck (in the kernel), ghost (NVML lists
    it, but there is no such process). Memory held at 0 % use alone does not make
    a process a zombie.

    Only orphans are ended automatically, and only if reap = auto.

    pid: only this process, with every rule and what was measured

    $ rwkvctl zombies
    $ rwkvctl zombies 31877
    """
    answer = context.client.get("/v1/zombies", **({"pid": pid} if pid else {}))
    reply = answer.value
    items = reply["items"]
    tables = [zombie_tables.zombies(items, verdicts=context.as_tabs)]
    if pid:
        tables.append(zombie_tables.rules(items[0].get("rules", ())))
    elif reply.get("reaped") and not context.as_tabs:
        tables.append(zombie_tables.reaped(reply["reaped"]))
    context.show(answer, *tables, headline=zombie_tables.headline(reply))
    if not context.as_json and not context.as_tabs:
        for sentence in zombie_tables.sentences(items):
            context.terminal.line()
            context.terminal.line(fit(safe_line(sentence), LONGEST))
    return 0
