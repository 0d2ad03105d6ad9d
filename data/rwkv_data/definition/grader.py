"""Graders: named, versioned, and opened for as long as samples are graded."""

import contextlib
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from rwkv_data.definition.answer import Answer, Grade
from rwkv_data.definition.stage import Row

if TYPE_CHECKING:
    from rwkv_data.judges.judge_rule import JudgeRule

GradeFunction: TypeAlias = Callable[[Row, Answer], Grade]


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxPlace:
    """Where graders run the programs that models write: at most `slots` of them at work at once on the whole node
    (sleeping ones are not counted), shared through the files in `slots_dir` (None: no other process uses them).
    `unsandboxed`: without isolation, by the operator's decision."""

    slots_dir: Path | None = None
    slots: int = 0
    unsandboxed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Grader:
    """`open(**options)` gives the grading function for as long as its context lasts; graders that keep a process hold
    it that long. `version` changes whenever a verdict can.

    `options` may be set by a dispatch and can change a verdict, so they are part of the grade key (a time limit).
    `workers`: how many functions may be open side by side, each used by one thread. `runs_code`: it runs what models
    write, in the sandbox, so `open` is told the `place` too. With `judge`, samples that the function returns as
    `unjudged` are judged by that rule afterwards.
    """

    name: str
    version: str
    open: Callable[..., AbstractContextManager[GradeFunction]]
    options: Mapping[str, float] = field(default_factory=dict)
    workers: int = 1
    runs_code: bool = False
    judge: "JudgeRule | None" = None

    @classmethod
    def of(cls, name: str, version: str, function: GradeFunction) -> "Grader":
        """Return a grader that is a pure function."""
        return cls(name=name, version=version, open=lambda: contextlib.nullcontext(function))

    def opened(self, place: SandboxPlace) -> AbstractContextManager[GradeFunction]:
        """Return a context whose value is the grading function, with the grader's options."""
        return self.open(place=place, **self.options) if self.runs_code else self.open(**self.options)

    @property
    def key(self) -> dict[str, object]:
        """Return what enters the grade key beside the generation key; the caller adds the judge's model."""
        judge = {"judge": f"{self.judge.name}/{self.judge.version}"} if self.judge else {}
        options = {"options": dict(self.options)} if self.options else {}
        return {"grader": self.name, "version": self.version, **options, **judge}
