"""Contest problems (LiveCodeBench, APPS, TACO): a function's outputs, or what a program prints, on every test.

All tests must pass; each has a limit of its own, in processor seconds, and the first failure ends the run. Programs
are run anew for every test, as the program they are: `__main__`, with the test on standard input.
"""

import json
from dataclasses import dataclass, replace
from typing import Any, Literal

from rwkv_data.graders.code_compare import same_lines
from rwkv_data.graders.code_drivers import call_text
from rwkv_data.graders.code_report import Report, reported
from rwkv_data.graders.code_rows import input_output, keys_as_numbers
from rwkv_data.sandbox.program import Limits
from rwkv_data.sandbox.sandbox import Sandbox
from rwkv_data.stage import Row

DRIVERS = "rwkv_data.graders.code_drivers"
MEMORY_MB = 4096
_FLOATS_RTOL = 1e-5  # numpy.allclose, which APPS and TACO compare numbers with


@dataclass(frozen=True, slots=True)
class Rules:
    """What a benchmark's own grader does: `livecodebench` or `apps`, and the limit of a test in processor seconds."""

    name: Literal["livecodebench", "apps"]
    test_cpu_s: float


def grade_contest(sandbox: Sandbox, row: Row, code: str, rules: Rules) -> Report:
    """Run every test of a row. Raises BadTestsError."""
    inputs, outputs, function = input_output(row)
    if function:
        return _functional(sandbox, code, function, inputs, outputs, rules)
    for number, (given, expected) in enumerate(zip(inputs, outputs, strict=True)):
        report = _printed(sandbox, code, _text(given), _text(expected), rules)
        if report.reason != "right":
            return replace(report, detail=f"test {number + 1} of {len(inputs)}: {report.detail}")
    return Report("right")


def _printed(sandbox: Sandbox, code: str, given: str, expected: str, rules: Rules) -> Report:
    limits = Limits(cpu_s=rules.test_cpu_s, memory_mb=MEMORY_MB)
    outcome = sandbox.script(code, given, limits=limits, preamble="contest")
    report = reported(outcome)
    if report.reason == "right" and not same_lines(
        outcome.output, expected, rtol=_FLOATS_RTOL if rules.name == "apps" else 0.0
    ):
        return Report("wrong", f"printed {_short(outcome.output)}, expected {_short(expected)}")
    return report


def _functional(
    sandbox: Sandbox, code: str, function: str, inputs: list[Any], outputs: list[Any], rules: Rules
) -> Report:
    arguments, expected = zip(*(_case(*case, rules) for case in zip(inputs, outputs, strict=True)), strict=True)
    data = {
        "entry_point": f"Solution().{function}" if "class Solution" in code else function,
        "calls": [call_text(*each) for each in arguments],
        "expected": list(expected),
        "limits_s": [rules.test_cpu_s] * len(inputs),
        "rule": rules.name,
    }
    limits = Limits(cpu_s=rules.test_cpu_s * (len(inputs) + 1), memory_mb=MEMORY_MB)
    return reported(
        sandbox.check(code, f"{DRIVERS}:contest", data, limits=limits, preamble="contest", reuse_driver=True)
    )


def _case(given: Any, expected: Any, rules: Rules) -> tuple[list[Any], Any]:
    """(arguments, output) of a test: LiveCodeBench has a line of JSON for each, the others have values."""
    if rules.name == "livecodebench":
        return [json.loads(line) for line in given.split("\n")], json.loads(expected)
    expected = [keys_as_numbers(expected)] if isinstance(expected, dict) else expected
    if isinstance(expected, list) and expected and isinstance(expected[0], dict):
        expected = [keys_as_numbers(expected[0])]
    return [keys_as_numbers(given[0])] if given and isinstance(given[0], dict) else list(given), expected


def _text(value: Any) -> str:
    """A test's text; some rows have a list of lines."""
    return "\n".join(str(line) for line in value) if isinstance(value, list) else str(value)


def _short(text: str) -> str:
    shown = repr(text.strip())
    return shown if len(shown) <= 80 else f"{shown[:79]}…"
