"""The subjects of one score, with their values and row counts. Pure."""

from typing import Final, NamedTuple

from rwkvctl.protocol.views import ScoreView
from rwkvctl.text.quantities import count
from rwkvctl.tui.scores.runs import part
from rwkvctl.tui.widgets.table_columns import Column

EVERY: Final = "all subjects"


class Subject(NamedTuple):
    """One subject of a benchmark with its score and its number of rows."""

    name: str
    value: float
    rows: int


def subjects_of(view: ScoreView) -> list[Subject]:
    """Return all rows as one, then the subjects of a score, the worst first; empty if its rows have no subjects."""
    found = [Subject(name, one["value"], one["rows"]) for name, one in part(view, "groups").items()]
    headline = view.metrics[view.primary].value if view.primary in view.metrics else None
    every = [Subject(EVERY, headline or 0.0, view.rows)] if found else []
    return [*every, *sorted(found, key=lambda subject: (subject.value, subject.name))]


def rows_of(subject: Subject) -> str:
    """Return the number of rows, which an import does not always record."""
    return count(subject.rows) if subject.rows else "–"


COLUMNS: Final[tuple[Column[Subject], ...]] = (
    Column("SUBJECT", lambda subject: subject.name, 30, least=20, grow=1, cut="middle"),
    Column("%", lambda subject: f"{100 * subject.value:.1f}", 6, right=True, value=lambda subject: subject.value),
    Column("ROWS", rows_of, 7, right=True, value=lambda subject: subject.rows),
)  # fmt: skip
