"""Events as small rows, so that a hundred thousand fit in memory, and the filters over them. Pure."""

from collections.abc import Iterable, Sequence
from typing import Final, Literal, NamedTuple

from rwkvctl.cli.render import MARKS, Cell, Role, clock
from rwkvctl.protocol.events import Event
from rwkvctl.tui.daemon.event_wording import news
from rwkvctl.tui.logs.merge import severity
from rwkvctl.tui.widgets.table_columns import Column

HELD: Final = 100_000
"""Events that are held; of those beyond, the oldest are let go and fetched again when they are wanted."""

Severity = Literal["", "warn", "bad"]
SEVERITIES: Final[dict[Severity, str]] = {"": "", "warn": "warnings and failures", "bad": "failures"}
SUBJECTS: Final[dict[str, tuple[str, ...]]] = {
    "": (), "jobs": ("job", "session"), "engines": ("engine",), "devices": ("gpu", "lease", "zombie"),
    "judge": ("judge", "checker"), "daemon": ("daemon",),
}  # fmt: skip
"""What events are about, by the first word of their kinds."""


class EventRow(NamedTuple):
    """The fields of an event that its list keeps, to hold many events in little memory."""

    seq: int
    at: str
    kind: str
    job: str
    engine: str
    session: str
    state: str
    role: Role
    text: str


def row_of(event: Event) -> EventRow:
    state = str(event.data.get("state") or event.data.get("condition") or "")
    return EventRow(
        event.seq, event.at, event.kind, event.job, event.engine, event.session, state, severity(event), event.text
    )


def key(row: EventRow) -> str:
    """Return the key of a row in the table: the event's sequence number."""
    return str(row.seq)


def mark(row: EventRow) -> Cell:
    """Return the mark of the state that an event reports; `!` or `·` if it has none."""
    return Cell(*MARKS.get(row.state, ("!" if row.role else "·", row.role or "dim")))


COLUMNS: Final[tuple[Column[EventRow], ...]] = (
    Column("DATE", lambda row: Cell(row.at[5:10], "dim"), 5, rank=3, value=lambda row: row.at),
    Column("AT", lambda row: Cell(clock(row.at), "dim"), 8, value=lambda row: row.at),
    Column(" ", mark, 1, value=lambda row: row.state, name="state"),
    Column("KIND", lambda row: Cell(row.kind, "dim"), 12, rank=4),
    Column("JOB", lambda row: Cell(row.job, "bold"), 6),
    Column("ENGINE", lambda row: row.engine, 6, rank=5),
    Column("WHAT", lambda row: Cell(news(row.job, row.text) or row.kind, row.role), 40, least=36, grow=1,
           value=lambda row: row.text or row.kind),
    Column("#", lambda row: Cell(str(row.seq), "dim"), 7, rank=6, right=True, value=lambda row: row.seq),
)  # fmt: skip


class EventBook:
    """Known events, newest first: the store's history without gaps up to the present."""

    def __init__(self, held: int = HELD) -> None:
        self.held = held
        self.rows: list[EventRow] = []
        self.severity: Severity = ""
        self.subject = ""
        self.began = False
        self._new: list[EventRow] = []
        self._shown: list[EventRow] | None = None

    def take(self, event: Event) -> None:
        """Queue a new event; `settle` makes it visible."""
        self._new.append(row_of(event))

    def settle(self) -> int:
        """Take in the queued events and return how many of them are shown."""
        new, self._new = self._new, []
        if not new:
            return 0
        if self.rows and new[0].seq <= self.rows[0].seq:
            self.rows = []  # a new store: its numbers begin again
        new.reverse()
        self.rows[:0] = new
        if len(self.rows) > self.held:
            del self.rows[self.held :]
            self.began = False
        self._shown = None
        return sum(1 for _ in self._passing(new))

    def extend(self, events: Sequence[Event], *, wanted: int) -> None:
        """Take in a page of older events, oldest first; a page shorter than requested is the last one."""
        self.rows += [row_of(event) for event in reversed(events) if not self.rows or event.seq < self.rows[-1].seq]
        self.began = len(events) < wanted
        self._shown = None

    def narrow(self, severity: Severity, subject: str) -> None:
        """Set the filters of severity and subject."""
        self.severity, self.subject, self._shown = severity, subject, None

    @property
    def oldest(self) -> int:
        """Return the number of the oldest known event; 0 if none is known."""
        return self.rows[-1].seq if self.rows else 0

    @property
    def may_go_back(self) -> bool:
        """Return whether an older page may be fetched."""
        return bool(self.rows) and not self.began and len(self.rows) < self.held

    @property
    def shown(self) -> list[EventRow]:
        """Return the rows that pass the filters of severity and subject, newest first."""
        if self._shown is None:
            self._shown = list(self._passing(self.rows)) if self.severity or self.subject else self.rows
        return self._shown

    def _passing(self, rows: Iterable[EventRow]) -> Iterable[EventRow]:
        bad = {"": ("", "ok", "warn", "bad"), "warn": ("warn", "bad"), "bad": ("bad",)}[self.severity]
        kinds = SUBJECTS[self.subject]
        return (row for row in rows if row.role in bad and (not kinds or row.kind.partition(".")[0] in kinds))

    def place_at(self, at: str) -> int | None:
        """Return the index of the newest shown event at or before a time; None if it is not known yet."""
        return next((place for place, row in enumerate(self.shown) if row.at <= at), None)
