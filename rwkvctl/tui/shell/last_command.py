"""The command that was typed last, and what it said."""

from dataclasses import dataclass, field
from typing import Final

from rwkvctl.tui.logs.store import LogStore

BRIEF_LINES: Final = 2
"""What says no more is answered above the keys; any other has the output screen."""

OUTPUT_LINES: Final = 100_000


@dataclass
class LastCommand:
    """The last command: its line, what it said, since when it runs or how it ended."""

    line: str = ""
    output: LogStore = field(default_factory=lambda: LogStore(OUTPUT_LINES))
    started_at: float = 0.0
    ended_at: float = 0.0
    exit_code: int | None = None

    @property
    def is_brief(self) -> bool:
        """Return whether it has said no more than fits above the keys."""
        return self.output.end - self.output.first <= BRIEF_LINES
