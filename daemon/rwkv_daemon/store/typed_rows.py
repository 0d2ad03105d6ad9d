"""Rows of the tables `job`, `engine` and others as typed values."""

import json
from dataclasses import dataclass, fields
from functools import cache
from typing import Any, NamedTuple, Self

from rwkvctl.protocol.endpoints import WRITER, path_of
from rwkvctl.protocol.states import EngineState, JobState, LeftOut, Reason, RecipeState, WatchedState, WatchState
from rwkvctl.protocol.training.harnesses import is_harness


class FromRow:
    """Builds a dataclass from a database row that has at least its columns, which `store/schema` documents."""

    @classmethod
    def of(cls, row: Any) -> Self:
        values = dict(zip(row.keys(), row, strict=True))  # looking up a name in a row is slow
        return cls(**{name: values[name] for name in columns_of(cls)})  # type: ignore[arg-type]


@cache  # asked for every row
def columns_of(kind: Any) -> tuple[str, ...]:
    """Return the names of a row type's columns."""
    return tuple(field.name for field in fields(kind))


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRow(FromRow):
    """A row of the table `job`."""

    id: int
    session: str
    model: str
    weights_path: str
    weights_sha256: str
    benchmark: str
    kind: str
    version: int
    state: JobState
    reason: Reason | str
    detail: str
    priority: int
    generation_key: str
    grade_key: str
    settings: str
    configuration: str
    grader: str
    grader_version: str
    grading: str
    benchmark_version: int
    rows_sha256: str
    seed: int
    row_limit: int | None
    numerics: str
    repeats: int
    stages: int
    total: int
    done: int
    stages_done: int
    right_sum: float
    attempt: int
    restarts: int
    engine: int | None
    run_log_dir: str
    queued: str
    started: str
    finished: str
    checking: str = ""
    group_name: str = ""
    wanted: str = ""
    wanted_reason: str = ""
    wanted_why: str = ""
    failure: str = ""
    engine_deaths: int = 0
    died_at: int = 0
    judged: int = 0
    weights_inodes: str = ""
    kills: int = 0
    killed_at: int = 0
    source_job: int | None = None

    @property
    def name(self) -> str:
        """Name that the operator types, such as `j12`."""
        return f"j{self.id}"

    @property
    def stages_total(self) -> int:
        return self.total * self.stages

    @property
    def measures(self) -> bool:
        """Whether its samples are a model's answers to its rows: what the writer does with samples or rows measures
        nothing."""
        return self.source_job is None and not self.labels_rows

    @property
    def labels_rows(self) -> bool:
        """Whether the writer labels its rows. Such a job has no grade and no score."""
        return self.weights_path == path_of(WRITER) and '"labelling":' in self.configuration

    @property
    def is_harness(self) -> bool:
        """Whether an outside harness does it."""
        return is_harness(self.kind)

    @property
    def has_variants(self) -> bool:
        """Whether its repeats are shorter variants of another job's samples, made by the rule split-thoughts."""
        return self.source_job is not None and '"rule":"split-thoughts/' in self.configuration


class HeldJob(NamedTuple):
    """The columns that checking a held job needs: thousands are read every time something has changed."""

    id: int
    reason: str
    detail: str
    weights_path: str
    weights_sha256: str
    benchmark: str
    kind: str
    settings: str
    seed: int
    row_limit: int | None
    numerics: str
    generation_key: str
    weights_inodes: str
    source_job: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class NewJob:
    """What a dispatch stores for one planned pair."""

    model: str
    weights_path: str
    weights_sha256: str
    benchmark: str
    kind: str
    state: JobState
    reason: str
    detail: str
    priority: int
    generation_key: str
    grade_key: str
    settings: str
    configuration: str
    grader: str
    grader_version: str
    grading: str
    benchmark_version: int
    rows_sha256: str
    seed: int
    row_limit: int | None
    numerics: str
    repeats: int
    stages: int
    total: int
    run_log_dir: str
    group_name: str = ""
    weights_inodes: str = ""
    source_job: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineRow(FromRow):
    """A row of the table `engine`."""

    id: int
    uuid: str
    model: str
    weights_path: str
    weights_sha256: str
    numerics: str
    lease: str
    state: EngineState
    socket: str
    health: str
    detail: str
    started: str
    ended: str

    @property
    def name(self) -> str:
        """Name that the operator types, such as `e3`."""
        return f"e{self.id}"


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptRow(FromRow):
    """A row of the table `attempt`."""

    job: int
    number: int
    uuid: str
    state: str
    ingested: int
    started: str
    ended: str
    rung: int = 0
    failure: str = ""
    why: str = ""


@dataclass(frozen=True, slots=True)
class SampleCounts:
    """A job's progress after an ingest. `judged` of the `done` samples have a verdict."""

    done: int
    stages_done: int
    right_sum: float
    judged: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RecipeRow(FromRow):
    """A row of the table `recipe`."""

    id: int
    name: str
    text: str
    state: RecipeState
    detail: str
    sources: str
    funnel: str
    rows: int
    created: str
    finished: str

    @property
    def called(self) -> str:
        """Name that the operator types, such as `r3`."""
        return f"r{self.id}"


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchRow(FromRow):
    """A row of the table `watch`."""

    id: int
    name: str
    root: str
    inode: int
    state: WatchState
    detail: str
    rules: str
    selection: str
    who: str
    created: str

    @property
    def called(self) -> str:
        """Name that the operator types, such as `w1`."""
        return f"w{self.id}"


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchedRow(FromRow):
    """A row of the table `watched`."""

    id: int
    watch: int
    name: str
    identity: str
    whole: str
    modified_ns: int
    step: int | None
    sha256: str
    state: WatchedState
    left_out: LeftOut
    wanted: int
    reason: str
    tries: int
    model: str
    session: str
    jobs: str
    own_jobs: str
    seen: str
    ready: str
    dispatched: str
    finished: str
    feedback: str

    @property
    def job_numbers(self) -> tuple[int, ...]:
        """The jobs that measure it."""
        return tuple(json.loads(self.jobs))

    @property
    def own_job_numbers(self) -> tuple[int, ...]:
        """Those of them that the watch queued, or resumed."""
        return tuple(json.loads(self.own_jobs))

    @property
    def needs_feedback(self) -> bool:
        """Whether its jobs are over, and no feedback was written since."""
        return self.state in {"done", "parked"} and self.finished != self.feedback and bool(self.job_numbers)

    @property
    def was_taken_up(self) -> bool:
        """Whether it was ready to be measured, so that older ones gave way to it."""
        return self.state in {"done", "parked"} and bool(self.ready)
