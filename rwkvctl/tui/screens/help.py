"""Help: the keys of the previous screen, the last actions as commands, and the meaning of signs and colours."""

from collections.abc import Iterable

from textual.widget import Widget

from rwkvctl.tui.daemon.state import ConsoleState
from rwkvctl.tui.screen import ConsoleScreen
from rwkvctl.tui.screens import load
from rwkvctl.tui.shell import help_text
from rwkvctl.tui.tabs import TABS
from rwkvctl.tui.widgets.reader import Reading


class Help(ConsoleScreen):
    """The help screen, made from the key bindings themselves. `/` keeps only the keys whose words contain a text.
    `about` is the previous screen; without one the keys of all screens are shown."""

    NAME = "help"

    wanted = ""

    def body(self) -> Iterable[Widget]:
        yield Reading(id="keys-at-hand")

    def arrive(self, about: str) -> None:
        """Show the keys of the screen `about`, without a filter."""
        super().arrive(about)
        self.wanted = ""

    def at_hand(self) -> list[help_text.HelpKey]:
        """Return the keys of the previous screen and of its panels; of every screen if there is none."""
        from rwkvctl.tui.shell.dialogs import Menu, Question  # dialogs are not part of the first frame

        console = self.console_app
        named = {self.about: help_text.HERE} if self.about in TABS else {name: tab.title for name, tab in TABS.items()}
        own = [key for name, title in named.items() for key in help_text.own_keys(load(name), title)]
        mounted = list(console.frame.query(ConsoleScreen))
        front = [view for view in mounted if self.about == view.NAME]
        panels = [type(widget) for view in front or mounted for widget in view.query(Widget)]
        panels += [type(console.frame.prompt), Question, Menu]
        return [*own, *help_text.keys_of_panels(panels), *help_text.keys_everywhere(type(console))]

    def draw(self, state: ConsoleState) -> None:
        console = self.console_app
        found = help_text.matching(self.at_hand(), self.wanted)
        came_from = TABS[self.about].title if self.about in TABS else "every screen"
        width = self.size.width or 80
        lines = help_text.help_lines(found, [] if self.wanted else console.commands[-5:], came_from, width)
        self.query_one(Reading).show(lines if self.wanted else [*lines, *help_text.legend(width)])

    def action_filter(self) -> None:
        """Ask for a text, and show only the keys whose description contains it."""
        self.console_app.frame.ask("/", self.wanted, changed=self._find, done=self._find)

    def _find(self, text: str) -> None:
        self.wanted = text
        self.query_one(Reading).scroll_home(animate=False)
        self.draw(self.console_app.state)

    def action_back(self) -> None:
        """Remove the filter, else go back to the previous screen."""
        if self.wanted:
            self._find("")
        else:
            super().action_back()

    def command(self) -> str:
        return "rwkvctl help"


SCREEN = Help
