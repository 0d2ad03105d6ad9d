"""`rwkvctl rebuild`: make a new store from the run directories."""

from typing import NoReturn

from rwkvctl.cli.commands.backup import common
from rwkvctl.cli.context import Context
from rwkvctl.cli.exec_module import become
from rwkvctl.cli.registry import verb


@verb
def rebuild(context: Context, *, yes: bool = False) -> NoReturn:
    """Make a new store from the run directories, for when the old one is damaged. The daemon must be down.

    The old file is kept under another name. Jobs, samples, verdicts and scores come back under their numbers; what only
    the store knew (the queue of jobs that never ran, events, the audit trail) is listed. Nothing starts by itself
    afterwards: `rwkvctl resume --all` lets unfinished jobs go on. If you have a backup that is young enough,
    `rwkvctl restore` brings back more.

    yes: also if the store is whole

    $ rwkvctl rebuild
    """
    become("rwkv_daemon.store_tools", "rebuild", *(["--yes"] if yes else []), *common(context))
