"""The app and its frame as the console's parts see them.

Parts import these types and not `app` or `shell.frame`, which import the parts: so there is no import circle.
"""

from collections.abc import Sequence
from typing import Any, cast

from textual.app import App
from textual.command import Provider
from textual.screen import Screen
from textual.widget import Widget

from rwkvctl.tui.daemon.client import Link
from rwkvctl.tui.daemon.state import ConsoleState
from rwkvctl.tui.jobs.act import Act
from rwkvctl.tui.logs.view import LogView
from rwkvctl.tui.options import Options
from rwkvctl.tui.samples.cache import SampleBooks
from rwkvctl.tui.shell.last_command import LastCommand
from rwkvctl.tui.shell.navigation import History
from rwkvctl.tui.shell.prompt import Prompt, Said
from rwkvctl.tui.widgets.table import VTable
from rwkvctl.tui.widgets.theme import ConsoleTheme


class ConsoleFrame(Screen[None]):
    """The one screen of the console: messages above the keys, and the prompt."""

    @property
    def active_view(self) -> Widget | None:
        """Return the screen that is shown; None before there is one."""
        raise NotImplementedError

    @property
    def active_view_name(self) -> str:
        """Return the name of the screen that is shown; empty before there is one."""
        raise NotImplementedError

    @property
    def prompt(self) -> Prompt:
        """Return the prompt at the bottom of the screen."""
        raise NotImplementedError

    def say(self, texts: Sequence[str], role: str = "", for_s: float = 8.0) -> None:
        """Show sentences above the key bar for `for_s` seconds."""
        raise NotImplementedError

    def ask(
        self, sign: str, value: str = "", *, changed: Said | None = None, done: Said | None = None,
        complete: Said | None = None,
    ) -> None:  # fmt: skip
        """Open the prompt; `changed` is called with the text after every letter, `done` with the whole line."""
        raise NotImplementedError


class CommandLine:
    """Runs verbs of the command line, one at a time."""

    last: LastCommand

    def run(self, *words: str) -> None:
        """Run a verb; if it cannot be run, tell the operator why."""
        raise NotImplementedError

    def stop(self) -> bool:
        """End the command that runs; return False if none does."""
        raise NotImplementedError


class ConsoleApp(App[None]):
    """The parts of the app that screens, dialogs and actions use."""

    options: Options
    look: ConsoleTheme
    link: Link
    state: ConsoleState
    shelf: SampleBooks
    places: History
    undo: Sequence[Act]
    wanted_priorities: dict[str, int]
    """Priorities that were asked for and that no event has confirmed yet, by job."""

    frame: ConsoleFrame
    commander: CommandLine

    def draw(self) -> None:
        """Draw the screen that is shown."""
        raise NotImplementedError

    def go(self, name: str, about: str = "") -> None:
        """Show a screen and add it to the history; `about` is what it shows, such as a job's id."""
        raise NotImplementedError

    def say(self, text: str, role: str = "", for_s: float = 8.0) -> None:
        """Show a sentence above the key bar for `for_s` seconds."""
        raise NotImplementedError

    def may_write(self) -> bool:
        """Return whether something may be changed now; if not, tell the operator why."""
        raise NotImplementedError

    def copy(self, text: str) -> None:
        """Copy to the operator's clipboard."""
        raise NotImplementedError

    def did(self, *words: str) -> None:
        """Record an action as the command that does the same."""
        raise NotImplementedError

    @property
    def commands(self) -> Sequence[str]:
        """Return the last actions as command lines."""
        raise NotImplementedError

    def plan_with(self, words: Sequence[str]) -> None:
        """Open the dispatch form with these flags filled in."""
        raise NotImplementedError

    def choose_order(self, table: VTable[Any]) -> None:
        """Ask by which column a table is sorted."""
        raise NotImplementedError

    def ask_export(self, table: VTable[Any]) -> None:
        """Ask for a file's name, then write what the table shows."""
        raise NotImplementedError

    def ask_save(self, log: LogView) -> None:
        """Ask for a file's name, then write what a log shows."""
        raise NotImplementedError

    def action_history(self, by: int) -> None:
        """Go back (-1) or forward (1) in the history of screens; nothing happens at either end."""
        raise NotImplementedError

    def action_dispatch(self, *words: str) -> None:
        """Open the dispatch form, if something may be changed now."""
        raise NotImplementedError

    def action_command(self, begun: str = "") -> None:
        """Open the prompt for a command line that starts with `begun`."""
        raise NotImplementedError


def app_of(part: Widget | Provider) -> ConsoleApp:
    """Return the console that a widget or the palette belongs to."""
    return cast("ConsoleApp", part.app)
