"""`rwkvctl daemon`: run the node's daemon in the foreground."""

from typing import NoReturn

from rwkvctl.cli.context import Context
from rwkvctl.cli.exec_module import become
from rwkvctl.cli.registry import verb


@verb
def daemon(context: Context) -> NoReturn:
    """Run the node's daemon in the foreground, in place of this process.

    A service does the same: `rwkvctl service install`, then systemctl start rwkvctl.

    $ rwkvctl daemon
    $ rwkvctl daemon --home ~/rwkvctl
    """
    flags = [word for name, value in context.flags.items() if value for word in (f"--{name}", str(value))]
    become("rwkv_daemon", *flags, *(["--json"] if context.as_json else []))
