"""`rwkvctl restore`: replace the store with a backup."""

from typing import NoReturn

from rwkvctl.cli.commands.backup import common
from rwkvctl.cli.context import Context
from rwkvctl.cli.exec_module import become
from rwkvctl.cli.registry import verb


@verb
def restore(context: Context, file: str, *, yes: bool = False) -> NoReturn:
    """Put a backup in the place of the store. The daemon must be down.

    What is there is kept under another name. Whatever still runs is ended: the backup knows nothing of it. Jobs that
    were unfinished when the backup was made go on from there when the daemon starts.

    file: what `rwkvctl backup` wrote
    yes: also if the store holds jobs

    $ rwkvctl restore /backups/rwkvctl-2026-11-01.sqlite --yes
    """
    become("rwkv_daemon.store_tools", "restore", file, *(["--yes"] if yes else []), *common(context))
