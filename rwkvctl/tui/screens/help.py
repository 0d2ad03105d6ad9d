"""Help: the keys of the screen one came from, the last actions as commands, and how to read signs and colours."""

from collections.abc import Iterable

from textual.widget import Widget

from rwkvctl.tui.daemon.state import ConsoleState
from rwkvctl.tui.screen import ConsoleScreen
from rwkvctl.tui.screens import load
from rwkvctl.tui.shell import help_text as keys
from rwkvctl.tui.tabs import TABS
from rwkvctl.tui.widgets.reader import Reading


class Help(ConsoleScreen):
    """Made from the bindings themselves, so it never lies. `/` leaves the keys whose words have a text. `about` is the
    screen one came from; without one the keys of all screens are shown."""

    NAME = "help"

    wanted = ""

    def body(self) -> Iterable[Widget]:
        yield Reading(id="keys-at-hand")

    def arrive(self, about: str) -> None:
        """The keys of that screen."""
        super().arrive(about)
        self.wanted = ""

    def at_hand(self) -> list[keys.Key]:
        """The keys of the screen one came from and of what lies on it; of every screen if there is none."""
        from rwkvctl.tui.shell.dialogs import Menu, Question  # dialogs are not part of the first frame

        console = self.console_app
        named = {self.about: keys.HERE} if self.about in TABS else {name: tab.title for name, tab in TABS.items()}
        own = [key for name, title in named.items() for key in keys.own_keys(load(name), title)]
        mounted = list(console.frame.query(ConsoleScreen))
        front = [view for view in mounted if self.about == view.NAME]
        panels = [type(widget) for view in front or mounted for widget in view.query(Widget)]
        panels += [type(console.frame.prompt), Question, Menu]
        return [*own, *keys.keys_of_panels(panels), *keys.keys_everywhere(type(console))]

    def draw(self, state: ConsoleState) -> None:
        console = self.console_app
        found = keys.matching(self.at_hand(), self.wanted)
        came_from = TABS[self.about].title if self.about in TABS else "every screen"
        width = self.size.width or 80
        lines = keys.help_lines(found, [] if self.wanted else console.commands[-5:], came_from, width)
        self.query_one(Reading).show(lines if self.wanted else [*lines, *keys.legend(width)])

    def action_filter(self) -> None:
        """Find a key by what it does."""
        self.console_app.frame.ask("/", self.wanted, changed=self._find, done=self._find)

    def _find(self, text: str) -> None:
        self.wanted = text
        self.query_one(Reading).scroll_home(animate=False)
        self.draw(self.console_app.state)

    def action_back(self) -> None:
        """Back to all keys, then to where we came from."""
        if self.wanted:
            self._find("")
        else:
            super().action_back()

    def command(self) -> str:
        return "rwkvctl help"


SCREEN = Help
