"""What will run, in order, and what will not, by reason: rows of the queue's screen and of the dispatch form. Pure."""

from collections import Counter
from collections.abc import Collection, Sequence
from typing import Final, NamedTuple

import msgspec

from rwkvctl.cli.render import MARKS, Cell
from rwkvctl.cli.tables.core_tables import ACTIONS, start
from rwkvctl.cli.tables.judge_tables import is_short, paid_line
from rwkvctl.protocol.replies import PlanReply
from rwkvctl.protocol.states import REASONS
from rwkvctl.protocol.views import JobView, PlanRow
from rwkvctl.text.quantities import count, duration
from rwkvctl.text.sanitize import safe_line
from rwkvctl.tui.daemon import job_reason
from rwkvctl.tui.jobs import columns
from rwkvctl.tui.widgets.strips import Pieces
from rwkvctl.tui.widgets.table_columns import Column

NAMED: Final = 4
"""Benchmarks, or models, that a group names; of more it says how many."""

FRESH: Final = frozenset({"run", "resume"})


class QueueRow(NamedTuple):
    """Something that will run: a waiting job, or a row of the plan that is not a job yet."""

    place: int
    job: JobView | None = None
    row: PlanRow | None = None

    @property
    def key(self) -> str:
        """Return the job's id, or for a row of the plan the key of what it would measure."""
        return self.job.id if self.job else f"+{key_of(self.row)}" if self.row else ""


class ReasonLine(NamedTuple):
    """A line of what will not run: a group of rows with the same reason, or one row of an open group."""

    reason: str
    rows: tuple[PlanRow, ...]
    row: PlanRow | None = None
    is_open: bool = False

    @property
    def key(self) -> str:
        """Return the key of the plan row, or the reason for the line of a group."""
        return key_of(self.row) if self.row else self.reason


def key_of(row: PlanRow) -> str:
    """Return the key that identifies a row of a plan."""
    return f"{row.model}\n{row.benchmark}\n{row.kind}"


def turns(jobs: Sequence[JobView], plan: PlanReply | None) -> list[QueueRow]:
    """Return the waiting jobs, then the rows that the plan would add behind them."""
    waiting = [QueueRow(place, job=job) for place, job in enumerate(jobs, 1)]
    fresh = [row for row in plan.rows if row.action in FRESH] if plan else []
    return [*waiting, *(QueueRow(place, row=row) for place, row in enumerate(fresh, len(jobs) + 1))]


def paid(plan: PlanReply) -> list[Pieces]:
    """Return what the judge and the checker would be asked for, one line each."""
    items = [msgspec.to_builtins(item) for item in plan.paid]
    return [[("pays     ", "dim"), (safe_line(paid_line(item)), "warn" if is_short(item) else "")] for item in items]


def lines(plan: PlanReply | None, opened: Collection[str]) -> list[ReasonLine]:
    """Return what would not run, grouped by reason, the most frequent first; open groups are followed by their rows."""
    groups: dict[str, list[PlanRow]] = {}
    for row in plan.rows if plan else ():
        if row.action not in FRESH:
            groups.setdefault(row.reason, []).append(row)
    found: list[ReasonLine] = []
    for reason, rows in sorted(groups.items(), key=lambda group: -len(group[1])):
        found.append(ReasonLine(reason, tuple(rows), is_open=reason in opened))
        found += [ReasonLine(reason, (), row) for row in rows] if reason in opened else []
    return found


def told(plan: PlanReply) -> str:
    """`would run 23 · done 2,431 · data-missing 51`, every reason once. Of a plan with more rows than were asked for,
    how many of them are drawn."""
    resumed = sum(row.action == "resume" for row in plan.rows) if not plan.next else plan.actions.get("resume", 0)
    others = Counter[str](row.reason for row in plan.rows if row.action not in FRESH)
    if plan.next:
        others = Counter[str]({reason: number for reason, number in plan.counts.items() if reason not in FRESH})
    parts = [f"would run {fresh(plan):,}" + (f" ({resumed:,} resume)" if resumed else "")]
    more = [f"{len(plan.rows):,} of {plan.total:,} rows; `rwkvctl queue --after {plan.next}` has more"]
    reasons = (f"{reason} {number:,}" for reason, number in others.most_common())
    return " · ".join([*parts, *reasons, *(more if plan.next else ())])


def fresh(plan: PlanReply) -> int:
    """Return how many jobs a dispatch of the plan would queue or resume."""
    if plan.next:
        return sum(number for action, number in plan.actions.items() if action in FRESH)
    return sum(row.action in FRESH for row in plan.rows)


def estimated(plan: PlanReply) -> str:
    """Return the sum of the known durations of what would run; empty if none is known or the plan has further pages."""
    if plan.next:
        return ""
    known = [row.est_s for row in plan.rows if row.action in FRESH and row.est_s is not None]
    return f"est. {duration(sum(known))}" if known else ""


def meaning(line: ReasonLine) -> str:
    """Return what a reason means and which benchmarks or models it concerns; for a single row, the daemon's detail."""
    if line.row:
        return line.row.detail or line.row.job
    names = Counter(row.benchmark for row in line.rows)
    if len(names) > NAMED:
        names = Counter(row.model for row in line.rows)
    some = ", ".join(f"{name} ({number})" if number > 1 else name for name, number in names.most_common(NAMED))
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return f"{meaning_of(line.reason)}: {some}{more}"


def meaning_of(reason: str) -> str:
    """Return the explanation of a reason in REASONS; the reason itself if it has none."""
    return next((words for name, words in REASONS.items() if name == reason), reason)


def state_of(turn: QueueRow) -> Cell:
    """Return a job's state; for a row of the plan, that it is not a job yet."""
    if turn.job:
        mark, role = MARKS.get(turn.job.state, ("?", "warn"))
        return Cell(f"{mark} {turn.job.state}", role, turn.job.state)
    return Cell("+ resume" if turn.row and turn.row.action == "resume" else "+ new", "info")


def text(turn: QueueRow, name: str) -> str:
    """Return a field that jobs and rows of a plan share."""
    return str(getattr(turn.job or turn.row, name))


def samples(turn: QueueRow) -> int | None:
    """Return the number of samples of the job or plan row; None if it is unknown."""
    return turn.job.total if turn.job else turn.row.samples if turn.row else None


def est_s(turn: QueueRow) -> float | None:
    """Return the expected duration in seconds; None if it is unknown."""
    return columns.est_s(turn.job) if turn.job else turn.row.est_s if turn.row else None


def starts_s(turn: QueueRow) -> float | None:
    """Return the seconds until the expected start."""
    return turn.job.starts_s if turn.job else turn.row.starts_s if turn.row else None


def where(turn: QueueRow) -> str:
    """Return the device on which it is expected to run; `–` if it is unknown."""
    return (turn.job.expected_on if turn.job else turn.row.lease if turn.row else "") or "–"


def why(turn: QueueRow) -> Cell:
    """Return why a job waits, or why a row of the plan has its place in the order."""
    if turn.job:
        return Cell(job_reason.reason(turn.job), "warn" if turn.job.state == "held" else "")
    row = turn.row
    assert row is not None
    place = "" if not row.lease else "model must be loaded" if row.loads else "model already loaded"
    basis = f"estimated {row.basis}" if row.basis else "no ETA: no history"
    detail = "" if row.detail == meaning_of(row.reason) else row.detail
    return Cell("; ".join(filter(None, [detail, place, basis])), "dim")


ORDER: Final[tuple[Column[QueueRow], ...]] = (
    Column("#", lambda turn: str(turn.place), 4, value=lambda turn: turn.place, right=True),
    Column("JOB", lambda turn: Cell(turn.job.id if turn.job else "–", "bold"), 5, right=True, name="job"),
    Column("STATE", state_of, 9),
    Column("MODEL", lambda turn: text(turn, "model"), 16, least=13, grow=2, cut="model"),
    Column("BENCHMARK", lambda turn: text(turn, "benchmark"), 14, least=10, grow=1, cut="middle"),
    Column("KIND", lambda turn: text(turn, "kind"), 9, rank=6, cut="middle"),
    Column("PRIO", lambda turn: str(turn.job.priority) if turn.job else "–", 4, right=True, rank=3,
           value=lambda turn: turn.job.priority if turn.job else None),
    Column("SAMPLES", lambda turn: count(samples(turn)), 7, value=samples, right=True, rank=7),
    Column("EST", lambda turn: duration(est_s(turn)), 6, value=est_s, right=True, rank=2, live=True),
    Column("START", lambda turn: start(starts_s(turn)), 9, value=starts_s, right=True, rank=1, live=True),
    Column("WHERE", where, 6, rank=4),
    Column("WHY", why, 30, least=24, grow=5),
)  # fmt: skip


def reason_cell(line: ReasonLine) -> Cell:
    """Return the reason of a group, or for a row within it what would not run."""
    if line.row:
        return Cell(f"    {line.row.benchmark} {line.row.kind} {line.row.model}")
    role = ACTIONS[line.rows[0].action][1]
    return Cell(f"{'▾' if line.is_open else '▸'} {line.reason}", role, line.reason)


GROUPS: Final[tuple[Column[ReasonLine], ...]] = (
    Column("REASON", reason_cell, 38, least=24, grow=1),
    Column("ROWS", lambda line: f"{len(line.rows):,}" if line.rows else "", 6, right=True,
           value=lambda line: len(line.rows)),
    Column("MEANING", lambda line: Cell(meaning(line), "dim"), 40, least=20, grow=3),
)  # fmt: skip
