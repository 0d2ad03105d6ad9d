"""The report of a grader of code, from which a grade is made."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from rwkv_data.definition.answer import Reason
from rwkv_data.sandbox.program import ProgramOutcome

# A program that broke a limit or crashed is a wrong answer; running out of time is counted apart.
_REASONS: dict[str, Reason] = {"passed": "right", "timeout": "timeout", "lost": "error", "error": "error"}
_LONGEST = 400


@dataclass(frozen=True, slots=True)
class TestReport:
    """The result of a program's tests: the reason and detail of its grade, and the grade's parts."""

    reason: Reason
    detail: str = ""
    parts: Mapping[str, float] = field(default_factory=dict)

    def within(self, what: str, parts: Mapping[str, float]) -> "TestReport":
        """Return the same report of one part of the tests."""
        return replace(self, detail=f"{what}: {self.detail}", parts=parts)


def reported(outcome: ProgramOutcome) -> TestReport:
    """Return the report of one run; a status without a reason of its own counts as wrong."""
    reason = _REASONS.get(outcome.status, "wrong")
    name = "" if outcome.status in {"passed", "failed", "timeout"} else f"{outcome.status}: "
    # A program's own text may hold lone surrogates, which no file or store takes.
    detail = outcome.detail.encode("utf-8", "backslashreplace").decode()
    return TestReport(reason, f"{name}{detail}"[:_LONGEST])
