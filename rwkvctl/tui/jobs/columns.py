"""Jobs as rows: the columns that the Overview, the queue and lists of jobs choose from. Pure."""

from typing import Final, NamedTuple

import msgspec

from rwkvctl.cli.client import Record
from rwkvctl.cli.render import MARKS, Cell, clock, share
from rwkvctl.cli.tables.core_tables import score_metric, score_text, start
from rwkvctl.protocol.views import EngineView, JobView, LeaseView
from rwkvctl.text.quantities import bar, duration, percent
from rwkvctl.tui.daemon.job_reason import reason
from rwkvctl.tui.daemon.state import ConsoleState, number, seconds
from rwkvctl.tui.widgets.table_columns import Column


class JobRow(NamedTuple):
    """A job, where in its list it stands, and the device its engine runs on."""

    job: JobView
    place: int = 0
    device: str = ""


def rows_of(jobs: list[JobView], state: ConsoleState) -> list[JobRow]:
    """Return a table row for each job: its place, counted from 1, and the device of its engine."""
    return [JobRow(job, place, device_of(job, state)) for place, job in enumerate(jobs, 1)]


def device_of(job: JobView, state: ConsoleState) -> str:
    """Return the display name of the device that a job's engine runs on; empty if it has none."""
    engine: EngineView | None = state.engines.get(job.engine)
    lease: LeaseView | None = state.leases.get(engine.lease) if engine else None
    return (lease.index or lease.id) if lease else engine.lease if engine else ""


def score_of(job: JobView) -> str:
    """Return a job's score, final or so far, with its interval."""
    return score_text(scored(job))


def score_value(job: JobView) -> float | None:
    """Return the score as a number, to sort by."""
    metric = score_metric(scored(job))
    return metric.get("value") if metric else None


def scored(job: JobView) -> Record:
    """A job as far as its score goes, as the command line's views read one; its provenance is not copied."""
    score = job.score and {"primary": job.score.primary, "metrics": msgspec.to_builtins(job.score.metrics)}
    return {"state": job.state, "score": score, "running_score": msgspec.to_builtins(job.running_score)}


def done_share(job: JobView) -> float:
    """Return the share of a job that is done."""
    return 1.0 if job.state == "done" else share(job.done, job.total)


def est_s(job: JobView) -> float | None:
    """Return the expected duration of a waiting job in seconds."""
    return None if job.eta_s is None or job.starts_s is None else max(0.0, job.eta_s - job.starts_s)


def took_s(job: JobView) -> float | None:
    """Return the seconds from a job's start to its end."""
    return seconds(job.finished) - seconds(job.started) if job.started and job.finished else None


def day(stamp: str) -> str:
    """Return `11-21 05:13` from an RFC 3339 stamp."""
    return f"{stamp[5:10]} {stamp[11:16]}" if len(stamp) >= 16 else stamp


def state_cell(row: JobRow) -> Cell:
    """Return a job's state with the mark and role of MARKS; `?` if the state has no mark."""
    mark, role = MARKS.get(row.job.state, ("?", "warn"))
    return Cell(f"{mark} {row.job.state}", role, row.job.state)


def progress(row: JobRow) -> Cell:
    """Return how far a job is; if it does not generate or makes no progress, what it does instead."""
    if row.job.idle_s is not None:
        return Cell(f"idle {duration(row.job.idle_s)}", "warn")
    if row.job.state == "generating":
        return Cell(bar(done_share(row.job), 10), "ok")
    return Cell(row.job.state, MARKS.get(row.job.state, ("?", "warn"))[1])


JOB: Final[Column[JobRow]] = Column(
    "JOB", lambda row: Cell(row.job.id, "bold"), 7, least=5, value=lambda row: number(row.job), right=True
)
STATE: Final[Column[JobRow]] = Column("STATE", state_cell, 12, value=lambda row: row.job.state, rank=4)
WAITS: Final[Column[JobRow]] = STATE._replace(width=8, rank=0)
"""The state of a job that waits: the words for those are short."""
MODEL: Final[Column[JobRow]] = Column("MODEL", lambda row: row.job.model, 18, least=17, grow=2, cut="model")
BENCHMARK: Final[Column[JobRow]] = Column(
    "BENCHMARK", lambda row: row.job.benchmark, 14, least=12, grow=1, cut="middle"
)
KIND: Final[Column[JobRow]] = Column("KIND", lambda row: row.job.kind, 10, least=9, rank=5, cut="middle")
DEVICE: Final[Column[JobRow]] = Column("GPU", lambda row: row.device or "–", 5)
PROGRESS: Final[Column[JobRow]] = Column(
    "PROGRESS", progress, 10, rank=2, live=True,
    value=lambda row: done_share(row.job), name="progress",
)  # fmt: skip
PERCENT: Final[Column[JobRow]] = Column(
    "%", lambda row: percent(done_share(row.job), 0), 3, value=lambda row: 100 * done_share(row.job), right=True,
    name="percent",
)  # fmt: skip
DONE: Final[Column[JobRow]] = Column(
    "DONE/TOTAL", lambda row: f"{row.job.done:,}/{row.job.total:,}" if row.job.total else "–", 13,
    value=lambda row: row.job.done, right=True, rank=4, live=True, name="done",
)  # fmt: skip
RATE: Final[Column[JobRow]] = Column(
    "SMP/S", lambda row: f"{row.job.samples_per_s:,.1f}" if row.job.samples_per_s else "–", 6, right=True, rank=6,
    value=lambda row: row.job.samples_per_s, name="rate", live=True,
)  # fmt: skip
SCORE: Final[Column[JobRow]] = Column(
    "SCORE ±CI", lambda row: Cell(score_of(row.job), "bold"), 11, value=lambda row: score_value(row.job), right=True,
    name="score",
)  # fmt: skip
ETA: Final[Column[JobRow]] = Column(
    "ETA", lambda row: duration(row.job.eta_s), 6, value=lambda row: row.job.eta_s, right=True, rank=1, live=True
)
PLACE: Final[Column[JobRow]] = Column("#", lambda row: str(row.place), 4, value=lambda row: row.place, right=True)
PRIORITY: Final[Column[JobRow]] = Column(
    "PRIO", lambda row: str(row.job.priority), 4, value=lambda row: row.job.priority, right=True, rank=4
)
EST: Final[Column[JobRow]] = Column(
    "EST", lambda row: duration(est_s(row.job)), 6, value=lambda row: est_s(row.job), right=True, rank=5, live=True
)
START: Final[Column[JobRow]] = Column(
    "START", lambda row: start(row.job.starts_s), 9, value=lambda row: row.job.starts_s, right=True, rank=3, live=True
)
WHY: Final[Column[JobRow]] = Column(
    "WHY", lambda row: Cell(reason(row.job), "bad" if row.job.state == "failed" else ""), 30, least=26, grow=6
)
QUEUED: Final[Column[JobRow]] = Column(
    "QUEUED", lambda row: Cell(day(row.job.queued), "dim"), 11, value=lambda row: row.job.queued, rank=6
)
TOOK: Final[Column[JobRow]] = Column(
    "TOOK", lambda row: duration(took_s(row.job)), 6, value=lambda row: took_s(row.job), right=True, rank=7
)

ENDED: Final[Column[JobRow]] = Column(
    "ENDED", lambda row: Cell(clock(row.job.finished), "dim"), 8, value=lambda row: row.job.finished
)

RUNNING: Final = (JOB, MODEL, BENCHMARK, KIND, STATE, DEVICE, PROGRESS, PERCENT, DONE, RATE, SCORE, ETA)
WAITING: Final = (JOB, WAITS, MODEL._replace(least=14), BENCHMARK, KIND, PRIORITY, EST, START, WHY)
RESULTS: Final = (JOB, ENDED, STATE, MODEL, BENCHMARK, KIND, SCORE, DONE, TOOK, WHY)
EVERY: Final = (
    JOB._replace(least=7), STATE._replace(rank=0), MODEL._replace(width=16, least=16), BENCHMARK, KIND,
    PERCENT._replace(rank=3), DONE, SCORE, PRIORITY, QUEUED, TOOK, WHY._replace(least=16),
)  # fmt: skip
