"""`rwkvctl rebuild`: make a new store from the run directories."""

from typing import NoReturn

from rwkvctl.cli.commands.backup import common
from rwkvctl.cli.context import Context
from rwkvctl.cli.exec_module import become
from rwkvctl.cli.registry import verb


@verb
def rebuild(context: Context, *, yes: bool = False) -> NoReturn:
    """Make a new store from the run directories if the old one is damaged. The daemon must be stopped.

    The old file is kept under another name. Jobs, samples, verdicts and scores keep their numbers; what only the store
    had (queued jobs that never ran, events, the audit trail) is lost, and the command lists it. No job starts by itself
    afterwards: `rwkvctl resume --all` resumes unfinished jobs. If you have a recent backup, `rwkvctl restore` recovers
    more.

    yes: do it even if the store is not damaged

    $ rwkvctl rebuild
    """
    become("rwkv_daemon.store_tools", "rebuild", *(["--yes"] if yes else []), *common(context))
