"""The key bar at the bottom: the keys of the front screen, read from the bindings themselves."""

from collections.abc import Sequence
from typing import Final

from textual.binding import ActiveBinding
from textual.events import Click
from textual.strip import Strip
from textual.widget import Widget

from rwkvctl.text.sanitize import cell_width
from rwkvctl.tui.widgets.strips import Pieces, strip, theme_of

NAMES: Final = {
    "question_mark": "?", "colon": ":", "slash": "/", "ampersand": "&", "left_square_bracket": "[", "minus": "-",
    "right_square_bracket": "]", "escape": "esc", "left_parenthesis": "(", "right_parenthesis": ")",
    "left_curly_bracket": "{", "right_curly_bracket": "}", "less_than_sign": "<", "greater_than_sign": ">",
    "exclamation_mark": "!", "backslash": "\\", "plus": "+", "comma": ",", "at": "@", "delete": "Del",
    "up": "↑", "down": "↓", "left": "←", "right": "→",
}  # fmt: skip


def key_name(key: str) -> str:
    """Return a key as it is written on the screen."""
    if key.startswith("ctrl+"):
        return "^" + NAMES.get(key[5:], key[5:])
    return NAMES.get(key, key)


def keys_of(active: Sequence[ActiveBinding]) -> list[tuple[str, str, str]]:
    """Return key, its name and description for each shown binding; each action once."""
    found: dict[str, tuple[str, str, str]] = {}
    for bound in active:
        binding = bound.binding
        if binding.show and bound.enabled and binding.description:
            name = binding.key_display or key_name(binding.key)
            found.setdefault(binding.action, (binding.key, name, binding.description))
    return list(found.values())


LAST: Final = 4
"""Keys that always stay: to filter, to command, to be helped, to leave."""


class KeyBar(Widget):
    """Keys and their descriptions, as many as fit; a click on one presses it."""

    DEFAULT_CSS = "KeyBar { height: 1; dock: bottom; }"

    def __init__(self, *, id: str) -> None:  # noqa: A002 - Textual's name
        super().__init__(id=id)
        self._keys: list[tuple[str, str, str]] = []
        self._ends: list[tuple[int, str]] = []

    def show(self, keys: list[tuple[str, str, str]]) -> None:
        """Replace the keys; redraw only if they differ."""
        if keys != self._keys:
            self._keys = keys
            self.refresh()

    def render_line(self, y: int) -> Strip:
        """Draw the keys in one line; if it is too short whole keys are left out, never the last ones, which show
        help."""
        width = self.size.width
        lengths = [cell_width(name) + cell_width(words) + 2 for _, name, words in self._keys]
        keys, first = list(zip(self._keys, lengths, strict=True)), max(0, len(self._keys) - LAST)
        while keys and sum(length for _, length in keys) > width and first > 0:
            first -= 1
            del keys[first]
        pieces, x = list[tuple[str, str]](), 0
        self._ends = []
        for (key, name, words), length in keys:
            pieces += [(" " + name, "accent"), (" " + words.lower(), "dim")]
            x += length
            self._ends.append((x, key))
        shown: Pieces = [*pieces]
        return strip(shown, width, theme_of(self))

    def on_click(self, event: Click) -> None:
        """Press the key that was clicked."""
        key = next((key for end, key in self._ends if event.x < end), None)
        if key is not None:
            self.app.simulate_key(key)
