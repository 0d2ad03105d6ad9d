"""Graders that run what a model wrote, in the sandbox: one function a family of benchmarks, each giving a Grader.

`extract` says where the code is in the completion; `options` are limits that a dispatch may set, in processor seconds,
so a verdict does not depend on what else the machine does. How long an answer may be asleep follows from them, for all
its tests together: one that sleeps is soon over, and holds no processor slot meanwhile. Rows are those of the
benchmarks' own files. An answer is right if every test passes; `wrong` says in its detail which did not, `timeout` that
it ran out of time, and `error` that the row's tests or the sandbox broke, which is no verdict.
"""

import ast
import contextlib
import functools
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Final

from rwkv_data.definition.answer import Answer, Grade
from rwkv_data.definition.grader import GradeFunction, Grader, SandboxPlace
from rwkv_data.definition.stage import Row
from rwkv_data.graders.code.contest import ContestRules, grade_contest
from rwkv_data.graders.code.contest_tests import BadTestsError
from rwkv_data.graders.code.extract import ExtractedCode, ExtractionRule, between_last_fences, continuation, last_fenced
from rwkv_data.graders.code.plus import ReferenceFailedError, grade_plus
from rwkv_data.graders.code.program_report import TestReport, reported
from rwkv_data.sandbox.processor_slots import pool
from rwkv_data.sandbox.program import Limits
from rwkv_data.sandbox.sandbox import Sandbox, SandboxUnavailableError

DRIVERS = "rwkv_data.graders.code.drivers"
WORKERS = 4
MEMORY_MB = 2048
# Limit of all tests of a contest problem together. LiveCodeBench allows 7 s for each; for a hundred that is 12 minutes
ALL_CPU_S = 300.0
UNSANDBOXED = "run without a sandbox, as the operator asked"

RunTests = Callable[[Sandbox, Row, str], TestReport]


def human_eval(*, extract: ExtractionRule = continuation, name: str = "human-eval-v1", cpu_s: float = 3.0) -> Grader:
    """Return the grader that tests prompt + completion by the row's `check(candidate)`. Limit: 3 s, as in
    human-eval."""

    def build(*, cpu_s: float) -> RunTests:
        return functools.partial(_human_eval, limits=Limits(cpu_s=cpu_s, memory_mb=MEMORY_MB))

    return _grader(name, extract, build, {"cpu_s": cpu_s})


def mbpp(*, extract: ExtractionRule = last_fenced, name: str = "mbpp-v1", cpu_s: float = 10.0) -> Grader:
    """Return the grader that runs the code, the row's `test_setup_code` (which lm_eval omits), then `test_list`."""

    def build(*, cpu_s: float) -> RunTests:
        return functools.partial(_mbpp, limits=Limits(cpu_s=cpu_s, memory_mb=MEMORY_MB))

    return _grader(name, extract, build, {"cpu_s": cpu_s})


def human_eval_plus(*, extract: ExtractionRule = continuation, name: str = "human-eval-plus-v1") -> Grader:
    """Return the grader of prompt + completion on base and plus inputs, by evalplus's rules. Parts: base, plus."""

    def build(*, least_s: float, factor: float) -> RunTests:
        return lambda sandbox, row, code: grade_plus(
            sandbox, row, f"{row['prompt']}{code}", mbpp=False, least_s=least_s, factor=factor
        )

    return _grader(name, extract, build, {"least_s": 4.0, "factor": 4.0})


def mbpp_plus(*, extract: ExtractionRule = last_fenced, name: str = "mbpp-plus-v1") -> Grader:
    """Return the grader of code on base and plus inputs, by evalplus's rules. Parts: base, plus."""

    def build(*, least_s: float, factor: float) -> RunTests:
        return lambda sandbox, row, code: grade_plus(sandbox, row, code, mbpp=True, least_s=least_s, factor=factor)

    return _grader(name, extract, build, {"least_s": 4.0, "factor": 4.0})


def livecodebench(*, extract: ExtractionRule = between_last_fences, name: str = "livecodebench-v1") -> Grader:
    """Return the grader of functions or programs on `input_output` (see contest_tests.livecodebench_tests); 6 s for
    every test, as there."""
    return _contest("livecodebench", extract, name, 6.0, version="2")


def apps(*, extract: ExtractionRule = last_fenced, name: str = "apps-v1") -> Grader:
    """Return the grader of APPS and TACO: functions or programs on `input_output`; 4 s for every test, as there.
    Version 2: whole numbers compare exactly. Version 3: all tests have a limit together."""
    return _contest("apps", extract, name, 4.0, version="3")


def _contest(rules: str, extract: ExtractionRule, name: str, test_cpu_s: float, *, version: str) -> Grader:
    def build(*, test_cpu_s: float, all_cpu_s: float) -> RunTests:
        chosen = ContestRules("livecodebench" if rules == "livecodebench" else "apps", test_cpu_s, all_cpu_s)
        return lambda sandbox, row, code: grade_contest(sandbox, row, code, chosen)

    return _grader(name, extract, build, {"test_cpu_s": test_cpu_s, "all_cpu_s": ALL_CPU_S}, version=version)


def _human_eval(sandbox: Sandbox, row: Row, code: str, *, limits: Limits) -> TestReport:
    entry_point = row["entry_point"]
    data = {
        "before": row["prompt"],  # its helper functions, which the tests use: genuine here, whatever the answer defines
        "tests": [f"{row['test']}\n\ncheck({entry_point})\n"],
        "functions": [entry_point],
    }
    return reported(sandbox.check(f"{row['prompt']}{code}\n", f"{DRIVERS}:assertions", data, limits=limits))


def _mbpp(sandbox: Sandbox, row: Row, code: str, *, limits: Limits) -> TestReport:
    data = {
        "before": "\n".join(row.get("test_imports") or []),
        "tests": list(row["test_list"]),
        "functions": sorted(_defined(row.get("code") or "")),
    }
    pieces = [code, row.get("test_setup_code") or ""]
    return reported(sandbox.check(pieces, f"{DRIVERS}:assertions", data, limits=limits))


PARSING: Final = threading.Lock()
"""Before Python 3.13 two threads that parse at once may both fail (python/cpython#106905)."""


def _defined(code: str) -> set[str]:
    """Return the functions and classes of a reference solution: tests mean the candidate's, even if named as a
    builtin."""
    try:
        with PARSING:
            body = ast.parse(code).body
    except (SyntaxError, ValueError):
        return set()
    return {node.name for node in body if isinstance(node, ast.FunctionDef | ast.ClassDef)}


def _grader(
    name: str,
    extract: ExtractionRule,
    build: Callable[..., RunTests],
    options: Mapping[str, float],
    *,
    version: str = "2",
) -> Grader:
    def opened(*, place: SandboxPlace, **chosen: float) -> AbstractContextManager[GradeFunction]:
        return _opened(place, extract, build(**chosen))

    return Grader(name=name, version=version, open=opened, options=options, workers=WORKERS, runs_code=True)


@contextlib.contextmanager
def _opened(place: SandboxPlace, extract: ExtractionRule, test: RunTests) -> Iterator[GradeFunction]:
    """Yield a grading function with a sandbox of its own. Raises SandboxUnavailableError."""
    slots = pool(place.slots_dir, place.slots)
    with Sandbox(drivers=(DRIVERS,), slots=slots, run_untrusted_code_unsandboxed=place.unsandboxed) as sandbox:

        def grade(row: Row, answer: Answer) -> Grade:
            found = extract(answer.text)
            if found is None:
                return Grade(0.0, None, "", "no_answer", "no code in it")
            report = _tested(sandbox, row, found.code, test)
            return _grade(found, report, unsandboxed=place.unsandboxed)

        yield grade


def _tested(sandbox: Sandbox, row: Row, code: str, test: RunTests) -> TestReport:
    try:
        return test(sandbox, row, code)
    except (ReferenceFailedError, BadTestsError, SandboxUnavailableError, KeyError, TypeError, ValueError) as error:
        return TestReport("error", f"{type(error).__name__}: {error}")


def _grade(found: ExtractedCode, report: TestReport, *, unsandboxed: bool) -> Grade:
    value = None if report.reason == "error" else float(report.reason == "right")
    parts = report.parts if value is not None else {}
    detail = f"{UNSANDBOXED}; {report.detail}" if unsandboxed else report.detail
    return Grade(value, found.code, "every test passes", report.reason, detail, found.route, parts)
