"""What every screen is: a NAME, a KEY that shows it, a TITLE, a health line on top, and a way to draw the state."""

import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, ClassVar, Final

from textual.app import ComposeResult
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import Footer

from rwkvctl.render import MARKS, duration, size
from rwkvctl.tui.state import ConsoleState
from rwkvctl.tui.widgets import Lines, Pieces

if TYPE_CHECKING:
    from rwkvctl.tui.app import Console


WIDE: Final = 110


class ConsoleScreen(Screen[None]):
    """A screen of the console. Subclasses say what they are, compose `body`, and draw the state in `draw`."""

    NAME: ClassVar[str]
    KEY: ClassVar[str]
    TITLE: ClassVar[str]
    DEFAULT_CSS = "ConsoleScreen > #health { height: 1; }"

    @property
    def console_app(self) -> "Console":
        """The app, by its own type."""
        return self.app  # type: ignore[return-value]

    def compose(self) -> ComposeResult:
        yield Lines(id="health")
        yield from self.body()
        yield Footer(show_command_palette=False, compact=True)

    def body(self) -> Iterable[Widget]:
        """The widgets between the health line and the keys."""
        raise NotImplementedError

    def draw(self, state: ConsoleState) -> None:
        """Show the state in the widgets of the body."""
        raise NotImplementedError

    def paint(self, state: ConsoleState) -> None:
        """Draw health line and body."""
        self.query_one("#health", Lines).show([health(state, self.TITLE, self.size.width)])
        self.draw(state)


def health(state: ConsoleState, title: str, width: int) -> Pieces:
    """The top line: who, since when, how many jobs (without words where it is narrow); or why nothing is heard."""
    name: list[tuple[str, str]] = [(" rwkvctl ", "title"), (f" {state.node or '?'} ", "bold")]
    if state.problem:
        return [*name, (f" ✗ daemon gone, retrying: {state.problem}", "bad")]
    counts = {word: number for word, number in state.counts.items() if number and word in MARKS}
    words = {word: f" {word}" if width >= WIDE else "" for word in counts}
    jobs = [(f" {MARKS[word][0]} {counts[word]}{words[word]} ", MARKS[word][1]) for word in sorted(counts)]
    up = f" ● up {duration(time.time() - state.started)} "
    return [*name, (up, "ok"), *jobs, (f" disk {size(state.disk_free_bytes)} ", "dim"), (f" {title}", "dim")]
