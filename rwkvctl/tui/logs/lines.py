"""Lines of a log: their time, level and colours, and how they are drawn. Colour codes of a worker's log are kept as
roles of the theme; all other control characters become visible. Pure."""

import re
from typing import Final, Literal

from rwkvctl.text.quantities import duration
from rwkvctl.text.sanitize import safe_line
from rwkvctl.tui.widgets.strips import Pieces

Stamps = Literal["absolute", "relative", "off"]
TAB: Final = 4
STAMP: Final = re.compile(
    r"(?:(?P<date>\d{4}-\d\d-\d\d)[T ])?(?P<h>\d\d):(?P<m>\d\d):(?P<s>\d\d)(?P<f>[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?\s?"
)
LEVEL: Final = re.compile(
    r"\b(?:(?P<bad>(?:E|ERROR|CRITICAL|FATAL|Traceback)(?=[\s:\]]|$)|\w*(?:Error|Exception):)"
    r"|(?P<warn>W|WARN(?:ING)?)(?=[\s:\]]|$))"
)
SGR: Final = re.compile(r"\x1b\[([\d;]*)m")
DARK_COLOURS: Final = {31: "bad", 32: "ok", 33: "warn", 34: "info", 35: "title", 36: "info"}
BRIGHT_COLOURS: Final = {code + 60: role for code, role in DARK_COLOURS.items()}
COLOURS: Final = DARK_COLOURS | BRIGHT_COLOURS | {1: "bold", 2: "dim", 90: "dim"}
DAY_S: Final = 86400.0


def stamp_s(line: str) -> float | None:
    """Return the time at the beginning of a line in seconds since 0001-01-01, or since midnight if it has no date."""
    match = STAMP.match(line)
    if not match:
        return None
    part = float("0" + (match["f"] or "").replace(",", "."))
    seconds = int(match["h"]) * 3600 + int(match["m"]) * 60 + int(match["s"]) + part
    if not match["date"]:
        return seconds
    from datetime import date

    try:
        return date.fromisoformat(match["date"]).toordinal() * DAY_S + seconds
    except ValueError:
        return None


def level(line: str) -> Literal["", "warn", "bad"]:
    """Return the level of a line from the word after its time."""
    match = LEVEL.search(line, 0, 200)
    return "" if match is None else "bad" if match["bad"] else "warn"


def without_stamp(line: str) -> str:
    """Return the line without the time at its beginning."""
    match = STAMP.match(line)
    return line[match.end() :] if match else line


def since(line: str, start_s: float | None) -> str:
    """Return the line with its time as the time since the start: `+7m03s`."""
    at_s = stamp_s(line)
    if at_s is None or start_s is None:
        return line
    passed = (at_s - start_s) % DAY_S if at_s < DAY_S else max(0.0, at_s - start_s)
    return f"{'+' + duration(passed):>8} {without_stamp(line)}"


def pieces(line: bytes, stamps: Stamps = "absolute", start_s: float | None = None) -> Pieces:
    """Return a line as it is drawn: coloured by its level, unless it has colours of its own."""
    text = line.decode(errors="replace")
    if stamps == "off":
        text = without_stamp(text)
    elif stamps == "relative":
        text = since(text, start_s)
    if "\x1b[" not in text:
        return [(safe_line(text.expandtabs(TAB)), level(text))]
    return coloured(text.expandtabs(TAB))


def coloured(text: str) -> Pieces:
    """Colour codes as roles; everything else that a code could do (hide text, blink, other grounds) is left out."""
    found: list[tuple[str, str]] = []
    role, start = "", 0
    for match in SGR.finditer(text):
        found.append((safe_line(text[start : match.start()]), role))
        for code in match[1].split(";"):
            number = int(code) if code and len(code) < 4 else 0
            role = COLOURS.get(number, "" if number in {0, 22, 39} else role)
        start = match.end()
    found.append((safe_line(text[start:]), role))
    return [(piece, role) for piece, role in found if piece] or [("", "")]


def needle_of(text: str) -> "re.Pattern[str] | None":
    """Return the part of a search to highlight in a line; nothing if it only excludes lines."""
    if text.startswith("re:"):
        try:
            return re.compile(text[3:]) if text[3:] else None
        except re.error:
            return None
    words = [word for word in text.split() if not word.startswith("!") or len(word) == 1]
    flags = re.IGNORECASE if text == text.lower() else 0
    return re.compile("|".join(map(re.escape, words)), flags) if words else None
