"""The line at the bottom where something is typed: a command, a filter, a search, a time, a file's name."""

from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding, BindingType
from textual.events import Paste
from textual.widgets import Input

from rwkvctl.safe import safe_line

if TYPE_CHECKING:
    from rwkvctl.tui.frame import Frame

Said = Callable[[str], None]


class Prompt(Input):
    """Asks for one line. `changed` is called with every letter, `done` on enter; ValueError is a sentence to show."""

    DEFAULT_CSS = """
    Prompt, Prompt:focus {
        width: 1fr; height: 1; border: none; padding: 0; background: $background; color: $foreground;
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,ctrl+c", "cancel", "Cancel"),
        Binding("up", "recall(-1)", "Line before", show=False),
        Binding("down", "recall(1)", "Line after", show=False),
        Binding("tab", "complete", "Complete"),
    ]

    def __init__(
        self, frame: "Frame", sign: str, value: str, *, changed: Said | None = None, done: Said | None = None,
        complete: Said | None = None,
    ) -> None:  # fmt: skip
        super().__init__(value, id="prompt", select_on_focus=False)
        self.frame, self.sign, self.before = frame, sign, value
        self.changed, self.done, self.complete = changed, done, complete
        self.cursor_blink = False
        self.recalled = 0

    def on_input_changed(self, event: Input.Changed) -> None:
        """Follow every letter; what is not understood yet is said and changes nothing."""
        event.stop()
        if self.changed is not None and self.is_attached:
            self.frame.said_of(lambda: self.changed and self.changed(self.value))

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Done, unless it is not understood."""
        event.stop()
        self.frame.answered(self)

    def action_cancel(self) -> None:
        """Leave everything as it was."""
        if self.changed is not None:
            self.changed(self.before)
        self.frame.close_prompt()

    def action_complete(self) -> None:
        """Complete the word that is being typed."""
        if self.complete is not None:
            self.complete(self.value[: self.cursor_position])

    def action_recall(self, by: int) -> None:
        """An earlier line of this kind."""
        known = self.frame.typed.get(self.sign, [])
        self.recalled = min(max(-len(known), self.recalled + by), 0)
        self.value = known[self.recalled] if self.recalled else self.before
        self.cursor_position = len(self.value)

    def _on_paste(self, event: Paste) -> None:
        """Only the first line, and nothing that a terminal would obey."""
        event.stop()
        event.prevent_default()
        self.insert_text_at_cursor(safe_line(event.text.split("\n")[0]))
