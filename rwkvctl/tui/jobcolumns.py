"""Jobs as rows: the columns that the Overview, the queue and lists of jobs choose from. Pure."""

from typing import Final, NamedTuple

import msgspec

from rwkvctl.protocol.messages import EngineView, JobView, LeaseView
from rwkvctl.render import MARKS, Cell, bar, duration, percent, share
from rwkvctl.tui.columns import Column
from rwkvctl.tui.state import ConsoleState, number
from rwkvctl.views import running_score, why


class JobRow(NamedTuple):
    """A job, where in its list it stands, and the device its engine runs on."""

    job: JobView
    place: int = 0
    device: str = ""


def rows_of(jobs: list[JobView], state: ConsoleState) -> list[JobRow]:
    """Jobs with their devices."""
    return [JobRow(job, place, device_of(job, state)) for place, job in enumerate(jobs, 1)]


def device_of(job: JobView, state: ConsoleState) -> str:
    """The device that a job's engine runs on, as people call it; empty where it has none."""
    engine: EngineView | None = state.engines.get(job.engine)
    lease: LeaseView | None = state.leases.get(engine.lease) if engine else None
    return (lease.index or lease.id) if lease else engine.lease if engine else ""


def score_of(job: JobView) -> str:
    """A job's score, or the score so far, with its interval."""
    metric = job.score.metrics.get(job.score.primary) if job.score else job.running_score
    if metric is None:
        return "–"
    return running_score({"running_score": msgspec.to_builtins(metric)})


def score_value(job: JobView) -> float | None:
    """The same as a number, to sort by."""
    metric = job.score.metrics.get(job.score.primary) if job.score else job.running_score
    return metric.value if metric else None


def done_share(job: JobView) -> float:
    """How much of a job is done."""
    return 1.0 if job.state == "done" else share(job.done, job.total)


def reason(job: JobView) -> str:
    """Why it waits, or how it ended."""
    return why({"reason": job.reason, "detail": job.detail})


def state_cell(row: JobRow) -> Cell:
    """A job's state with its mark."""
    mark, role = MARKS.get(row.job.state, ("?", "warn"))
    return Cell(f"{mark} {row.job.state}", role, row.job.state)


JOB: Final[Column[JobRow]] = Column(
    "JOB", lambda row: Cell(row.job.id, "bold"), 5, value=lambda row: number(row.job), right=True
)
STATE: Final[Column[JobRow]] = Column("STATE", state_cell, 12, value=lambda row: row.job.state, rank=4)
MODEL: Final[Column[JobRow]] = Column("MODEL", lambda row: row.job.model, 16, least=14, grow=2, cut="middle")
BENCHMARK: Final[Column[JobRow]] = Column(
    "BENCHMARK", lambda row: row.job.benchmark, 14, least=10, grow=1, cut="middle"
)
KIND: Final[Column[JobRow]] = Column("KIND", lambda row: row.job.kind, 10, least=5, rank=5, cut="middle")
DEVICE: Final[Column[JobRow]] = Column("GPU", lambda row: row.device or "–", 5)
PROGRESS: Final[Column[JobRow]] = Column(
    "PROGRESS", lambda row: Cell(bar(done_share(row.job), 12), "ok"), 12, rank=2, live=True,
    value=lambda row: done_share(row.job), name="progress",
)  # fmt: skip
PERCENT: Final[Column[JobRow]] = Column(
    "%", lambda row: percent(done_share(row.job), 0), 3, value=lambda row: 100 * done_share(row.job), right=True,
    name="percent",
)  # fmt: skip
DONE: Final[Column[JobRow]] = Column(
    "DONE/TOTAL", lambda row: f"{row.job.done:,}/{row.job.total:,}", 13, value=lambda row: row.job.done, right=True,
    rank=4, live=True, name="done",
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
WHY: Final[Column[JobRow]] = Column(
    "WHY", lambda row: Cell(reason(row.job), "bad" if row.job.state == "failed" else ""), 30, least=16, grow=6
)

RUNNING: Final = (JOB, MODEL, BENCHMARK, KIND, STATE, DEVICE, PROGRESS, PERCENT, DONE, RATE, SCORE, ETA)
WAITING: Final = (JOB, STATE, MODEL, BENCHMARK, KIND, PRIORITY, WHY)
