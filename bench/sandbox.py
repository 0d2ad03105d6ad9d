"""The sandbox against evalplus's own executor on the reference solutions of HumanEval: programs a second, verdicts.

    python bench/sandbox.py [PROBLEMS]

evalplus 0.3.1 runs from a virtual environment of its own (installed once, in the user's cache), in the way its
`evaluate` does: `untrusted_check` on the base inputs of every problem, two at a time, expected outputs computed before.
Ours: the same inputs and expected outputs by evalplus's rules, two sandboxes side by side, each program in new
namespaces, answers and comparison in different processes. HumanEval/32 is told apart: 0.3.1 does not mark the inputs
that its special oracle accepts as passed, so its own reference solution fails there.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
import venv
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from figures import header

from rwkv_data.graders.code.plus import DRIVERS, MEMORY_MB, expected_outputs
from rwkv_data.sandbox import Limits, Sandbox

EVALPLUS = "0.3.1"
SIDE_BY_SIDE, ROUNDS, TARGET = 2, 3, 2.0
KNOWN = "HumanEval/32"
DATA = Path(os.environ.get("RWKVCTL_TEST_DATA") or Path(__file__).resolve().parents[2] / "shared" / "data")
ROWS = DATA / "human_eval_plus" / "HumanEvalPlus.jsonl.gz"

# Runs in evalplus's environment: reads rows, prints {"seconds", "verdicts"}
THEIRS = """
import gzip, json, sys, time
from concurrent.futures import ProcessPoolExecutor
from evalplus.eval import untrusted_check
from evalplus.gen.util import trusted_exec

def check(row):
    code = row["prompt"] + row["canonical_solution"]
    status, details = untrusted_check(
        "humaneval", code, row["base_input"], row["entry_point"], row["expected"], row["atol"], row["times"], True)
    return row["task_id"], status

if __name__ == "__main__":
    rows = [json.loads(line) for line in gzip.open(sys.argv[1])][: int(sys.argv[2])]
    for row in rows:
        code = row["prompt"] + row["canonical_solution"]
        row["expected"], row["times"] = trusted_exec(code, row["base_input"], row["entry_point"], record_time=True)
        del row["plus_input"]
    with ProcessPoolExecutor(int(sys.argv[3])) as pool:
        list(pool.map(check, rows[:2]))
        begun = time.perf_counter()
        verdicts = dict(pool.map(check, rows))
        print(json.dumps({"seconds": time.perf_counter() - begun, "verdicts": verdicts}))
"""


def main() -> None:
    """Print rates, the ratio and how far the verdicts agree."""
    header()
    if not ROWS.is_file():
        print(f"skipped: no rows at {ROWS} (set RWKVCTL_TEST_DATA)")
        return
    import gzip

    count = int(sys.argv[1]) if len(sys.argv) > 1 else 164
    rows = [json.loads(line) for line in gzip.decompress(ROWS.read_bytes()).splitlines()][:count]
    python = environment()
    ours, theirs = [], []
    for _ in range(ROUNDS):  # turn by turn, so that a busy machine is busy for both
        ours.append(measure_ours(rows))
        if python:
            theirs.append(measure_theirs(python, len(rows)))
    mine = max(ours, key=lambda run: run["rate"])
    print(f"rwkv_data.sandbox       {mine['rate']:8.1f} programs/s   (best of {ROUNDS}, {SIDE_BY_SIDE} side by side)")
    if theirs:
        compare(mine, max(theirs, key=lambda run: run["rate"]))


def compare(mine: dict[str, Any], other: dict[str, Any]) -> None:
    """Print the ratio, and the problems on which the verdicts differ."""
    ratio = mine["rate"] / other["rate"]
    print(f"evalplus {EVALPLUS}          {other['rate']:8.1f} programs/s   (the same)")
    print(f"ratio {ratio:.1f}x   bar {TARGET:g}x: {'met' if ratio >= TARGET else 'MISSED'}")
    timeouts = {task for task, verdict in other["verdicts"].items() if verdict == "timeout"}
    asked = set(mine["verdicts"]) - timeouts - {KNOWN}
    differing = sorted(task for task in asked if mine["verdicts"][task] != (other["verdicts"][task] == "pass"))
    passing = sum(mine["verdicts"].values())
    print(f"verdicts: {len(asked) - len(differing)} of {len(asked)} equal; differ: {differing or 'none'}")
    print(f"left out: {sorted(timeouts | {KNOWN})}; {passing} of {len(mine['verdicts'])} pass here")


def measure_ours(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the rate and the verdicts of two sandboxes."""
    with ExitStack() as stack:
        idle: SimpleQueue[Sandbox] = SimpleQueue()
        for _ in range(SIDE_BY_SIDE):
            idle.put(stack.enter_context(Sandbox(drivers=(DRIVERS,))))

        def task(row: dict[str, Any]) -> dict[str, Any]:
            sandbox = idle.get()
            expected = expected_outputs(sandbox, row, "base", mbpp=False)
            idle.put(sandbox)
            return {
                "entry_point": row["entry_point"], "atol": row["atol"], "mbpp": False, "calls": expected.calls,
                "expected": expected.values, "limits_s": [max(1.0, 4 * spent) for spent in expected.seconds],
            }  # fmt: skip

        def check(job: tuple[dict[str, Any], dict[str, Any]]) -> tuple[str, bool]:
            row, data = job
            sandbox = idle.get()
            limits = Limits(cpu_s=60.0, memory_mb=MEMORY_MB)
            outcome = sandbox.check(
                row["prompt"] + row["canonical_solution"], f"{DRIVERS}:evalplus", data, limits=limits, reuse_driver=True
            )
            idle.put(sandbox)
            return row["task_id"], outcome.status == "passed"

        with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
            jobs = list(zip(rows, pool.map(task, rows), strict=True))
            begun = time.perf_counter()
            verdicts = dict(pool.map(check, jobs))
            return {"rate": len(rows) / (time.perf_counter() - begun), "verdicts": verdicts}


def measure_theirs(python: Path, count: int) -> dict[str, Any]:
    """Return evalplus's rate (programs a second) and verdicts, measured by the interpreter of its own environment."""
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "theirs.py"
        script.write_text(THEIRS)
        said = subprocess.check_output([python, script, ROWS, str(count), str(SIDE_BY_SIDE)], cwd=folder, text=True)
    found = json.loads(said.splitlines()[-1])
    return {"rate": count / found["seconds"], "verdicts": found["verdicts"]}


def environment() -> Path | None:
    """Return the interpreter of evalplus's environment; None, after printing why, if it cannot be installed."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = cache / "rwkvctl-bench" / f"evalplus-{EVALPLUS}"
    python = folder / "bin" / "python"
    if (folder / "complete").is_file():
        return python
    venv.create(folder, with_pip=True, clear=True)
    pip = subprocess.run(
        [python, "-m", "pip", "install", "-q", f"evalplus=={EVALPLUS}"], capture_output=True, text=True, check=False
    )
    if pip.returncode != 0:
        print(f"not compared: evalplus {EVALPLUS} cannot be installed: {pip.stderr.strip()[-200:]}")
        return None
    (folder / "complete").touch()
    return python


if __name__ == "__main__":
    main()
