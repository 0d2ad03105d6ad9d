"""Output: what a command typed after `:` prints, as it prints it."""

import time
from collections.abc import Iterable
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.widget import Widget

from rwkvctl.text.quantities import duration
from rwkvctl.text.shell_words import as_words
from rwkvctl.tui.daemon.state import ConsoleState
from rwkvctl.tui.logs.view import LogView
from rwkvctl.tui.screen import ConsoleScreen


class Output(ConsoleScreen):
    """The last command; it can be stopped, searched, filtered and run again."""

    NAME = "output"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("s", "stop_command", "Stop"),
        Binding("r", "again", "Run again"),
    ]

    shown_since = 0.0

    def body(self) -> Iterable[Widget]:
        yield LogView(id="said-by-command", name_of="output", store=self.console_app.commander.last.output)

    def draw(self, state: ConsoleState) -> None:
        ran, view = self.console_app.commander.last, self.query_one(LogView)
        if ran.started_at != self.shown_since:
            self.shown_since = ran.started_at
            view.action_top()
        taken = duration((ran.ended_at or time.time()) - ran.started_at)
        ended = f"exit {ran.exit_code} after {taken}" if ran.ended_at else f"running {taken}, s stops it"
        view.called(f"{ran.line} · {ended}")

    def action_stop_command(self) -> None:
        self.console_app.commander.stop()

    def action_again(self) -> None:
        """Run the last command again."""
        self.console_app.commander.run(*as_words(self.command())[1:])

    def command(self) -> str:
        return self.console_app.commander.last.line or "rwkvctl"


SCREEN = Output
