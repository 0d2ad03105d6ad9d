"""The prompt at the bottom: a command, a filter, a search, a time, or a file's name. It always exists, hidden, so that
letters typed right after its key never reach the screen behind it."""

from collections.abc import Callable
from typing import ClassVar, Final

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.events import Paste
from textual.message import Message
from textual.widget import Widget
from textual.widgets import Input

from rwkvctl.protocol.errors import RwkvctlError
from rwkvctl.text.sanitize import safe_line
from rwkvctl.tui.widgets.label_lines import Lines

Said = Callable[[str], object]
TYPED_KEPT: Final = 100


class Field(Input):
    """One line of text; of pasted text it takes the first line, with control characters made visible."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("ctrl+c", "leave", "Cancel", show=False)]

    DEFAULT_CSS = """
    Field, Field:focus {
        width: 1fr; height: 1; border: none; padding: 0; background: $background; color: $foreground;
    }
    """

    def __init__(self) -> None:
        super().__init__(id="field", select_on_focus=False)
        self.cursor_blink = False

    def action_leave(self) -> None:
        """Cancel the prompt; overrides the key that copies in Textual."""
        prompt = self.parent
        if isinstance(prompt, Prompt):
            prompt.action_cancel()

    def _on_paste(self, event: Paste) -> None:
        event.stop()
        event.prevent_default()
        self.insert_text_at_cursor(safe_line(event.text.split("\n")[0]))


class Prompt(Horizontal):
    """Asks for one line. `changed` is called with every letter, `done` on enter; either may raise ValueError with a
    sentence to show."""

    DEFAULT_CSS = """
    Prompt { dock: bottom; height: 1; display: none; background: $background; }
    Prompt #sign { width: 3; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "cancel", "Cancel"),
        Binding("up", "recall(-1)", "Previous line", show=False),
        Binding("down", "recall(1)", "Next line", show=False),
        Binding("tab", "complete", "Complete"),
    ]

    class Closed(Message):
        """Sent when the prompt is answered or cancelled."""

    class Misunderstood(Message):
        """Sent when the text cannot be read, with a sentence why; the sentence is empty once it can be read again."""

        def __init__(self, sentence: str) -> None:
            super().__init__()
            self.sentence = sentence

    def __init__(self) -> None:
        super().__init__(id="prompt")
        self.sign, self.before = "", ""
        self._changed: Said | None = None
        self._done: Said | None = None
        self._complete: Said | None = None
        self._typed: dict[str, list[str]] = {}
        self._recalled = 0
        self._asked = 0
        self._came_from: Widget | None = None

    def compose(self) -> ComposeResult:
        yield Lines(id="sign")
        yield Field()

    @property
    def field(self) -> Field:
        return self.query_one(Field)

    def ask(self, sign: str, value: str, changed: Said | None, done: Said | None, complete: Said | None) -> None:
        """Ask for a line; an earlier question is dropped."""
        self.sign, self.before, self._recalled = sign, value, 0
        self._changed, self._done, self._complete = changed, done, complete
        self._asked += 1
        if not self.display:
            self._came_from = self.screen.focused
        self.query_one("#sign", Lines).show([[(f" {sign}", "accent")]])
        self.display = True
        with self.field.prevent(Input.Changed):
            self.fill(value)
        self.screen.set_focus(self.field, scroll_visible=False)

    def fill(self, text: str) -> None:
        """Put a text into the line, with the cursor at its end."""
        self.field.value = text
        self.field.cursor_position = len(text)

    def on_input_changed(self, event: Input.Changed) -> None:
        """Pass every change of the text to the `changed` callback of the question."""
        event.stop()
        if self.display:
            self._understood(self._changed, event.value)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Call `done`, remember the line and close the prompt; if the line is not understood, the prompt stays open."""
        event.stop()
        asked = self._asked
        if not self._understood(self._done, event.value):
            return
        known = self._typed.setdefault(self.sign, [])
        if event.value and event.value not in known[-1:]:
            self._typed[self.sign] = [*known, event.value][-TYPED_KEPT:]
        if asked == self._asked:  # what was done may have asked the next question
            self._close()

    def _understood(self, act: Said | None, text: str) -> bool:
        try:
            if act is not None:
                act(text)
        except (ValueError, RwkvctlError) as error:
            self.post_message(self.Misunderstood(str(error)))
            return False
        self.post_message(self.Misunderstood(""))
        return True

    def _close(self) -> None:
        """Return the focus at once, since the next key may have been typed already."""
        self.display = False
        self._changed = None
        if self.field.has_focus:
            self.screen.set_focus(self._came_from, scroll_visible=False)
        self.post_message(self.Closed())

    def action_cancel(self) -> None:
        """Close the prompt and pass `changed` the text in force before it was opened."""
        if self._changed is not None:
            self._changed(self.before)
        self.post_message(self.Misunderstood(""))
        self._close()

    def action_complete(self) -> None:
        """Complete the word that is being typed."""
        if self._complete is not None:
            self._complete(self.field.value[: self.field.cursor_position])

    def action_recall(self, by: int) -> None:
        """Fill in an older (-1) or newer (1) line that was typed after the same sign."""
        known = self._typed.get(self.sign, [])
        self._recalled = min(max(-len(known), self._recalled + by), 0)
        self.fill(known[self._recalled] if self._recalled else self.before)
