"""Words as they are typed into a shell, for lines that people copy: what they read is what is done."""

import shlex
from collections.abc import Iterable

from rwkvctl.safe import safe_line


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
