"""`rwkvctl restore`: replace the store with a backup."""

from typing import NoReturn

from rwkvctl.cli.commands.backup import common
from rwkvctl.cli.context import Context
from rwkvctl.cli.exec_module import become
from rwkvctl.cli.registry import verb


@verb
def restore(context: Context, file: str, *, yes: bool = False) -> NoReturn:
    """Replace the store by a backup. The daemon must be stopped.

    The present store is kept under another name. Engines and runners that still run are ended: the backup does not
    know them. Jobs that were unfinished when the backup was made continue from there when the daemon starts.

    file: what `rwkvctl backup` wrote
    yes: do it even if the store holds jobs

    $ rwkvctl restore /backups/rwkvctl-2026-11-01.sqlite --yes
    """
    become("rwkv_daemon.store_tools", "restore", file, *(["--yes"] if yes else []), *common(context))
