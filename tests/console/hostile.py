"""Thirty strings that models, datasets and foreign processes may hold, and what a terminal must never be sent."""

import re

CORPUS = (
    "\x1b]52;c;RVZJTA==\x07 clipboard", "\x1b]0;EVIL\x07 title", "\x1b[2J clear", "\x1b[31m colour", "\x9b31m colour",
    "\x9d52;c;RVZJTA==\x9c clipboard", "\x1bP+q544e\x1b\\ query", "\x1b[5n ask", "\x1b[c ask", "\x1b[?1049l screen",
    "\x1b[8;1;1t size", "\x1b]8;;http://evil\x1b\\link\x1b]8;;\x1b\\", "\x1bc reset", "\x1b[3J\x1b[H scrollback",
    "\x1b_Gf=32;AAAA\x1b\\ picture", "\x1b]1337;File=:AAAA\x07 file", "\r overwrites", "a\x08\x08\x08b back",
    "\x07 bell",
    "\x0e charset", "\x7f deleted", "\u202eesrever", "\u2066isolated\u2069", "\u200bzero\ufeffwidth",
    "\ud800 surrogate",
    "\U000e0041 tags", "[bold]E[/bold] [@click=app.quit]F[/] [/nope]", "e\u0301\u0302\u0303\u0304\u0305\u0306 heap",
    "宽字符 한글 👩‍👩‍👧 🇩🇪 ❤️ wide", "\u0627\u0644\u0639\u0631\u0628\u064a\u0629 עברית right to left",
)  # fmt: skip

SEQUENCE = re.compile(r"\x1b\[[?<>=]?[\d;]*\$?[A-Za-z]|\x1b\]22;\w*\x07")
ALLOWED = frozenset("HCmhlupn")
"""Ends of control sequences that the console itself sends: cursor, style, modes, keyboard, questions at the start."""

FORBIDDEN = re.compile("[\x00-\x09\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufffe]")


def wrong(sent: str) -> list[str]:
    """What in a stream could have come from a hostile text."""
    found = [sequence for sequence in SEQUENCE.findall(sent) if "]" not in sequence and sequence[-1] not in ALLOWED]
    rest = SEQUENCE.sub("", sent).replace("\r", "")
    return found + [rest[max(0, match.start() - 20) : match.end() + 20] for match in FORBIDDEN.finditer(rest)]
