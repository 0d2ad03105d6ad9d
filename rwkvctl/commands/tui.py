"""`rwkvctl tui`."""

from rwkvctl.context import Context
from rwkvctl.parsing import UsageError
from rwkvctl.protocol.errors import Exit
from rwkvctl.verbs import verb


@verb
def tui(context: Context) -> int:
    """The console: everything that `status` shows, live, and the actions on it.

    $ rwkvctl tui
    """
    if not context.terminal.is_tty:
        raise UsageError("rwkvctl tui: the console needs a terminal; in a script use `rwkvctl status --json`.")
    from rwkvctl.tui.app import Console  # Textual costs 200 ms that no other verb should pay

    context.client.vouch()
    Console(context.client.remote or context.config.socket).run()
    return Exit.OK
