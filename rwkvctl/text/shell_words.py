"""Words as they are typed into a shell, for lines that people copy: what they read is what is done."""

import re
import shlex
from collections.abc import Iterable
from typing import Final

from rwkvctl.text.sanitize import safe_line

QUOTED: Final = re.compile(
    r"""\$'(?P<escapes>(?:[^'\\]|\\.)*)'|'[^']*'|"(?:[^"\\]|\\.)*"|\\.|(?P<open>\$')""", re.DOTALL
)
ESCAPE: Final = re.compile(rb"\\(?:([0-3][0-7]{2})|(['\"\\])|.)", re.DOTALL)


def as_typed(words: Iterable[str]) -> str:
    """The words quoted for a shell (bash, zsh, ksh, or any of POSIX.1-2024), in printable characters: a control or an
    invisible character stands in `$'...'` as its bytes, so that a line that is pasted ends where it is seen to end."""
    return " ".join(map(quoted, words))


def quoted(word: str) -> str:
    """Return one word quoted for a shell, in `$'...'` if it has unprintable characters."""
    return shlex.quote(word) if safe_line(word) == word else f"$'{''.join(map(escaped, word))}'"


def escaped(char: str) -> str:
    """Return a character as it stands within `$'...'`: an unprintable one as its bytes in octal."""
    if safe_line(char) == char:
        return f"\\{char}" if char in "\\'" else char
    try:
        raw = char.encode(errors="surrogateescape")
    except UnicodeEncodeError:
        raw = char.encode(errors="surrogatepass")
    return "".join(f"\\{byte:03o}" for byte in raw)


def as_words(line: str) -> list[str]:
    """The words of a line that was typed, as a shell parts them: `as_typed` undone, and any quotes of POSIX. Raises
    ValueError for a quotation that does not end, for escapes in `$'...'` that are no bytes, and for a NUL."""
    words = shlex.split(QUOTED.sub(without_escapes, line))
    if any("\0" in word for word in words):
        raise ValueError("a word of a command cannot hold the character NUL")
    return words


def without_escapes(found: re.Match[str]) -> str:
    """A quotation without escapes of the form `$'...'`."""
    if found["open"]:
        raise ValueError("No closing quotation")
    if found["escapes"] is None:
        return found[0]
    raw = ESCAPE.sub(meant, found["escapes"].encode(errors="surrogatepass"))
    return shlex.quote(raw.decode(errors="surrogateescape"))


def meant(escape: re.Match[bytes]) -> bytes:
    """The byte that an escape stands for."""
    if escape[1]:
        return bytes([int(escape[1], 8)])
    if escape[2]:
        return escape[2]
    raise ValueError("within $'...' only bytes of three octal digits, quotes and backslashes are understood here")
