"""The text of the help screen: keys, from the bindings that classes declare, and the meaning of signs and colours.
Pure."""

import re
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from textual.app import App
from textual.binding import Binding, BindingsMap
from textual.widget import Widget

from rwkvctl.cli.render import MARKS as STATES
from rwkvctl.text.sanitize import cell_width
from rwkvctl.tui.node.device_columns import WORDS
from rwkvctl.tui.screen import ConsoleScreen
from rwkvctl.tui.shell.key_bar import key_name
from rwkvctl.tui.tabs import TABS
from rwkvctl.tui.widgets.strips import Pieces
from rwkvctl.tui.widgets.table_paint import aligned

MARKS: Final = (
    ("▸", "ok", "running"), ("✓", "ok", "done"), ("✗", "bad", "failed"), ("!", "warn", "needs attention"),
    ("◌", "info", "waiting"), ("‖", "dim", "paused"), ("▲", "ok", "better"), ("▼", "bad", "worse"),
    ("~", "dim", "not comparable"), ("?", "warn", "stale"), ("·", "dim", "none"), ("*", "accent", "marked"),
    ("▾", "accent", "sorted by"), ("…", "dim", "shortened, or asks first"),
)  # fmt: skip
COLOURS: Final = (
    ("fine", "ok"), ("warning", "warn"), ("problem", "bad"), ("in progress", "info"), ("less important", "dim"),
    ("key or selection", "accent"), ("under the cursor", "chosen"), ("out of date: no daemon answers", "stale"),
)  # fmt: skip
COLUMN: Final = 38
HERE: Final = "this screen"
GROUPS: Final = {
    "ConsoleScreen": "everywhere", "Console": "everywhere", "Frame": "everywhere", "Moving": "lists", "VTable": "lists",
    "LogView": "logs", "Reading": "text", "Prompt": "while typing", "Field": "while typing", "Question": "a question",
    "Menu": "a menu",
}  # fmt: skip
"""Where the keys of a class hold; another class has a group of its own."""


class HelpKey(NamedTuple):
    """Keys with the same action, what it does, and where it applies."""

    keys: str
    words: str
    group: str


def declared(kind: type) -> list[Binding]:
    """Return the bindings that a class itself declares with a description."""
    bindings = BindingsMap(kind.__dict__.get("BINDINGS", ()))
    return [binding for _, binding in bindings if binding.description]


def keys_of(kind: type, group: str) -> list[HelpKey]:
    """Return the keys that a class itself declares, grouped by action."""
    found: dict[tuple[str, str], list[str]] = {}
    for binding in declared(kind):
        found.setdefault((binding.action, binding.description), []).append(shown(binding))
    return [HelpKey(" ".join(dict.fromkeys(keys)), words, group) for (_, words), keys in found.items()]


def shown(binding: Binding) -> str:
    """Return a key as it is written on the screen."""
    return binding.key_display or key_name(binding.key)


def own_keys(view: type[ConsoleScreen], group: str = HERE) -> list[HelpKey]:
    """Return the keys that only this screen has."""
    kinds = [kind for kind in view.__mro__ if issubclass(kind, ConsoleScreen) and kind is not ConsoleScreen]
    return list(dict.fromkeys(key for kind in kinds for key in keys_of(kind, group)))


def keys_of_panels(kinds: Iterable[type[Widget]]) -> list[HelpKey]:
    """Return the keys of lists, logs and other panels, each class once."""
    every = dict.fromkeys(kind for panel in kinds for kind in panel.__mro__ if is_ours(kind))
    return [key for kind in every for key in keys_of(kind, group_of(kind))]


def is_ours(kind: type) -> bool:
    """Return whether a class is a widget of the console and not a screen."""
    return kind.__module__.startswith("rwkvctl.") and not issubclass(kind, ConsoleScreen)


def group_of(kind: type) -> str:
    """Return where the keys of a class apply."""
    return GROUPS.get(kind.__name__) or re.sub(r"(?<=[a-z])(?=[A-Z])", " ", kind.__name__).lower()


def keys_everywhere(app: type[App[None]]) -> list[HelpKey]:
    """Return the keys that apply on every screen, and those that go to a screen."""
    to = [HelpKey(tab.key, tab.title, "screens") for tab in TABS.values() if tab.key]
    return [*keys_of(ConsoleScreen, "everywhere"), *keys_of(app, "everywhere"), *to]


def matching(keys: Sequence[HelpKey], wanted: str) -> list[HelpKey]:
    """Return the keys whose name or description contains a text."""
    return [key for key in keys if wanted.lower() in f"{key.keys} {key.words}".lower()]


def help_lines(keys: Sequence[HelpKey], commands: Sequence[str], came_from: str, width: int) -> list[Pieces]:
    """Keys in columns, then what was done last as commands."""
    lines: list[Pieces] = [[(f" keys of {came_from}", "bold"), ("   / finds one   esc goes back", "dim")]]
    columns, room = max(1, min(3, width // COLUMN)), width - 1  # the last one is the scroll bar's
    for group in dict.fromkeys(key.group for key in keys):
        members = [key for key in keys if key.group == group]
        lines += [[("", "")], [(f" {group}", "title")], *in_columns(members, columns, room // columns)]
    if commands:
        lines += [[("", "")], [(" last actions as commands", "title")], *[[(f"  {line}", "info")] for line in commands]]
    return lines


def legend(width: int) -> list[Pieces]:
    """Signs, states of jobs and devices, and colours, as many beside one another as fit."""
    marks = [[(f"{mark} ", role), (word, "")] for mark, role, word in MARKS]
    jobs: list[Pieces] = [[(f"{mark} {state}", role)] for state, (mark, role) in STATES.items()]
    devices: list[Pieces] = [[(text, role)] for text, role in WORDS.values()]
    colours: list[Pieces] = [[(word, role)] for word, role in COLOURS]
    parts = (
        ("signs (colour is never the only one)", marks), ("jobs", jobs), ("devices", devices), ("colours", colours),
    )  # fmt: skip
    return [line for title, cells in parts for line in [[("", "")], [(f" {title}", "title")], *flowing(cells, width)]]


def flowing(cells: Sequence[Pieces], width: int) -> list[Pieces]:
    """Return short pieces one after another, in as many lines as they need."""
    lines: list[list[tuple[str, str]]] = [[]]
    for cell in cells:
        length = sum(cell_width(text) for text, _ in cell) + 2
        if lines[-1] and sum(cell_width(text) for text, _ in lines[-1]) + length > width:
            lines.append([])
        lines[-1] += [("  ", ""), *cell]
    return [*lines]


def in_columns(keys: Sequence[HelpKey], columns: int, width: int) -> list[Pieces]:
    """Keys side by side, reading down each column."""
    rows = -(-len(keys) // columns)
    return [[piece for key in keys[row::rows][:columns] for piece in one(key, width)] for row in range(rows)]


def one(key: HelpKey, width: int) -> Pieces:
    """Return a key and its description in a column of `width` cells."""
    room = max(9, width // 4, cell_width(key.keys) + 1)
    return [("  ", ""), (aligned(key.keys, room, right=False), "accent"),
            (aligned(key.words, max(1, width - 3 - room), right=False) + " ", "")]  # fmt: skip
