"""Whole lines out of the pieces of a log: those that are wanted, each with its time if that is wanted."""

import re
from collections.abc import Iterator

from rwkvctl.cli.client import Record
from rwkvctl.cli.parser import UsageError
from rwkvctl.text.sanitize import safe_text


def pattern(text: str) -> re.Pattern[str] | None:
    """A regular expression of the operator's; None for none. Raises UsageError."""
    try:
        return re.compile(text) if text else None
    except re.error as error:
        raise UsageError(f"--grep: '{text}' is no regular expression: {error}.") from error


class Lines:
    """Takes pieces, gives what is to be shown of them. A line may come in several; the first one has its time."""

    def __init__(self, wanted: re.Pattern[str] | None, *, timestamps: bool) -> None:
        self.wanted, self.timestamps = wanted, timestamps
        self.begun: dict[str, tuple[str, str]] = {}

    def add(self, piece: Record) -> str:
        """The lines that a piece completes, as they are shown."""
        source = piece.get("source", "")
        before, at = self.begun.pop(source, ("", piece.get("at", "")))
        *whole, rest = (before + piece.get("text", "")).split("\n")
        if rest:
            self.begun[source] = (rest, piece.get("at", "") if whole else at)
        return "".join(self.shown(whole, at, piece.get("at", "")))

    def rest(self) -> str:
        """Lines that were never ended."""
        left = [shown for text, at in self.begun.values() for shown in self.shown([text], at, at)]
        self.begun.clear()
        return "".join(left)

    def shown(self, lines: list[str], first: str, later: str) -> Iterator[str]:
        """The wanted ones of some lines; the first was begun earlier."""
        for number, line in enumerate(lines):
            if self.wanted is None or self.wanted.search(line):
                at = (later if number else first).replace("T", " ").partition(".")[0].rstrip("Z")
                yield safe_text(f"{at or '-':<19} {line}\n" if self.timestamps else f"{line}\n")
