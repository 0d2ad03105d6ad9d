"""Assemble log pieces into whole lines; filter them and prefix their time where that is asked for."""

import re
from collections.abc import Iterator

from rwkvctl.cli.client import Record
from rwkvctl.cli.parser import UsageError
from rwkvctl.text.sanitize import safe_text


def pattern(text: str) -> re.Pattern[str] | None:
    """Compile the operator's regular expression; None for an empty one. Raises UsageError if it is invalid."""
    try:
        return re.compile(text) if text else None
    except re.error as error:
        raise UsageError(f"--grep: '{text}' is not a regular expression: {error}.") from error


class LogLines:
    """Takes pieces of a log and returns the lines to show. A line may arrive in several pieces; its time is that of the
    first."""

    def __init__(self, wanted: re.Pattern[str] | None, *, timestamps: bool) -> None:
        self.wanted, self.timestamps = wanted, timestamps
        self.begun: dict[str, tuple[str, str]] = {}

    def add(self, piece: Record) -> str:
        """Return the lines that a piece completes, formatted."""
        source = piece.get("source", "")
        before, at = self.begun.pop(source, ("", piece.get("at", "")))
        *whole, rest = (before + piece.get("text", "")).split("\n")
        if rest:
            self.begun[source] = (rest, piece.get("at", "") if whole else at)
        return "".join(self.shown(whole, at, piece.get("at", "")))

    def rest(self) -> str:
        """Return the unfinished last lines of all sources, formatted, and forget them."""
        left = [shown for text, at in self.begun.values() for shown in self.shown([text], at, at)]
        self.begun.clear()
        return "".join(left)

    def shown(self, lines: list[str], first: str, later: str) -> Iterator[str]:
        """Yield the matching lines, formatted; `first` is the time of the first line, `later` that of the others."""
        for number, line in enumerate(lines):
            if self.wanted is None or self.wanted.search(line):
                at = (later if number else first).replace("T", " ").partition(".")[0].rstrip("Z")
                yield safe_text(f"{at or '-':<19} {line}\n" if self.timestamps else f"{line}\n")
