"""Help: the keys of the screen one came from, how to read the marks, and the last actions as commands."""

from collections.abc import Iterable

from textual.widget import Widget

from rwkvctl.tui.base import ConsoleScreen
from rwkvctl.tui.help import help_lines
from rwkvctl.tui.state import ConsoleState
from rwkvctl.tui.text import Reading


class Help(ConsoleScreen):
    """Made from the bindings themselves, so it never lies. `/` leaves the keys whose words have a text."""

    NAME = "help"
    KEY = "0"
    TITLE = "Help"

    wanted = ""

    def body(self) -> Iterable[Widget]:
        yield Reading(id="keys-at-hand")

    def arrive(self, about: str) -> None:
        """The keys of that screen."""
        super().arrive(about)
        self.wanted = ""

    def draw(self, state: ConsoleState) -> None:
        console = self.console_app
        keys = [key for key in console.keys_before if self.wanted in f"{key.keys} {key.words}".lower()]
        lines = help_lines(keys, console.commands[-5:], self.about or "this console", self.size.width or 80)
        self.query_one(Reading).show(lines)

    def action_filter(self) -> None:
        """Find a key by what it does."""
        self.console_app.frame.ask("/", self.wanted, changed=self._find, done=self._find)

    def _find(self, text: str) -> None:
        self.wanted = text.lower()
        self.draw(self.console_app.state)

    def command(self) -> str:
        return "rwkvctl help"


SCREEN = Help
