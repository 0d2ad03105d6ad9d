"""How a role looks: five themes, and the same signs in ASCII.

A state is told by a glyph, then a word, then weight, and last by colour, so every theme can be read by everybody. The
colours are Okabe and Ito's, lightened or darkened for contrast. Widgets name roles and know no colour.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final

from rich.style import Style
from textual.theme import BUILTIN_THEMES, Theme

ROLES: Final = ("", "ok", "warn", "bad", "worse", "info", "dim", "bold", "title", "accent", "rule")
"""What a piece of text may be; `rwkvctl.cli.render.Role` and two of the console's own."""

DARK: Final = {
    "": "#d8dee4", "ok": "#2fb98a", "warn": "#e69f00", "bad": "bold #f0814a", "info": "#56b4e9", "dim": "#7f8c98",
    "bold": "bold #ffffff", "title": "bold #9fb3c8", "accent": "#f0e442", "rule": "#3a4650", "stale": "#66727e",
    "chosen": "#0b0f14 on #56b4e9", "badge": "bold #0b0f14 on #56b4e9", "worse": "bold #f0814a",
}  # fmt: skip
LIGHT: Final = {
    "": "#1d2730", "ok": "#00684a", "warn": "#8a5a00", "bad": "bold #ad3b00", "info": "#005d94", "dim": "#5d6a75",
    "bold": "bold #000000", "title": "bold #34516c", "accent": "bold #8c2a6b", "rule": "#b9c3cb", "stale": "#8b969f",
    "chosen": "#ffffff on #005d94", "badge": "bold #ffffff on #005d94", "worse": "bold #ad3b00",
}  # fmt: skip
ANSI: Final = {
    "": "default", "ok": "green", "warn": "yellow", "bad": "bold red", "info": "cyan", "dim": "dim", "bold": "bold",
    "title": "bold cyan", "accent": "bold yellow", "rule": "dim", "stale": "dim", "chosen": "reverse",
    "badge": "bold reverse", "worse": "bold red",
}  # fmt: skip
MONO: Final = {
    "": "default", "ok": "default", "warn": "bold", "bad": "bold reverse", "info": "default", "dim": "dim",
    "bold": "bold", "title": "bold", "accent": "bold underline", "rule": "dim", "stale": "dim", "chosen": "reverse",
    "badge": "bold reverse", "worse": "bold",
}  # fmt: skip

STRAIGHT: Final[dict[int, str]] = dict(
    zip(
        map(ord, "▸✓✗◌‖·▲▼…━╸┄─│┌┐└┘├┤┬┴┼╷╵●○–—×±°▾▴↑↓←→“”‘’█"),
        ">vxo=.^v~##--|+++++++++||*o--x+'v^^v<>\"\"''#",
        strict=True,
    )
)
BRAILLE: Final[dict[int, str]] = {0x2800 + dots: " .:-=+*#@"[dots.bit_count()] for dots in range(256)}
ASCII: Final[dict[int, str]] = STRAIGHT | BRAILLE
"""What stands for each sign where a font has none of them."""


@dataclass(frozen=True)
class ConsoleTheme:
    """A theme: the style of every role, and what Textual needs for the little that it draws itself."""

    name: str
    roles: Mapping[str, str]
    background: str
    panel: str
    dark: bool = True
    ansi: bool = False
    ascii: bool = False
    _styles: dict[tuple[str, bool], Style] = field(default_factory=dict)

    def style(self, role: str, *, highlighted: bool = False) -> Style:
        """The style of a role; `highlighted` is a value that has just changed."""
        found = self._styles.get((role, highlighted))
        if found is None:
            ground = Style.null() if self.ansi else Style(bgcolor=self.background)
            found = ground + Style.parse(self.roles[role]) + (Style(bold=True) if highlighted else Style.null())
            self._styles[role, highlighted] = found
        return found

    def drawn(self, text: str) -> str:
        """Return the text with signs that this terminal can show."""
        if not self.ascii or text.isascii():
            return text
        return "".join(char if char.isascii() else instead(char) for char in text.translate(ASCII))

    @cached_property
    def textual(self) -> Theme:
        """The theme by which Textual draws inputs, borders and scroll bars."""
        if self.ansi:
            return replace(BUILTIN_THEMES["ansi-dark"], name=self.name)
        colours = {role: colour.removeprefix("bold ") for role, colour in self.roles.items()}
        return Theme(
            name=self.name, primary=colours["info"], secondary=colours["title"], accent=colours["accent"],
            success=colours["ok"], warning=colours["warn"], error=colours["bad"], foreground=colours[""],
            background=self.background, surface=self.background, panel=self.panel, dark=self.dark,
            variables={"scrollbar": colours["rule"], "scrollbar-background": self.background,
                       "scrollbar-hover": colours["dim"], "scrollbar-active": colours["info"],
                       "scrollbar-background-hover": self.background,
                       "scrollbar-background-active": self.background},
        )  # fmt: skip


def instead(char: str) -> str:
    """What stands for a character that is not ASCII: as many cells of `?`."""
    from rwkvctl.text.sanitize import cell_width

    return "?" * cell_width(char)


THEMES: Final[dict[str, ConsoleTheme]] = {
    look.name: look
    for look in (
        ConsoleTheme("dark", DARK, "#0b0f14", "#16202b"),
        ConsoleTheme("light", LIGHT, "#fbfcfd", "#e8edf1", dark=False),
        ConsoleTheme("ansi", ANSI, "ansi_default", "ansi_default", ansi=True),
        ConsoleTheme("mono", MONO, "ansi_default", "ansi_default", ansi=True),
    )
}
"""By name. Dark and light hold for colour-blind eyes too: that is what their colours were chosen for."""


def pick(environ: Mapping[str, str], wanted: str = "auto", *, plain: bool = False) -> ConsoleTheme:
    """The look for a terminal. NO_COLOR always wins; the Linux console has sixteen colours and few glyphs.

    `plain` asks for ASCII. Raises KeyError if there is no look of the wanted name.
    """
    term = environ.get("TERM", "")
    name = wanted
    if environ.get("NO_COLOR") or term in {"", "dumb", "vt100", "vt220"}:
        name = "mono"
    elif wanted == "auto":
        name = "ansi" if few_colours(term, environ) else "light" if is_light(environ) else "dark"
    look = THEMES[name]
    if not plain and term != "linux":
        return look
    return ConsoleTheme(f"{look.name}-ascii", look.roles, look.background, look.panel, look.dark, look.ansi, ascii=True)


def few_colours(term: str, environ: Mapping[str, str]) -> bool:
    """Return whether a terminal has only sixteen colours, as far as its name says."""
    return term in {"linux", "ansi", "screen", "xterm-color", "xterm-16color"} and not environ.get("COLORTERM")


def is_light(environ: Mapping[str, str]) -> bool:
    """Return whether the terminal says that its background is light (rxvt, Konsole and others set COLORFGBG)."""
    return environ.get("COLORFGBG", "").rpartition(";")[2] in {"7", "15"}
