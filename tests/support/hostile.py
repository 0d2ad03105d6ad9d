"""Texts that nobody well-meaning writes, each with a name, for every place where foreign text is stored, shown or sent;
and what a terminal must never be sent.

`HOSTILE_TEXTS` are strings, the last of them long; `HOSTILE_BYTES` are bytes that no decoder may choke on. `SHORT` are
the strings that fit into a name or a cell, `STORABLE` those of them without lone surrogates.
"""

import re
from typing import Any, Final, NamedTuple

import pytest


class Hostile(NamedTuple):
    """A text and what it is."""

    name: str
    text: str


class HostileBytes(NamedTuple):
    """Bytes and what they are."""

    name: str
    data: bytes


LONG: Final = 300
"""A text of more characters than this is a long one, for places without a bound."""

HOSTILE_TEXTS: Final = [
    Hostile("line feed", "first\nsecond"),
    Hostile("carriage return", "\r overwrites"),
    Hostile("carriage return and line feed", "first\r\nsecond"),
    Hostile("vertical tab", "first\x0bsecond"),
    Hostile("form feed", "first\x0csecond"),
    Hostile("file, group and record separator", "a\x1cb\x1dc\x1ed\x1fe"),
    Hostile("next line", "first\x85second"),
    Hostile("line separator", "first\u2028second"),
    Hostile("paragraph separator", "first\u2029second"),
    Hostile("line ends only", "\n\r\n\x85\u2028\u2029"),
    Hostile("tab", "a\tb"),
    Hostile("nul", "a\x00b"),
    Hostile("every C0 control", "".join(map(chr, range(0x20)))),
    Hostile("every C1 control", "".join(map(chr, range(0x7F, 0xA0)))),
    Hostile("backspace", "a\x08\x08\x08b back"),
    Hostile("bell", "\x07 bell"),
    Hostile("shift out", "\x0e charset"),
    Hostile("delete", "\x7f deleted"),
    Hostile("clipboard", "\x1b]52;c;RVZJTA==\x07 clipboard"),
    Hostile("clipboard in C1", "\x9d52;c;RVZJTA==\x9c clipboard"),
    Hostile("title", "\x1b]0;EVIL\x07 title"),
    Hostile("clear", "\x1b[2J clear"),
    Hostile("colour", "\x1b[35m colour"),
    Hostile("colour in C1", "\x9b35m colour"),
    Hostile("device control", "\x1bP+q544e\x1b\\ query"),
    Hostile("status report", "\x1b[5n ask"),
    Hostile("device attributes", "\x1b[c ask"),
    Hostile("other screen", "\x1b[?1049l screen"),
    Hostile("window size", "\x1b[8;1;1t size"),
    Hostile("hyperlink", "\x1b]8;;http://evil\x1b\\link\x1b]8;;\x1b\\"),
    Hostile("reset", "\x1bc reset"),
    Hostile("scrollback", "\x1b[3J\x1b[H scrollback"),
    Hostile("picture", "\x1b_Gf=32;AAAA\x1b\\ picture"),
    Hostile("file", "\x1b]1337;File=:AAAA\x07 file"),
    Hostile("end of a paste", "\x1b[201~reboot\r"),
    Hostile("cut sequence", "cut \x1b["),
    Hostile("bidi override", "\u202eesrever"),
    Hostile("bidi isolates", "\u2066isolated\u2069"),
    Hostile("arabic letter mark", "a\u061cb"),
    Hostile("zero width", "\u200bzero\ufeffwidth"),
    Hostile("joiners", "a\u200db\u200cc\u2060d"),
    Hostile("soft hyphen", "pass\u00adword"),
    Hostile("lone surrogate", "\ud800 surrogate"),
    Hostile("surrogate escape", "caf\udce9 \udc9b31m"),
    Hostile("tags", "\U000e0041 tags"),
    Hostile("noncharacters", "\ufffe\uffff\U0010ffff"),
    Hostile("unassigned", "\u0378 unassigned"),
    Hostile("private use", "\ue000\U000f0000"),
    Hostile("variation selectors", "a\ufe0fb\U000e0100"),
    Hostile("nothing drawn", "\u3164\u115f\uffa0\u17b4\u180b"),
    Hostile("heap of marks", "e\u0301\u0302\u0303\u0304\u0305\u0306 heap"),
    Hostile("mark without a letter", "\u0301alone"),
    Hostile("composed", "caf\u00e9"),
    Hostile("decomposed", "cafe\u0301"),
    Hostile("wide", "宽字符 한글 👩‍👩‍👧 🇩🇪 ❤️ wide"),
    Hostile("right to left", "\u0627\u0644\u0639\u0631\u0628\u064a\u0629 עברית right to left"),
    Hostile("console markup", "[bold]E[/bold] [@click=app.quit]F[/] [/nope]"),
    Hostile("end of a script", "</script><script>alert(1)</script>"),
    Hostile("comment in a script", "<!--<script>"),
    Hostile("attribute", "\"'><img src=x onerror=alert(1)>"),
    Hostile("entity", "&lt;b&gt;&amp;&#x1b;"),
    Hostile("end of a style", "</style></textarea></title>]]>"),
    Hostile("formula", "=cmd()"),
    Hostile("formula with plus", "+1+cmd|' /C calc'!A0"),
    Hostile("formula with minus", "-1+cmd|' /C calc'!A0"),
    Hostile("formula with at", "@SUM(1+1)"),
    Hostile("formula after a tab", "\t=1+1"),
    Hostile("quotes", '"a""b" \'c\' `d`'),
    Hostile("shell", "$(reboot); `reboot` && reboot #"),
    Hostile("formats", "%s%n%99999d {0.__class__} ${HOME}"),
    Hostile("backslash escapes", "\\x1b[31m \\u001b \\n \\"),
    Hostile("flag", "--help"),
    Hostile("path upwards", "../../../../etc/passwd"),
    Hostile("absolute path", "/etc/passwd"),
    Hostile("windows path", "C:\\con\\..\\x"),
    Hostile("device name", "CON"),
    Hostile("hidden", ".hidden"),
    Hostile("dots", ".."),
    Hostile("trailing dot and space", "name. "),
    Hostile("json", '{"a": [1e999, NaN], "a": null}'),
    Hostile("number", "NaN"),
    Hostile("spaces", "   "),
    Hostile("empty", ""),
    Hostile("five hundred letters", "x" * 500),
    Hostile("ten thousand lines", "line\n" * 10_000),
    Hostile("a megabyte in one line", "long " * 200_000),
    Hostile("a hundred thousand escapes", "\x1b[35m" * 20_000),
]

HOSTILE_BYTES: Final = [
    HostileBytes("continuation alone", b"a\x80b"),
    HostileBytes("C1 sequence as a byte", b"\x9b35m colour"),
    HostileBytes("overlong nul", b"a\xc0\x80b"),
    HostileBytes("overlong slash", b"..\xc0\xaf..\xc0\xafetc"),
    HostileBytes("cut character", b"a\xe2\x82"),
    HostileBytes("surrogate in UTF-8", b"\xed\xa0\x80"),
    HostileBytes("beyond Unicode", b"\xf4\x90\x80\x80"),
    HostileBytes("latin-1", b"caf\xe9"),
    HostileBytes("UTF-16", "x\n".encode("utf-16")),
    HostileBytes("byte order mark", b"\xef\xbb\xbfx"),
    HostileBytes("never in UTF-8", b"\xfe\xff"),
    HostileBytes("every byte", bytes(range(256))),
]

SHORT: Final = tuple(hostile.text for hostile in HOSTILE_TEXTS if 0 < len(hostile.text) <= LONG)
"""The texts for a name, a cell, a title: none is long or empty."""


STORABLE: Final = tuple(text for text in SHORT if not re.search("[\ud800-\udfff]", text))
"""Those of them that UTF-8 can hold. JSON may spell a lone surrogate, no file and no socket carries one."""


def hostile_texts(*, long: bool = True) -> list[Any]:
    """The texts as parameters of a test, under their names."""
    return [pytest.param(text, id=name) for name, text in HOSTILE_TEXTS if long or len(text) <= LONG]


def hostile_bytes() -> list[Any]:
    """The bytes as parameters of a test, under their names."""
    return [pytest.param(data, id=name) for name, data in HOSTILE_BYTES]


SEQUENCE: Final = re.compile(r"\x1b\[[?<>=]?[\d;]*\$?[A-Za-z]|\x1b\]22;\w*\x07")
CONSOLE_ENDS: Final = frozenset("HCmhlupn")
"""Ends of control sequences that the console itself sends: cursor, style, modes, keyboard, questions at the start."""

FORBIDDEN: Final = re.compile(
    "[\x00-\x09\x0b\x0c\x0e-\x1f\x7f-\x9f\u00ad\u061c\u115f\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f"
    "\u3164\ud800-\udfff\ufe00-\ufe0f\ufeff\uffa0\ufff9-\ufffb\ufffe\uffff\U000e0000-\U000e0fff]"
)
"""Characters that a terminal hides or obeys; none may reach it outside the sequences of our own."""


def wrong(sent: str, ends: frozenset[str] = CONSOLE_ENDS) -> list[str]:
    """What in a stream could have come from a hostile text. `ends` are those of the sequences that we send."""
    found = [sequence for sequence in SEQUENCE.findall(sent) if "]" not in sequence and sequence[-1] not in ends]
    rest = SEQUENCE.sub("", sent).replace("\r", "")
    return found + [rest[max(0, match.start() - 20) : match.end() + 20] for match in FORBIDDEN.finditer(rest)]
