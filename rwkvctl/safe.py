"""Text of models, datasets and foreign processes, made safe to show on a terminal.

Everything that this program did not write itself passes here before it becomes a cell, a log line or a message. Control
characters become visible pictures, so an escape sequence is read and never obeyed.
"""

from typing import Final, Literal

INVISIBLE: Final = (
    *range(0x7F, 0xA0),  # DEL and the C1 controls, of which 0x9B opens a sequence on some terminals
    0x061C,
    *range(0x200B, 0x2010),
    *range(0x2028, 0x202F),
    *range(0x2060, 0x2070),
    0xFEFF,
    *range(0xFFF9, 0xFFFC),
)
"""Characters that a terminal hides or obeys: C1, bidirectional overrides, zero-width marks, Unicode line ends."""

PICTURES: Final[dict[int, str]] = (
    {code: f"<{code:02x}>" for code in INVISIBLE}
    | {code: chr(0x2400 + code) for code in range(0x20) if chr(code) not in "\n\t"}
    | {0x7F: "\u2421"}
)
ONE_LINE: Final[dict[int, str]] = PICTURES | {0x0A: "\u240a", 0x09: "\u2409"}
JSON_ESCAPES: Final[dict[int, str]] = {code: f"\\u{code:04x}" for code in INVISIBLE}
TAGS: Final = range(0xE0000, 0xE0080)


def safe_text(text: str) -> str:
    """Text of several lines: newline and tab stay, every other control character becomes visible."""
    return text if text.isascii() and text.isprintable() else visible_rest(text.translate(PICTURES))


def safe_line(text: str) -> str:
    """Text for one line or one cell: newline and tab become visible too."""
    return text if text.isascii() and text.isprintable() else visible_rest(text.translate(ONE_LINE))


def visible_rest(text: str) -> str:
    """Lone surrogates (JSON may hold them, UTF-8 cannot) and tag characters, shown by number."""
    if all(ord(char) < 0xD800 for char in text):
        return text
    return "".join(f"<{ord(c):x}>" if 0xD800 <= ord(c) < 0xE000 or ord(c) in TAGS else c for c in text)


def safe_json(text: str) -> str:
    """The same JSON document with invisible characters written as escapes (they can only stand inside strings)."""
    return text.translate(JSON_ESCAPES)


def cell_width(text: str) -> int:
    """How many cells a terminal needs for a safe one-line text."""
    if text.isascii():
        return len(text)
    from unicodedata import category, east_asian_width

    return sum(
        0 if category(char) in {"Mn", "Me", "Cf"} else 2 if east_asian_width(char) in {"W", "F"} else 1 for char in text
    )


def fit(text: str, width: int, cut: Literal["end", "middle"] = "end") -> str:
    """The text in at most `width` cells, with `…` where something was cut."""
    if cell_width(text) <= width:
        return text
    if width <= 1:
        return "…"[:width]
    tail = text[len(text) - (width - 1) // 2 :] if cut == "middle" else ""
    while tail and cell_width(tail) > (width - 1) // 2:
        tail = tail[1:]
    return take(text, width - 1 - cell_width(tail)) + "…" + tail


def take(text: str, width: int) -> str:
    """The longest beginning of a text that needs at most `width` cells."""
    used = 0
    for place, char in enumerate(text):
        used += cell_width(char)
        if used > width:
            return text[:place]
    return text
