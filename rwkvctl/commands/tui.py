"""`rwkvctl tui`."""

from typing import Literal

from rwkvctl.context import Context
from rwkvctl.parsing import UsageError
from rwkvctl.protocol.errors import Exit
from rwkvctl.verbs import verb


@verb
def tui(
    context: Context,
    *,
    read_only: bool = False,
    theme: Literal["auto", "dark", "light", "ansi", "mono"] = "auto",
    ascii_: bool = False,
    no_mouse: bool = False,
) -> int:
    """The console: everything that `status` shows, live, and the actions on it.

    read_only: nothing can be changed from it
    theme: auto asks the terminal; NO_COLOR always means mono
    ascii_: signs of ASCII only, for fonts without bars and Braille
    no_mouse: leave the mouse to the terminal

    $ rwkvctl tui
    $ rwkvctl tui --read-only --theme light
    """
    if not context.terminal.is_tty:
        raise UsageError("rwkvctl tui: the console needs a terminal; in a script use `rwkvctl status --json`.")
    from rwkvctl.tui.app import Console, Options  # Textual costs 200 ms that no other verb should pay

    context.client.vouch()
    options = Options(
        environ=context.terminal.environ, flags=context.flags, read_only=read_only, theme=theme, ascii=ascii_
    )
    console = Console(context.client.remote or context.config.socket, options)
    console.run(mouse=not no_mouse)
    return console.return_code or Exit.OK
