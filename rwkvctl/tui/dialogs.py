"""Dialogs: a question that needs `y`, the keys of a screen, and what a verb does."""

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen

from rwkvctl.tui.widgets import Lines, Pieces

CSS = """
Question, Notice { align: center middle; }
Question > Vertical, Notice > Vertical {
    width: 76; max-width: 100%; height: auto; max-height: 100%;
    border: round #56b4e9; padding: 0 1; background: #0b0f14;
}
"""


class Question(ModalScreen[bool]):
    """Asks before something strong; only `y` says yes."""

    DEFAULT_CSS = CSS
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "answer(True)", "Yes"),
        Binding("escape,n,q,enter", "answer(False)", "Cancel"),
    ]

    def __init__(self, lines: list[Pieces]) -> None:
        super().__init__()
        self.lines = [*lines, [("", "")], [(" y ", "bold"), (" yes    ", "dim"), (" esc ", "bold"), (" cancel", "dim")]]

    def compose(self) -> ComposeResult:
        with Vertical():
            yield Lines(id="lines")

    def on_mount(self) -> None:
        shown = self.query_one("#lines", Lines)
        shown.styles.height = len(self.lines)
        shown.show(self.lines)

    def action_answer(self, yes: bool) -> None:
        """Close with the answer."""
        self.dismiss(yes)


class Notice(ModalScreen[None]):
    """Lines to read; any of the usual keys closes."""

    DEFAULT_CSS = CSS
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q,enter,question_mark", "close", "Close")]

    def __init__(self, lines: list[Pieces]) -> None:
        super().__init__()
        self.lines = lines

    def compose(self) -> ComposeResult:
        with Vertical():
            yield Lines(id="lines")

    def on_mount(self) -> None:
        shown = self.query_one("#lines", Lines)
        shown.styles.height = len(self.lines)
        shown.show(self.lines)

    def action_close(self) -> None:
        """Close."""
        self.dismiss(None)
