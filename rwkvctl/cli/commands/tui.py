"""`rwkvctl tui`: open the console in this terminal, or serve it to browsers."""

import os
from typing import Final, Literal

from rwkvctl.cli.context import Context
from rwkvctl.cli.parser import UsageError
from rwkvctl.cli.registry import verb
from rwkvctl.protocol.errors import Exit, RwkvctlError

Theme = Literal["auto", "dark", "light", "ansi", "mono"]
PORT: Final = 8321
BROWSER: Final = "textual.drivers.web_driver:WebDriver"
"""What textual-serve names as the driver of a console that it starts."""


@verb
def tui(
    context: Context,
    *,
    read_only: bool = False,
    theme: Theme = "auto",
    ascii_: bool = False,
    no_mouse: bool = False,
    serve: bool = False,
    port: int = PORT,
    write: bool = False,
) -> int:
    """The console: a live view of everything that `status` shows, with keys for actions.

    With --serve it runs in browsers: on this machine's loopback, for anyone with the address that is printed, and
    read-only unless --write is given. From another machine use SSH; the command for that is printed, too. Ctrl-C ends
    it, and so does closing this terminal.

    read_only: allow no changes
    theme: auto asks the terminal; NO_COLOR always means mono
    ascii_: ASCII only, for fonts without bars and Braille
    no_mouse: leave the mouse to the terminal
    serve: serve it to browsers instead of this terminal
    port: with --serve: the port on the loopback; 0: a free one
    write: with --serve: anyone with the address may do what you may

    $ rwkvctl tui
    $ rwkvctl tui --read-only --theme light
    $ rwkvctl tui --serve
    """
    if serve:
        return serve_it(context, port, theme, write=write and not read_only)
    in_browser = context.terminal.environ.get("TEXTUAL_DRIVER") == BROWSER
    if not context.terminal.is_tty and not in_browser:
        raise UsageError("rwkvctl tui: the console needs a terminal; in a script use `rwkvctl status --json`.")
    from rwkvctl.tui.app import Console  # Textual costs 200 ms that no other verb should pay
    from rwkvctl.tui.options import Options

    context.client.vouch()
    options = Options(
        environ=context.terminal.environ, flags=context.flags, read_only=read_only, theme=theme, ascii=ascii_,
        files=not (in_browser and read_only), parent=os.getppid() if in_browser else 0,
    )  # fmt: skip
    console = Console(context.client.remote or context.config.socket, options)
    console.run(mouse=not no_mouse)
    return console.return_code or Exit.OK


def serve_it(context: Context, port: int, theme: Theme, *, write: bool) -> int:
    """Serve the console to browsers on a loopback port until interrupted. Raises RwkvctlError if packages are
    missing."""
    try:
        from rwkvctl.tui.terminal.browser_server import serve
    except ImportError as error:
        sentence = "needs packages that are not installed: pip install 'rwkvctl[serve]'"
        raise RwkvctlError(f"rwkvctl tui --serve {sentence} ({error.name}).") from error
    context.client.vouch()
    flags = ["--theme", "dark" if theme == "auto" else theme, *([] if write else ["--read-only"])]
    flags += [word for name, value in context.flags.items() if value for word in (f"--{name}", str(value))]

    def say(address: str) -> None:
        found = address.partition("//")[2].partition("/")[0].rpartition(":")[2]
        rights = "anyone with this address can act as you" if write else "read-only; --write allows changes"
        context.terminal.line(f"The console is at {address}")
        context.terminal.line(
            f"From another machine: ssh -L {found}:127.0.0.1:{found} THIS-HOST, then the same address there"
        )
        context.terminal.line(f"({rights}; Ctrl-C ends it)", "warn" if write else "dim")

    serve(port, flags, say)
    return Exit.OK
