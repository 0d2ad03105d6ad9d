"""Writes `docs/keys.md` from the bindings themselves: `python -m rwkvctl.tui.keys_page > docs/keys.md`."""

import importlib
import pkgutil
import sys
from collections.abc import Iterable
from typing import Final

from textual.widget import Widget

from rwkvctl import tui
from rwkvctl.tui.app import Console
from rwkvctl.tui.screens import load
from rwkvctl.tui.shell import help_text
from rwkvctl.tui.shell.help_text import HelpKey
from rwkvctl.tui.tabs import TABS

INTRODUCTION: Final = """\
# Keys of the console

Written by `python -m rwkvctl.tui.keys_page`; `make docs` brings it up to date, and a test compares. `?` shows the keys
of the screen in front, `/` there finds one. A capital letter does something strong, and `…` says that it asks first.
`q` goes back as `esc` does, and on the Overview leaves the console.
"""


def page() -> str:
    """Return docs/keys.md: the keys that work everywhere, those of lists and panels, and those of each screen."""
    parts = [INTRODUCTION, section("Everywhere", help_text.keys_everywhere(Console))]
    groups: dict[str, list[HelpKey]] = {}
    for key in help_text.keys_of_panels(panels()):
        groups.setdefault(key.group, []).append(key)
    parts += [section(group.capitalize(), members) for group, members in groups.items()]
    parts += [
        section(f"{tab.title} ({name})", own) for name, tab in TABS.items() if (own := help_text.own_keys(load(name)))
    ]
    return "\n".join(parts)


def panels() -> list[type[Widget]]:
    """Return every widget class of the console that declares keys and is not a screen, by name."""
    for info in pkgutil.walk_packages(tui.__path__, f"{tui.__name__}."):
        importlib.import_module(info.name)
    found = [kind for kind in below(Widget) if help_text.is_ours(kind) and "BINDINGS" in kind.__dict__]
    return sorted(dict.fromkeys(found), key=lambda kind: kind.__name__)


def below(kind: type[Widget]) -> Iterable[type[Widget]]:
    """Return all direct and indirect subclasses of a class."""
    for made in kind.__subclasses__():
        yield made
        yield from below(made)


def section(title: str, members: Iterable[HelpKey]) -> str:
    """Return one table; a key that several classes of a group share is listed once."""
    lines = [f"| {' '.join(map(code, key.keys.split()))} | {key.words} |" for key in members]
    return "\n".join([f"## {title}", "", "| keys | what they do |", "|---|---|", *dict.fromkeys(lines), ""])


def code(key: str) -> str:
    """Return a key as inline code in a Markdown table, with `|` escaped."""
    return f"`{key}`" if key != "|" else "`\\|`"


if __name__ == "__main__":
    sys.stdout.write(page())
