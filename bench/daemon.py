"""The daemon against its bars: start-up, idle memory, `status` with 10,000 stored jobs, planning 200 x 50.

    python bench/daemon.py

A real daemon on a scratch home, asked over its socket; the plan is computed in this process by the daemon's own pure
planner. The peers named are those that reference/daemon.md measured (supervisord `status` 121 ms, `tsp` 7.4 ms at 900
jobs); they are not run here, so no ratio to them is printed.
"""

import asyncio
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from figures import header, line, until_it_answers
from store import fill

from rwkv_daemon.rules.plan import Facts, KindFact, ModelFact, make_plan
from rwkvctl.cli.client import Client
from rwkvctl.protocol.requests import Selection

JOBS, MODELS, BENCHMARKS = 10_000, 200, 50


def main() -> None:
    header()
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder) / "h"
        starts = [start_and_stop(home) for _ in range(5)]
        line("daemon: start until it answers", statistics.median(s for s, _ in starts) * 1000, "ms", 500)
        line("daemon: RSS at idle", starts[-1][1] / 2**20, "MiB", 80)
        empty = with_daemon(home, ask_status)
        asyncio.run(fill(home, JOBS, each=10))
        full = with_daemon(home, ask_status)
        line(f"status over the socket, {JOBS:,} stored jobs", full * 1000, "ms", 40)
        line("  ratio to an empty store", full / empty, "x", None)
        line("CLI `rwkvctl status`, wall", with_daemon(home, cli_status) * 1000, "ms", None)
    line(f"plan of {MODELS} models x {BENCHMARKS} benchmarks", plan_time() * 1000, "ms", 200)


def start_and_stop(home: Path) -> tuple[float, int]:
    """Return (seconds from start to the first answer, RSS in bytes once it is idle)."""
    return with_daemon(home, lambda api, pid, took: (took, rss_after_rest(pid)))


def with_daemon(home: Path, measure: Callable[[Client, int, float], Any]) -> Any:
    """Start a daemon, measure, stop it."""
    environment = os.environ | {"RWKVCTL_HOME": str(home)}
    begun = time.perf_counter()
    daemon = subprocess.Popen([sys.executable, "-m", "rwkv_daemon"], env=environment, stderr=subprocess.DEVNULL)
    api = Client(str(home / "run" / "daemon.sock"), tries=1)
    try:
        until_it_answers(daemon, api)
        return measure(api, daemon.pid, time.perf_counter() - begun)
    finally:
        daemon.send_signal(signal.SIGTERM)
        daemon.wait()


def rss_after_rest(pid: int) -> int:
    time.sleep(1.5)
    fields = Path(f"/proc/{pid}/statm").read_text().split()
    return int(fields[1]) * os.sysconf("SC_PAGE_SIZE")


def ask_status(api: Client, _pid: int, _took: float) -> float:
    """Return the median seconds of one status request."""
    return median_of(lambda: api.get("/v1/status"), 50)


def cli_status(api: Client, _pid: int, _took: float) -> float:
    socket = str(api.path) if hasattr(api, "path") else ""
    command = [sys.executable, "-m", "rwkvctl.cli", "status", *(["--socket", socket] if socket else [])]
    return median_of(lambda: subprocess.run(command, check=True, stdout=subprocess.DEVNULL), 10)


def median_of(action: Callable[[], object], times: int) -> float:
    taken = []
    for _ in range(times):
        begun = time.perf_counter()
        action()
        taken.append(time.perf_counter() - begun)
    return statistics.median(taken)


def plan_time() -> float:
    """Return the median seconds to plan every pair, half of which are scored already."""
    models = tuple(
        ModelFact(name=f"m{i}", path=f"/w/m{i}.pth", sha256=f"{i:064x}", architecture="rwkv7", parameters_b=1.5)
        for i in range(MODELS)
    )
    kinds = tuple(
        KindFact(
            benchmark=f"b{i}", benchmark_version=1, kind="free_response", domain="free_response",
            configuration={"stages": [{"name": "cot"}, {"name": "final"}], "seed": 42}, repeats=1, grader="g",
            grader_version="1", rows=1000, rows_sha256=f"{i:064x}",
        )
        for i in range(BENCHMARKS)
    )  # fmt: skip
    facts = Facts(models=models, kinds=kinds, numerics="fp32", scored=lambda key: "j1" if key < "8" else "")
    return median_of(lambda: make_plan(Selection(), facts).hash, 5)


if __name__ == "__main__":
    main()
