"""Contest problems (LiveCodeBench, APPS, TACO): a function's outputs, or what a program prints, on every test.

All tests must pass; each has a limit of its own, in processor seconds, and the first failure ends the run. All of them
together have a limit, too, and an answer may be asleep no longer over all tests than in one: none that is right has to
sleep. Programs are run anew for every test, as the program they are: `__main__`, with the test on standard input.
"""

import json
from dataclasses import dataclass, replace
from typing import Any, Literal

from rwkv_data.definition.stage import Row
from rwkv_data.graders.code.compare_outputs import same_lines
from rwkv_data.graders.code.contest_tests import input_output, keys_as_numbers
from rwkv_data.graders.code.drivers import call_text
from rwkv_data.graders.code.program_report import TestReport, reported
from rwkv_data.sandbox.budgets import sleep_for
from rwkv_data.sandbox.program import Limits, ProgramOutcome
from rwkv_data.sandbox.sandbox import Sandbox

DRIVERS = "rwkv_data.graders.code.drivers"
MEMORY_MB = 4096
_FLOATS_RTOL = 1e-5  # numpy.allclose, which APPS and TACO compare numbers with


@dataclass(frozen=True, slots=True)
class ContestRules:
    """The rules of a benchmark's own grader: `livecodebench` or `apps`, and the limits of a test and of all tests of an
    answer in processor seconds."""

    name: Literal["livecodebench", "apps"]
    test_cpu_s: float
    all_cpu_s: float

    def together(self, tests: int) -> Limits:
        """Return the limits of `tests` tests together; for one test, its own."""
        cpu_s = max(self.test_cpu_s, min(self.all_cpu_s, self.test_cpu_s * tests))
        return Limits(cpu_s=cpu_s, wall_s=sleep_for(self.test_cpu_s), memory_mb=MEMORY_MB)


def grade_contest(sandbox: Sandbox, row: Row, code: str, rules: ContestRules) -> TestReport:
    """Run every test of a row. Raises BadTestsError."""
    inputs, outputs, function = input_output(row)
    if function:
        return _functional(sandbox, code, function, inputs, outputs, rules)
    left = rules.together(len(inputs))
    for number, (given, expected) in enumerate(zip(inputs, outputs, strict=True)):
        limits = replace(left, cpu_s=min(left.cpu_s, rules.test_cpu_s))
        outcome = sandbox.script(code, _text(given), limits=limits, preamble="contest")
        report = _printed(outcome, _text(expected), rules)
        if report.reason != "right":
            which = f"test {number + 1} of {len(inputs)}"
            spent = " (the tests before have used up most of its time)" if limits.cpu_s < rules.test_cpu_s else ""
            return replace(report, detail=f"{which}: {report.detail}{spent * (report.reason == 'timeout')}")
        left = replace(left, cpu_s=left.cpu_s - outcome.cpu_s, wall_s=left.wall_s - outcome.asleep_s)
        if number + 1 < len(inputs) and min(left.cpu_s, left.wall_s) <= 0:
            return TestReport("timeout", f"out of time for all tests, after {number + 1} of {len(inputs)}")
    return TestReport("right")


def _printed(outcome: ProgramOutcome, expected: str, rules: ContestRules) -> TestReport:
    report = reported(outcome)
    if report.reason == "right" and not same_lines(
        outcome.output, expected, rtol=_FLOATS_RTOL if rules.name == "apps" else 0.0
    ):
        return TestReport("wrong", f"printed {_short(outcome.output)}, expected {_short(expected)}")
    return report


def _functional(
    sandbox: Sandbox, code: str, function: str, inputs: list[Any], outputs: list[Any], rules: ContestRules
) -> TestReport:
    arguments, expected = zip(*(_case(*case, rules) for case in zip(inputs, outputs, strict=True)), strict=True)
    data = {
        "entry_point": f"Solution().{function}" if "class Solution" in code else function,
        "calls": [call_text(*each) for each in arguments],
        "expected": list(expected),
        "limits_s": [rules.test_cpu_s] * len(inputs),
        "rule": rules.name,
    }
    limits = rules.together(len(inputs) + 1)  # the code is executed once before the first test
    return reported(
        sandbox.check(code, f"{DRIVERS}:contest", data, limits=limits, preamble="contest", reuse_driver=True)
    )


def _case(given: Any, expected: Any, rules: ContestRules) -> tuple[list[Any], Any]:
    """Return (arguments, output) of a test: LiveCodeBench has a line of JSON for each, the others have values."""
    if rules.name == "livecodebench":
        return [json.loads(line) for line in given.split("\n")], json.loads(expected)
    expected = [keys_as_numbers(expected)] if isinstance(expected, dict) else expected
    if isinstance(expected, list) and expected and isinstance(expected[0], dict):
        expected = [keys_as_numbers(expected[0])]
    return [keys_as_numbers(given[0])] if given and isinstance(given[0], dict) else list(given), expected


def _text(value: Any) -> str:
    """Return a test's text; some rows have a list of lines."""
    return "\n".join(str(line) for line in value) if isinstance(value, list) else str(value)


def _short(text: str) -> str:
    shown = repr(text.strip())
    return shown if len(shown) <= 80 else f"{shown[:79]}…"
