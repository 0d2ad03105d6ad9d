"""Dialogs: a question that needs `y` or a typed name, and a menu."""

from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Input

from rwkvctl.tui.widgets.label_lines import Lines
from rwkvctl.tui.widgets.reader import folded
from rwkvctl.tui.widgets.strips import Pieces
from rwkvctl.tui.widgets.table import VTable
from rwkvctl.tui.widgets.table_columns import Column

CSS = """
Question, Menu { align: center middle; background: $background 60%; }
Question > Vertical, Menu > Vertical {
    width: 84; max-width: 100%; height: auto; max-height: 100%;
    border: round $primary; padding: 0 1; background: $background;
}
Question Input, Question Input:focus { height: 1; border: none; padding: 0 1; background: $panel; }
Menu VTable { max-height: 20; }
"""


class Question(ModalScreen[bool]):
    """A confirmation that says what will happen, what is freed and what is lost. Only `y` confirms; if much is at stake
    a word must be typed. Escape, enter and `n` cancel."""

    DEFAULT_CSS = CSS
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "answer(True)", "Yes"),
        Binding("escape,n,q,enter,ctrl+c", "answer(False)", "Cancel"),
    ]

    def __init__(self, lines: Sequence[Pieces], word: str = "") -> None:
        super().__init__()
        self.word = word
        asked: Pieces = [(f"type {word}, then enter", "bold")] if word else [(" y ", "badge"), (" yes", "")]
        self.lines = [*lines, [("", "")], [*asked, ("      esc ", "accent"), ("cancels", "dim")]]

    def compose(self) -> ComposeResult:
        with Vertical():
            yield Lines(id="lines", grows=True)
            if self.word:
                field = Input(id="word")
                field.cursor_blink = False
                yield field

    def on_mount(self) -> None:
        """Size the lines, since a sentence may need more than one."""
        width = min(80, self.app.size.width - 4)
        self.query_one("#lines", Lines).show([row for line in self.lines for row in folded(line, width)])

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Close with yes if the required word was typed, else with no."""
        event.stop()
        self.dismiss(event.value.strip() == self.word)

    def action_answer(self, yes: bool) -> None:
        """Close with the answer; where a word must be typed, a key always means no."""
        self.dismiss(yes and not self.word)


class Menu(ModalScreen[int | None]):
    """A menu of lines; it closes with the index of the chosen one, or None if it is cancelled."""

    DEFAULT_CSS = CSS
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q,ctrl+c", "leave", "Cancel")]

    def __init__(self, title: str, choices: Sequence[str], now: int = 0) -> None:
        super().__init__()
        self.title_text, self.choices, self.now = title, list(choices), now

    def compose(self) -> ComposeResult:
        columns: list[Column[int]] = [Column("", lambda place: self.choices[place], 30, grow=1)]
        with Vertical():
            yield VTable(columns, str, id="choices")

    def on_mount(self) -> None:
        """Put the cursor on the choice in force."""
        table: VTable[int] = self.query_one("#choices", VTable)
        table.show(self.title_text, range(len(self.choices)))
        table.cursor = self.now
        table.focus()

    def on_vtable_opened(self, message: VTable.Opened) -> None:
        """Close with the index of the chosen line."""
        message.stop()
        self.dismiss(int(message.key))

    def action_leave(self) -> None:
        """Close the menu with None."""
        self.dismiss(None)
