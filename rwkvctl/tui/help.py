"""What `?` shows: the keys at hand, from the bindings themselves, and how to read the marks. Pure."""

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from textual.binding import ActiveBinding

from rwkvctl.safe import cell_width
from rwkvctl.tui.keybar import key_name
from rwkvctl.tui.strips import Pieces

MARKS: Final = (
    ("▸", "ok", "running"), ("✓", "ok", "done"), ("✗", "bad", "failed"), ("!", "warn", "needs you"),
    ("◌", "info", "waiting"), ("‖", "dim", "paused"), ("▲", "ok", "better"), ("▼", "bad", "worse"),
    ("~", "dim", "not comparable"), ("?", "warn", "stale"),
)  # fmt: skip
COLUMN: Final = 38


class Key(NamedTuple):
    """Keys that do one thing, what it is, and where it holds."""

    keys: str
    words: str
    group: str


def keys_at_hand(active: Iterable[ActiveBinding]) -> list[Key]:
    """Every binding that has words, the keys of one action together, by where they hold."""
    found: dict[tuple[str, str], list[str]] = {}
    words: dict[tuple[str, str], str] = {}
    for bound in active:
        binding = bound.binding
        if binding.description and bound.enabled:
            name = (group_of(bound), binding.action)
            known = found.setdefault(name, [])
            shown = binding.key_display or key_name(binding.key)
            if shown not in known:
                known.append(shown)
            words.setdefault(name, binding.description)
    return [Key(" ".join(keys), words[name], name[0]) for name, keys in found.items()]


def group_of(bound: ActiveBinding) -> str:
    """Where a binding holds: its widget's, the view's, or everywhere."""
    kind = type(bound.node)
    if bound.binding.action.startswith("go("):
        return "screens"
    if hasattr(kind, "NAME"):
        return "this screen" if bound.binding in own_bindings(kind) else "lists and logs"
    return "everywhere" if kind.__module__.endswith((".app", ".frame", "textual.app")) else "move"


def own_bindings(kind: type) -> list[object]:
    """The bindings that a view declares itself, in the form Textual keeps them."""
    declared = kind.__dict__.get("BINDINGS", ())
    from textual.binding import BindingsMap

    return [binding for _, binding in BindingsMap(declared)]


def help_lines(keys: Sequence[Key], commands: Sequence[str], came_from: str, width: int) -> list[Pieces]:
    """Keys in columns, the marks, and what was done last as commands."""
    lines: list[Pieces] = [[(f" keys of {came_from}", "bold"), ("   / finds one   esc goes back", "dim")]]
    columns = max(1, min(3, width // COLUMN))
    for group in dict.fromkeys(["this screen", "move", "lists and logs", "everywhere", "screens"]):
        members = [key for key in keys if key.group == group]
        if members:
            lines += [[("", "")], [(f" {group}", "title")], *in_columns(members, columns, width // columns)]
    marks = [piece for mark, role, word in MARKS for piece in ((f"  {mark} ", role), (word, ""))]
    lines += [[("", "")], [(" marks (colour is never the only sign)", "title")], marks]
    if commands:
        lines += [[("", "")], [(" last actions as commands", "title")], *[[(f"  {line}", "info")] for line in commands]]
    return lines


def in_columns(keys: Sequence[Key], columns: int, width: int) -> list[Pieces]:
    """Keys side by side, reading down each column."""
    rows = -(-len(keys) // columns)
    return [[piece for key in keys[row::rows][:columns] for piece in one(key, width)] for row in range(rows)]


def one(key: Key, width: int) -> Pieces:
    """A key in its column."""
    room = max(7, width // 4)
    pad = " " * max(1, room - cell_width(key.keys))
    words = key.words + " " * max(0, width - 2 - max(room, cell_width(key.keys) + 1) - cell_width(key.words))
    return [("  " + key.keys, "accent"), (pad, ""), (words, "")]
