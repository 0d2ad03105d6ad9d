"""Text of models, datasets and foreign processes, made safe to show on a terminal.

Everything that this program did not write itself passes here before it becomes a cell, a log line or a message. Control
characters become visible pictures, so an escape sequence is read and never obeyed.
"""

from collections.abc import Iterator
from functools import lru_cache
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
PLAIN: Final = frozenset(
    map(chr, (*range(0x20, 0x7F), *range(0xA0, 0xAD), *range(0xAE, 0x300), *range(0x370, 0x378), *range(0x391, 0x3A2),
              *range(0x3A3, 0x483), *range(0x2013, 0x2028), *range(0x2190, 0x2200), *range(0x2400, 0x2427),
              *range(0x2500, 0x25FD), *range(0x2713, 0x2719), *range(0x2800, 0x2900)))
)  # fmt: skip
"""Printable characters of one cell each: letters of Europe, arrows, lines, bars, Braille. Most text has no others."""

DISPUTED: Final = (
    range(0x1160, 0x1200), range(0xD7B0, 0xD800),  # conjoining jamo join the syllable before them, or do not
    range(0xFE00, 0xFE10), range(0x180B, 0x180E), range(0x1F1E6, 0x1F200), range(0x1F3FB, 0x1F400),  # emoji of several
    range(0x20E3, 0x20E4), range(0x302E, 0x3030), range(0x16FF0, 0x16FF2),
    range(0x115F, 0x1160), range(0x3164, 0x3165), range(0xFFA0, 0xFFA1), range(0xE0000, 0xE1000),  # drawn as nothing
    range(0x2630, 0x2638), range(0x268A, 0x2690), range(0x4DC0, 0x4E00), range(0x1D300, 0x1D377),  # wide since 2024
)  # fmt: skip
"""Characters for which terminals do not agree how many cells they take: they would push a table out of its columns."""
MARKS_STACKED: Final = 3
"""Combining marks over one letter; more than any script needs would be drawn over the lines above and below."""
FIRST_DISPUTED: Final = "\u00ad"
UNDISPUTED: Final = PLAIN | {"\n", "\t"}
COMBINING: Final = frozenset({"Mn", "Me", "Mc"})
NUMBERED: Final = frozenset({"Cs", "Cn", "Cf", "Co"})
"""Categories without a picture of their own: surrogates, unassigned, format characters, private use."""


class Styled(str):
    """Text that reaches a terminal as it is: what is foreign in it was made safe, and the rest, with its escape
    sequences, this program wrote. A test names the modules that may make it; every other text is made safe where it
    goes out. What is joined to it is a plain `str` again."""

    __slots__ = ()


LINE_END: Final = Styled("\n")


def styled(*parts: str) -> Styled:
    """The parts one after the other, those that are not Styled made safe for one line."""
    return Styled("".join(part if isinstance(part, Styled) else safe_line(part) for part in parts))


def safe_text(text: str) -> str:
    """Text of several lines: newline and tab stay, every other control character becomes visible."""
    return text if UNDISPUTED.issuperset(text) else visible_rest(text.translate(PICTURES))


def safe_line(text: str) -> str:
    """Text for one line or one cell: newline and tab become visible too."""
    return text if PLAIN.issuperset(text) else visible_rest(text.translate(ONE_LINE))


def visible_rest(text: str) -> str:
    """The same text with what still has no certain place in a cell shown by its number: lone surrogates (JSON may hold
    them, UTF-8 cannot), unassigned, private and disputed characters, and marks heaped on one letter. A mark with no
    letter before it stands on a circle, or it would be drawn into the cell to its left."""
    if not text or max(text) < FIRST_DISPUTED or UNDISPUTED.issuperset(text):
        return text
    from unicodedata import category

    shown: list[str] = []
    marks = -1
    for char in text:
        kind = category(char)
        if kind in NUMBERED or disputed(ord(char)):
            shown.append(f"<{ord(char):x}>")
            marks = 0
        elif kind not in COMBINING:
            shown.append(char)
            marks = -1 if char in "\n\t" else 0
        else:
            shown.append("\u25cc" + char if marks < 0 else char if marks < MARKS_STACKED else f"<{ord(char):x}>")
            marks = max(marks, 0) + 1
    return "".join(shown)


@lru_cache(4096)
def disputed(code: int) -> bool:
    """Return whether terminals disagree on the width of this character."""
    return any(code in codes for codes in DISPUTED)


def safe_json(text: str) -> str:
    """The same JSON document with all that `safe_line` would make visible written as escapes. Such characters can only
    stand inside strings; a carriage return between values becomes a line feed."""
    if UNDISPUTED.issuperset(text):
        return text
    return "".join(json_pieces(text.replace("\r", "\n")))


def json_pieces(text: str) -> Iterator[str]:
    """A JSON document character by character, each as it is or as an escape. Marks are counted as in `visible_rest`; a
    quotation mark is no letter to stand on."""
    from unicodedata import category

    marks = -1
    for char in text:
        if char in UNDISPUTED:
            marks = -1 if char in '"\n\t' else 0
            yield char
        elif (kind := category(char)) in COMBINING and not disputed(ord(char)) and ord(char) not in PICTURES:
            yield char if 0 <= marks < MARKS_STACKED else json_escape(char)
            marks = max(marks, 0) + 1
        else:
            marks = 0
            yield json_escape(char) if seen_by_number(char, kind) else char


def json_escape(char: str) -> str:
    """A character as JSON spells it in ASCII; beyond the first plane as a pair of surrogates."""
    units = char.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))


def seen_by_number(char: str, kind: str) -> bool:
    """Return whether a character of this category is shown by a picture or by its number wherever it stands."""
    return ord(char) in PICTURES or kind in NUMBERED or disputed(ord(char))


def cell_width(text: str) -> int:
    """Return how many cells a terminal needs for a safe one-line text."""
    if PLAIN.issuperset(text):
        return len(text)
    from unicodedata import category, east_asian_width

    return sum(0 if category(char) in COMBINING else 2 if east_asian_width(char) in {"W", "F"} else 1 for char in text)


def fit(text: str, width: int, cut: Literal["end", "middle"] = "end") -> str:
    """The text in at most `width` cells, with `…` where something was cut."""
    if cell_width(text) <= width:
        return text
    if width <= 1:
        return "…"[:width]
    tail = text[len(text) - (width - 1) // 2 :] if cut == "middle" else ""
    while tail and (cell_width(tail) > (width - 1) // 2 or not cell_width(tail[0])):
        tail = tail[1:]
    return take(text, width - 1 - cell_width(tail)) + "…" + tail


def take(text: str, width: int) -> str:
    """The longest beginning of a text that needs at most `width` cells."""
    return text[: end_of_piece(text, 0, width)]


def end_of_piece(text: str, start: int, width: int) -> int:
    """Return where the longest piece from `start` on ends that needs at most `width` cells. Looks no further than this
    piece, so that cutting a text into pieces takes time in proportion to the text."""
    end = start + max(0, width)
    if PLAIN.issuperset(text[start : end + 1]):
        return min(end, len(text))
    used = 0
    for place in range(start, len(text)):
        used += cell_width(text[place])
        if used > width:
            return place
    return len(text)
