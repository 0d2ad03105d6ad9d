"""`rwkvctl migrate`: copy the store from the home's own file into another database, or back."""

from typing import NoReturn

from rwkvctl.cli.commands.backup import common
from rwkvctl.cli.context import Context
from rwkvctl.cli.exec_module import become
from rwkvctl.cli.parser import UsageError
from rwkvctl.cli.registry import verb


@verb
def migrate(context: Context, *, to: str = "", from_: str = "") -> NoReturn:
    """Copy the store into another database, and compare every row. The daemon must be stopped.

    The other database must be empty; it gets everything or, on any error, nothing. The old store stays as it
    is. A URL with a password is not taken on the command line, where `ps` shows it: give a file that holds it.

    to: postgresql://USER@HOST/DATABASE, or a file that holds such a URL
    from_: the same, to copy it back into the home's own file

    $ rwkvctl migrate --to postgresql://rwkvctl@db.example/rwkvctl
    $ rwkvctl migrate --to /etc/rwkvctl/store.url
    $ rwkvctl migrate --from /etc/rwkvctl/store.url
    """
    if bool(to) == bool(from_):
        raise UsageError("rwkvctl migrate: give --to or --from; see `rwkvctl help migrate`.")
    end = ["--to", to] if to else ["--from", from_]
    become("rwkv_daemon.store_tools", "migrate", *end, *common(context))
