"""What a run of a harness has found, and whether that is all that was asked. Pure: exit codes decide nothing here."""

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, Literal

import msgspec
from msgspec import Struct

from rwkv_daemon.workers import run_directory

RunState = Literal["ok", "partial", "failed", "unparsable"]
NAMED: Final = 5
TOLERANCE: Final = 1e-6
SHARES: Final = frozenset(
    {"acc", "acc_norm", "acc_bytes", "accuracy", "exact_match", "pass@1", "pass_at_1", "prompt_level_strict_acc",
     "prompt_level_loose_acc"}
)  # fmt: skip
"""Metrics of harnesses that are the share of the rows that are right."""
USABLE: Final = frozenset({"ok", "partial"})


class ResultError(Exception):
    """What a harness has written cannot be read as its results; the message says why."""


class NoResultsError(Exception):
    """A harness has written no results at all."""


class HarnessMetric(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One metric of a task under one filter, over its `n` rows. A value that is no number is None, with the reason."""

    name: str
    value: float | None
    stderr: float | None = None
    reason: str = ""


class TaskResult(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The results of one task, the headline first. Of the `n` rows that were asked `n_error` have no verdict. `parts`
    are the tasks that a group is made of, with the number of rows of each; `missing` those of them without a result.
    `version` and `shots` are what the harness says of the task, and `rows_sha256` is over the rows it asked. `mean` is
    the mean of the verdicts of all its rows, None if a row has none; `binary`: each of them is right or wrong."""

    task: str
    metrics: tuple[HarnessMetric, ...] = ()
    n: int = 0
    n_error: int = 0
    whole: int | None = None
    parts: dict[str, int] = {}
    missing: tuple[str, ...] = ()
    version: str = ""
    shots: str = ""
    rows_sha256: str = ""
    mean: float | None = None
    binary: bool = False


class Traffic(Struct, kw_only=True):
    """What a run asked of the engines: requests for completions that were answered, and for tokens of texts; those that
    were answered by an error; completions that the token limit cut off; tokens; and which engines answered."""

    requests: int = 0
    tokenized: int = 0
    refused: int = 0
    truncated: int = 0
    prompt_tokens: int = 0
    generated_tokens: int = 0
    engines: list[str] = msgspec.field(default_factory=list)


class HarnessResult(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The end of one attempt: its state with a sentence, the result of the task, the number of `samples` in the
    attempt's samples file, and what it asked."""

    state: RunState
    why: str = ""
    task: TaskResult | None = None
    samples: int = 0
    traffic: Traffic = msgspec.field(default_factory=Traffic)


def path_of(folder: Path, attempt: int) -> Path:
    return folder / f"result-{attempt}.json"


def write(folder: Path, attempt: int, result: HarnessResult) -> None:
    """Write the result of an attempt, whole or not at all."""
    run_directory.replace(path_of(folder, attempt), msgspec.json.encode(result))


def read(folder: Path, attempt: int) -> HarnessResult | None:
    """Return the result of an attempt; None if it has none."""
    try:
        return msgspec.json.decode(path_of(folder, attempt).read_bytes(), type=HarnessResult)
    except (OSError, msgspec.MsgspecError):
        return None


def judged(
    asked: str, found: Mapping[str, TaskResult], samples: int, ended: str, limit: int | None = None
) -> HarnessResult:
    """Return what the results are worth, by count: `asked` is the task, `samples` how many rows have a sample, `ended`
    how the harness ended, `limit` how many rows of a task it was to ask at most."""
    task = found.get(asked)
    if task is None:
        others = f"; it has results of {some(sorted(found))}" if found else ""
        return HarnessResult(state="failed", why=f"the harness ended ({ended}) without a result for {asked}{others}")
    if not task.n:
        return HarnessResult(state="failed", why=f"the harness ended ({ended}) and asked no row of {asked}", task=task)
    doubts = list(shortfalls(task, samples, limit))
    return HarnessResult(state="partial" if doubts else "ok", why="; ".join(doubts), task=task, samples=samples)


def shortfalls(task: TaskResult, samples: int, limit: int | None) -> Iterable[str]:
    """Yield what of a task is missing or cannot be true, as sentences."""
    if task.missing:
        yield f"no result for {some(task.missing)}"
    if samples != task.n:
        yield f"{samples:,} of its {task.n:,} rows have a sample"
    if task.n_error:
        yield f"{task.n_error:,} of its {task.n:,} rows have no verdict"
    if limit is not None and any(rows > limit for rows in (task.parts or {"": task.n}).values()):
        yield f"it asked more rows than --limit {limit:,}"
    headline = next(iter(task.metrics), None)
    if headline is None or headline.value is None or task.mean is None or not is_share(headline.name) or task.parts:
        return
    if not is_mean(headline, task.mean):
        yield f"{headline.name} is {headline.value:g}, and the mean over its rows {task.mean:g}"


def is_mean(metric: HarnessMetric, mean: float) -> bool:
    """Whether a metric is the mean of the verdicts."""
    return metric.value is not None and abs(metric.value - mean) <= TOLERANCE


def is_share(metric: str) -> bool:
    """Whether a metric is the share of the rows that are right."""
    return metric.partition(",")[0] in SHARES


def some(names: Sequence[str]) -> str:
    """Return the first names of a list, and how many more there are."""
    shown = ", ".join(names[:NAMED])
    return f"{shown} and {len(names) - NAMED:,} more" if len(names) > NAMED else shown


def number(value: object) -> tuple[float | None, str]:
    """Return a value as a finite number; or None, and why it is none."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None, f"the harness gave {short(value)} for it"
    try:
        known = float(value)
    except OverflowError:
        return None, "the harness gave a number for it that is too large"
    return (known, "") if math.isfinite(known) else (None, f"the harness gave {value} for it")


def short(value: object) -> str:
    text = "nothing" if value is None else repr(value)
    return text if len(text) <= 60 else f"{text[:60]}…"
