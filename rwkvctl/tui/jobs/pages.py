"""Jobs by the page: as many as have been looked at, newest first, each as it was last heard of. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from rwkvctl.protocol.replies import JobsReply
from rwkvctl.protocol.requests import JobsRequest
from rwkvctl.protocol.views import JobView
from rwkvctl.tui.daemon.state import number

PAGE: Final = 500

GROUPS: Final[Mapping[str, tuple[str, ...]]] = {
    "all": (),
    "running": ("generating", "starting", "grading", "judging", "stopping"),
    "waiting": ("queued", "paused"),
    "held": ("held",),
    "failed": ("failed",),
    "stopped": ("stopped",),
    "done": ("done",),
}
"""What can be looked at, with the states that belong to it."""


@dataclass(slots=True)
class JobPages:
    """The jobs of a group, with words in them. `more` is the cursor of the next page, 0 where all are there."""

    group: str = "all"
    words: str = ""
    rows: list[JobView] = field(default_factory=list)
    more: int = 0
    known: bool = False
    newest: int = 0

    @classmethod
    def about(cls, text: str) -> "JobPages":
        """From what a screen is about: a group's name and words, either or neither."""
        first, _, rest = text.partition(" ")
        return cls(first, rest) if first in GROUPS else cls("all", text)

    @property
    def text(self) -> str:
        """The group and the words as `about` reads them; empty for all jobs."""
        return " ".join(filter(None, [self.group if self.group != "all" or self.words else "", self.words]))

    @property
    def request(self) -> JobsRequest:
        """Return the request for the next page."""
        return JobsRequest(state=",".join(GROUPS[self.group]), words=self.words, limit=PAGE, before=self.more)

    def take(self, reply: JobsReply) -> None:
        """Append a page of jobs and keep the cursor of the next page."""
        self.rows += reply.items
        self.newest = max([self.newest, *map(number, reply.items)])
        self.more, self.known = reply.next, True

    def update(self, jobs: Mapping[str, JobView]) -> list[JobView]:
        """The rows as they are by now: with what was heard of them, without those that have left the group, and with
        those that are new."""
        fresh: list[JobView] = []
        if self.known and not self.words:
            fresh = sorted((job for job in jobs.values() if number(job) > self.newest), key=number, reverse=True)
            self.newest = max([self.newest, *map(number, fresh[:1])])
        states = GROUPS[self.group]
        found = [*fresh, *(newer(row, jobs.get(row.id)) for row in self.rows)]
        self.rows = [row for row in found if not states or row.state in states]
        return self.rows


def newer(row: JobView, heard: JobView | None) -> JobView:
    """A row as it was heard of last; what only the list knows of a job that is over stays."""
    if heard is None or (row.score is not None and heard.score is None and heard.state == row.state):
        return row
    return heard


def is_plain(text: str) -> bool:
    """Return whether a filter is words that the daemon can look for, and no expression of the console's own."""
    return not any(mark in text for mark in ":!~<>=")
