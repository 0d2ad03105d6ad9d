"""What a benchmark is: rows, and for each kind of asking them the stages of the prompt, the sampling and the grader.

A benchmark is a value, built once in its own file under `rwkv_data.benchmarks`. Nothing here reads files or talks to
an engine: the job runner renders prompts, sends them, and hands the last stage's answer back to be graded.
"""

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

from rwkv_data import settings
from rwkv_data.errors import RowError
from rwkv_data.stage import Row, Stage
from rwkvctl.protocol.engine import StopKind

__all__ = [
    "Answer",
    "Benchmark",
    "Domain",
    "Example",
    "Grade",
    "GradeFunction",
    "Grader",
    "HubSource",
    "Kind",
    "Reason",
    "Row",
    "Stage",
    "by_name",
]

Domain = Literal["multi_choice", "free_response"]
Reason = Literal["right", "wrong", "no_answer", "timeout", "error"]
GradeFunction: TypeAlias = "Callable[[Row, Answer], Grade]"


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back for one sample: the last stage's text, or the log-likelihood of each choice.

    `stops` holds the stop kind of each stage that generated, first stage first.
    """

    text: str = ""
    stops: tuple[StopKind, ...] = ()
    logprobs: tuple[float, ...] = ()

    @property
    def chosen(self) -> int | None:
        """Index of the likeliest choice (the first one on a tie), or None if nothing was scored."""
        return self.logprobs.index(max(self.logprobs)) if self.logprobs else None

    @property
    def tied(self) -> bool:
        """More than one choice has the highest log-likelihood."""
        return self.logprobs.count(max(self.logprobs, default=0.0)) > 1

    @property
    def stop(self) -> StopKind:
        """How the engine ended the sample: an error or a length limit in any stage counts for the whole sample."""
        if "error" in self.stops:
            return "error"
        if "length" in self.stops:
            return "length"
        return self.stops[-1] if self.stops else "stop_token"


@dataclass(frozen=True, slots=True)
class Grade:
    """The verdict on one sample. Without one (`timeout`, `error`) `value` is None: that is never a wrong answer."""

    value: float | None
    extracted: str | None
    expected: str
    reason: Reason
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grader:
    """A way to grade. `open` gives the grading function for as long as its context lasts; graders that keep a process
    hold it that long. `version` changes whenever a verdict can."""

    name: str
    version: str
    open: Callable[[], AbstractContextManager[GradeFunction]]

    @classmethod
    def of(cls, name: str, version: str, function: GradeFunction) -> "Grader":
        """A grader that is a pure function."""
        return cls(name=name, version=version, open=lambda: contextlib.nullcontext(function))


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One way of asking a benchmark's rows: a profile's stages, a grader, how often, and what is reported.

    `metrics` names "accuracy", "avg@K" or "pass@J" with J <= K = `repeats`; the first one is the headline.
    `group_by` names the row's field whose values get a score each (subjects), or is empty.
    """

    name: str
    profile: str
    profile_version: int
    stages: tuple[Stage, ...]
    grader: Grader
    repeats: int = 1
    seed: int = 42
    metrics: tuple[str, ...] = ("accuracy",)
    group_by: str = ""

    @property
    def samples_tokens(self) -> bool:
        """Whether anything is generated; otherwise repeats and seeds have no meaning."""
        return any(stage.mode == "generate" for stage in self.stages)

    @contextlib.contextmanager
    def grading(self) -> Iterator[GradeFunction]:
        """The grading function for many samples: `with kind.grading() as grade: grade(row, answer)`."""
        with self.grader.open() as grade:
            yield lambda row, answer: _failed(answer) or grade(row, answer)

    def grade(self, row: Row, answer: Answer) -> Grade:
        """Grade one sample. Many are cheaper inside `grading()`."""
        with self.grading() as grade:
            return grade(row, answer)

    def stop(self, answer: Answer) -> StopKind:
        """How the sample ended, for counting what was truncated: `Answer.stop`, but an answer that was complete
        before the last stage ran on to its limit is not truncated."""
        whole = self.stages[-1].whole
        if answer.stop == "length" and "length" not in answer.stops[:-1] and whole and whole(answer.text):
            return "stop_suffix"
        return answer.stop

    def chance(self, row: Row) -> float | None:
        """The share that blind choosing gets on this row; None where answers are free."""
        choices = self.stages[-1].choices
        return 1 / len(choices(row)) if choices else None

    def configuration(self) -> dict[str, Any]:
        """What enters the generation key, as plain JSON values. The grader is no part of it: see `grading_key`."""
        return {
            "kind": self.name,
            "profile": self.profile,
            "profile_version": self.profile_version,
            "stages": [stage.configuration() for stage in self.stages],
            "repeats": self.repeats,
            "seed": self.seed,
        }

    def grading_key(self) -> dict[str, str]:
        """What enters the grade key beside the generation key."""
        return {"grader": self.grader.name, "version": self.grader.version}

    def settings(self) -> dict[str, settings.Value]:
        """Every setting that a dispatch may override, with its present value."""
        if not self.samples_tokens:
            return {}
        return {"k": self.repeats, "seed": self.seed} | settings.of_stages(self.stages)

    def with_settings(self, values: Mapping[str, str]) -> "Kind":
        """This kind with settings replaced (`{"cot.temperature": "0.5", "k": "4"}`), or a SettingError."""
        kind, known = self, self.settings()
        for given, text in values.items():
            name = settings.full_name(self.stages, given, known)
            if name == "k":
                kind = kind._with_repeats(settings.of_kind(name, text))
            elif name == "seed":
                kind = replace(kind, seed=settings.of_kind(name, text))
            else:
                kind = replace(kind, stages=settings.with_setting(kind.stages, name, text))
        return kind

    def _with_repeats(self, k: int) -> "Kind":
        """avg@k follows the repeats; pass@j keeps its j unless there are fewer samples than that."""
        renamed = []
        for metric in self.metrics:
            name, at, number = metric.partition("@")
            wanted = k if name == "avg" else min(k, int(number or 0))
            renamed.append(f"{name}{at}{wanted}" if at else name)
        return replace(self, repeats=k, metrics=tuple(dict.fromkeys(renamed)))


@dataclass(frozen=True, slots=True)
class HubSource:
    """Where rows lie on the Hugging Face hub. Without a revision the newest is taken, and recorded."""

    repo: str
    config: str
    split: str
    revision: str | None = None


@dataclass(frozen=True, slots=True)
class Example:
    """A graded example of a benchmark. It becomes a test by itself. `row` is a prepared row."""

    row: Row
    answer: Answer
    value: float
    kind: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Benchmark:
    """Rows, and the kinds of asking them. `version` changes whenever rows, prompts or graders change their meaning.

    Rows come from a file or the hub through `from_source` (raw row -> prepared row), or, for a built-in benchmark,
    from `generate_rows`. `rows` is how many the complete set has. `local_files` are the names under which public
    copies lie, in order of preference.
    """

    name: str
    version: int
    domain: Domain
    title: str
    licence: str
    split: str
    rows: int
    kinds: Mapping[str, Kind]
    check_row: Callable[[Row], None]
    examples: tuple[Example, ...]
    source: HubSource | None = None
    from_source: Callable[[Row], dict[str, Any]] = dict
    local_files: tuple[str, ...] = ()
    generate_rows: Callable[[], Iterable[Row]] | None = None

    @property
    def built_in(self) -> bool:
        """Needs no preparation."""
        return self.generate_rows is not None

    @property
    def default_kind(self) -> Kind:
        """The kind that is meant when none is named: the first."""
        return next(iter(self.kinds.values()))

    def convert(self, raw: Row) -> dict[str, Any]:
        """A raw row as a prepared one, checked. Raises RowError, also where the row is of a shape nobody foresaw."""
        try:
            row = self.from_source(raw)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise RowError(f"the row is of no known shape ({type(error).__name__}: {error})") from error
        self.check_row(row)
        return row


def by_name(kinds: Sequence[Kind]) -> dict[str, Kind]:
    """Kinds under their own names, in order."""
    return {kind.name: kind for kind in kinds}


def _failed(answer: Answer) -> Grade | None:
    """A sample that the engine could not produce has no verdict."""
    if answer.stop == "error":
        return Grade(None, None, "", "error", "the engine returned an error for this sample")
    return None
