"""HumanEval+ and MBPP+: outputs on many inputs against those of the reference solution, by evalplus's rules.

The reference solution runs in the sandbox too, once per task and process; it gives the expected outputs and, by the
processor time it took, the limit of each input: `factor` times that, at least `least_s`.
"""

import hashlib
import json
import threading
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

from rwkv_data.definition.stage import Row
from rwkv_data.graders.code.drivers import call_text
from rwkv_data.graders.code.mbpp_inputs import mbpp_plus_arguments
from rwkv_data.graders.code.program_report import TestReport, reported
from rwkv_data.sandbox.budgets import sleep_for
from rwkv_data.sandbox.program import Limits
from rwkv_data.sandbox.sandbox import Sandbox

DRIVERS = "rwkv_data.graders.code.drivers"
# evalplus: EVALPLUS_TIMEOUT_PER_TASK, and 4 GB for a program
TASK_CPU_S = 60.0
MEMORY_MB = 4096
REFERENCE = Limits(cpu_s=300.0, memory_mb=MEMORY_MB, output_mb=512)
REMEMBERED = 2000


class ReferenceFailedError(Exception):
    """The row's reference solution does not run, so no answer can be graded."""


@dataclass(frozen=True, slots=True)
class ExpectedOutputs:
    """The calls of a task's inputs and the outputs of the reference solution, as text of the codec; seconds of each."""

    calls: list[str]
    values: list[str]
    seconds: list[float]


_recorded_outputs: OrderedDict[tuple[object, ...], ExpectedOutputs] = OrderedDict()
_lock = threading.Lock()


def grade_plus(sandbox: Sandbox, row: Row, code: str, *, mbpp: bool, least_s: float, factor: float) -> TestReport:
    """Test the base inputs, then the plus inputs, each in a process of its own. Raises ReferenceFailedError.

    `parts`: base and plus; plus counts only where base passed, as in evalplus.
    """
    parts = {"base": 0.0, "plus": 0.0}
    for part in parts:
        expected = expected_outputs(sandbox, row, part, mbpp=mbpp)
        if not expected.calls:  # Mbpp/793 has no further inputs
            parts[part] = 1.0
            continue
        limits_s = [max(least_s, factor * seconds) for seconds in expected.seconds]
        data: dict[str, Any] = {
            "entry_point": row["entry_point"], "atol": row["atol"], "mbpp": mbpp,
            "calls": expected.calls, "expected": expected.values, "limits_s": limits_s,
        }  # fmt: skip
        longest_s = max(limits_s)
        cpu_s = max(min(TASK_CPU_S, sum(limits_s)), longest_s)
        limits = Limits(cpu_s=cpu_s, wall_s=sleep_for(longest_s), memory_mb=MEMORY_MB)
        report = reported(sandbox.check(code, f"{DRIVERS}:evalplus", data, limits=limits, reuse_driver=True))
        if report.reason != "right":
            return report.within(f"{part} inputs", parts)
        parts[part] = 1.0
    return TestReport("right", parts=parts)


def expected_outputs(sandbox: Sandbox, row: Row, part: str, *, mbpp: bool) -> ExpectedOutputs:
    """Return the outputs of the reference solution on the `base` or `plus` inputs of a row. Raises
    ReferenceFailedError."""
    inputs = hashlib.sha256(json.dumps([row[f"{part}_input"], row["prompt"]]).encode()).hexdigest()
    key = (str(row["task_id"]), str(row["canonical_solution"]), str(row["entry_point"]), mbpp, part, inputs)
    with _lock:
        if key in _recorded_outputs:
            _recorded_outputs.move_to_end(key)
            return _recorded_outputs[key]
    found = _recorded(sandbox, row, part, mbpp=mbpp)
    with _lock:
        _recorded_outputs[key] = found
        if len(_recorded_outputs) > REMEMBERED:
            _recorded_outputs.popitem(last=False)
    return found


def _recorded(sandbox: Sandbox, row: Row, part: str, *, mbpp: bool) -> ExpectedOutputs:
    task = int(str(row["task_id"]).rpartition("/")[2])
    inputs = row[f"{part}_input"] or []  # MBPP+ has an empty object where a task has no further inputs
    calls = [call_text(*(mbpp_plus_arguments(task, arguments) if mbpp else arguments)) for arguments in inputs]
    data = {"entry_point": row["entry_point"], "calls": calls}
    code = f"{row['prompt']}{row['canonical_solution']}"
    outcome = sandbox.check(code, f"{DRIVERS}:record", data, limits=REFERENCE, driver_cpu_s=60.0, reuse_driver=True)
    if outcome.status != "passed" or outcome.result is None:
        raise ReferenceFailedError(f"the reference solution of {row['task_id']}: {outcome.status}: {outcome.detail}")
    return ExpectedOutputs(calls, outcome.result["values"], outcome.result["seconds"])
