"""Which logs can be followed, and how they are called: `j12`, `e3`, `daemon`, several with `+`. Pure."""

from typing import Final, NamedTuple

from rwkvctl.tui.daemon.state import ConsoleState

DAEMON: Final = "daemon"
ENDED: Final = 20
"""Jobs that are over, of which the newest are offered."""


class Source(NamedTuple):
    """What may be followed: a name for it, and what that is. An empty name follows whatever is newest."""

    name: str
    words: str


def sources(state: ConsoleState) -> list[Source]:
    """Return all sources of logs, running jobs first."""
    running = state.running
    found = [Source("", "follow the newest running job + daemon")]
    if len(running) > 1:
        every = "+".join([*(job.id for job in running), DAEMON])
        found.append(Source(every, f"all {len(running)} running jobs + daemon"))
    found += [Source(job.id, f"{job.id}  {job.model} × {job.benchmark} {job.kind}") for job in reversed(running)]
    found += [Source(engine.id, f"{engine.id}  engine of {engine.model}") for engine in state.engines.values()]
    found.append(Source(DAEMON, "daemon"))
    found += [
        Source(job.id, f"{job.id}  {job.model} × {job.benchmark} {job.kind}, {job.state}")
        for job in [*state.ended[:ENDED], *(job for job in state.waiting if job.attempt)]
    ]
    return found


def targets(name: str, state: ConsoleState) -> list[str]:
    """Return the logs that a name stands for. Several are merged with the daemon's log, which comes last."""
    names = list(dict.fromkeys(word for word in name.split("+") if word))
    if not names:
        names = [job.id for job in state.running[-1:]] + [DAEMON]
    if len(names) > 1:
        names = [*(word for word in names if word != DAEMON), DAEMON]
    return names
