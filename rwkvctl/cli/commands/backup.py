"""`rwkvctl backup`: copy the store into a SQLite file while the daemon works."""

from typing import NoReturn

from rwkvctl.cli.context import Context
from rwkvctl.cli.exec_module import become
from rwkvctl.cli.registry import verb


@verb
def backup(context: Context, file: str) -> NoReturn:
    """Copy the store into a file while the daemon works: a consistent copy, complete or not written at all.

    The file is SQLite, also where PostgreSQL holds the store. It has all jobs, samples, scores, events and the audit
    trail; rows, weights and run directories lie beside it in the home.

    file: where to write it; it must not exist yet

    $ rwkvctl backup /backups/rwkvctl-$(date +%F).sqlite
    """
    become("rwkv_daemon.store_tools", "backup", file, *common(context))


def common(context: Context) -> list[str]:
    """Return the flags for the store's programs: the home, and whether JSON is wanted."""
    return ["--home", str(context.config.home), *(["--json"] if context.as_json else [])]
