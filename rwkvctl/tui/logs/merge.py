"""Several logs merged into one: each line with its time, how bad it is and its source, in the order of the times. Pure.

Pieces of logs come side by side. What has come since the last `flush` is put in order; across flushes the order is that
of arrival. What the sources tell of the past when they are opened is put in order together. Where a day begins a line
says which.
"""

from typing import Final, NamedTuple

from rwkvctl.cli.render import Role
from rwkvctl.cli.tables.history_tables import ROLES
from rwkvctl.protocol.events import Event, LogChunk
from rwkvctl.tui.daemon.event_wording import news
from rwkvctl.tui.logs.lines import STAMP, level
from rwkvctl.tui.logs.store import LogStore

LETTERS: Final[dict[str, str]] = {"bad": "E", "warn": "W"}
SOURCE_WIDTH: Final = 6
PATIENCE: Final = 15
"""Flushes for which the past of a source is waited for: three seconds. Another one that is slow holds up nobody longer.
"""


class MergedLine(NamedTuple):
    """A line on its way into the log. `at` is RFC 3339; empty if unknown."""

    at: str
    text: str


class LogMerge:
    """Puts lines of several sources into one store."""

    def __init__(self, store: LogStore) -> None:
        self.store = store
        self._begun: dict[str, tuple[str, str]] = {}
        self._waiting: list[MergedLine] = []
        self._day = ""
        self._behind: set[str] = set()
        self._patience = PATIENCE

    def await_past(self, source: str) -> None:
        """Hold back all lines until this source has sent its past. A source that joins later is merged as it comes."""
        if self._patience:
            self._behind.add(source)

    def past_is_told(self, source: str) -> None:
        """Record that a source has sent its past, or that nothing more comes from it."""
        self._behind.discard(source)

    def take(self, chunk: LogChunk) -> None:
        """Take in a piece of a log, which may end within a line; a line has the time at which it began."""
        begun, at = self._begun.pop(chunk.source, ("", ""))
        *whole, rest = (begun + chunk.text).split("\n")
        first = at or chunk.at
        for number, text in enumerate(whole):
            self._waiting.append(told(chunk.source, text, chunk.at if number else first))
        if rest:
            self._begun[chunk.source] = (rest, chunk.at if whole else first)

    def take_event(self, event: Event) -> None:
        """Queue an event of the node as a line of the source `daemon`."""
        text, about = news(event.job, event.text) or event.kind, event.job or event.engine
        text = text if not about or text.startswith(f"{about} ") else f"{about} {text}"
        letter = LETTERS.get(severity(event), " ")
        self._waiting.append(MergedLine(event.at, composed(event.at[11:19], letter, "daemon", text)))

    def flush(self) -> None:
        """Append the waiting lines to the store in order of time, and note where a new day begins. While the past of a
        source is awaited, up to PATIENCE calls append nothing."""
        if self._behind and self._patience:
            self._patience -= 1
            return
        if not self._waiting:
            return
        self._patience = 0
        waiting, self._waiting = self._waiting, []
        if any(line.at for line in waiting):
            waiting = in_order(waiting)
        lines: list[bytes] = []
        for line in waiting:
            day = line.at[:10] or self._day
            if day != self._day:
                self.store.extend(lines)
                self.store.note(f"{day} UTC")
                lines, self._day = [], day
            lines.append(line.text.encode(errors="replace"))
        self.store.extend(lines)

    def note(self, text: str) -> None:
        """Append a note of the console behind all lines that have come."""
        self._patience = 0
        self.flush()
        self.store.note(text)


def in_order(lines: list[MergedLine]) -> list[MergedLine]:
    """Sort lines by time; a line without one stays behind the line that it followed."""
    at, keyed = "", list[tuple[str, MergedLine]]()
    for line in lines:
        at = line.at or at
        keyed.append((at, line))
    return [line for _, line in sorted(keyed, key=lambda pair: pair[0])]


def told(source: str, text: str, at: str) -> MergedLine:
    """Return a worker's line to merge; its own time stamp has priority over the time at which it was written."""
    match = STAMP.match(text)
    clock = at[11:19]
    if match:
        clock = f"{match['h']}:{match['m']}:{match['s']}"
        at = match[0].strip() if match["date"] else at
        text = text[match.end() :]
    if source == "daemon":
        text = news(source, text)
    return MergedLine(at, composed(clock, LETTERS.get(level(text), " "), source, text))


def composed(clock: str, letter: str, source: str, text: str) -> str:
    """Return a line of the merged log: time, level, source in a column of its own, and text."""
    return f"{clock:<8} {letter} {source:<{SOURCE_WIDTH}} {text}"


def severity(event: Event) -> Role:
    """Return the role for an event's severity, from the state or condition that it reports."""
    return ROLES.get(str(event.data.get("state") or event.data.get("condition") or ""), "")
