"""Words as they are typed into a shell, for lines that people copy: what they read is what is done."""

import re
import shlex
from collections.abc import Iterable
from typing import Final

from rwkvctl.safe import safe_line

QUOTED: Final = re.compile(r"""\$'(?P<escapes>(?:[^'\\]|\\.)*)'|'[^']*'|"(?:[^"\\]|\\.)*"|\\.""", re.DOTALL)
ESCAPE: Final = re.compile(rb"\\([0-7]{3}|.)", re.DOTALL)


def as_typed(words: Iterable[str]) -> str:
    """The words quoted for a shell (bash, zsh, ksh, or any of POSIX.1-2024), in printable characters: a control or an
    invisible character stands in `$'...'` as its bytes, so that a line that is pasted ends where it is seen to end."""
    return " ".join(map(quoted, words))


def quoted(word: str) -> str:
    """One word."""
    return shlex.quote(word) if safe_line(word) == word else f"$'{''.join(map(escaped, word))}'"


def escaped(char: str) -> str:
    """A character within `$'...'`."""
    if safe_line(char) == char:
        return f"\\{char}" if char in "\\'" else char
    try:
        raw = char.encode(errors="surrogateescape")
    except UnicodeEncodeError:
        raw = char.encode(errors="surrogatepass")
    return "".join(f"\\{byte:03o}" for byte in raw)


def as_words(line: str) -> list[str]:
    """The words of a line that was typed, as a shell parts them: `as_typed` undone, and any quotes of POSIX. Raises
    ValueError for a quotation that does not end."""
    return shlex.split(QUOTED.sub(without_escapes, line))


def without_escapes(found: re.Match[str]) -> str:
    """A quotation without escapes of the form `$'...'`."""
    if found["escapes"] is None:
        return found[0]
    raw = ESCAPE.sub(meant, found["escapes"].encode(errors="surrogatepass"))
    return shlex.quote(raw.decode(errors="surrogateescape"))


def meant(escape: re.Match[bytes]) -> bytes:
    """The byte that an escape stands for."""
    return bytes([int(escape[1], 8) & 0xFF]) if len(escape[1]) == 3 else escape[1]
