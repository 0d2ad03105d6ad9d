"""A daemon that comes back to 16 running workers and 10,000 jobs, against its bar: the time until it answers.

    python bench/adoption.py

The workers are real processes behind the real shim, which only sleep. The ratio is to the
same start without workers and jobs. (supervisord, killed and started again, leaves its 50 workers and starts 50 more.)
"""

import asyncio
import os
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from pathlib import Path

from figures import header, line, until_it_answers

from rwkv_daemon.store import NewJob, open_store
from rwkv_daemon.store.queries.jobs import add_attempt, add_jobs, add_session, update_job
from rwkv_daemon.workers import worker_process
from rwkv_daemon.workers.run_directory import RunDir
from rwkvctl.cli.client import Client

JOBS, WORKERS, ROUNDS = 10_000, 16, 5


def main() -> None:
    header()
    with tempfile.TemporaryDirectory() as folder:
        empty = statistics.median(start(Path(folder) / "empty") for _ in range(ROUNDS))
        line("start of an empty home until it answers", empty, "s", None)
        home = Path(folder) / "h"
        started = asyncio.run(fill(home))
        try:
            found = [start(home, len(started)) for _ in range(ROUNDS)]
            line(f"start with {JOBS:,} jobs and {WORKERS} workers to adopt", statistics.median(found), "s", 2)
            line("  the slowest of them", max(found), "s", 2)
            line("  ratio to the empty home", statistics.median(found) / empty, "x", None)
        finally:
            for worker in started:
                worker_process.sweep(worker.uuid)
                worker.close()


async def fill(home: Path) -> list[worker_process.Worker]:
    """Fill a store with queued jobs, and start workers for some of them."""
    home.mkdir()
    store = await open_store(home / "store.sqlite")
    workers = []
    async with store.write() as db:
        await add_session(db, "bench", "{}", "bench", ("0", ""))
        numbers = await add_jobs(db, "bench", [a_job(number) for number in range(JOBS)])
        for number in numbers[:WORKERS]:
            name = str(uuid.uuid4())
            await add_attempt(db, number, 1, name)
            await update_job(db, number, state="generating", attempt=1, engine=1)
            workers.append(worker(home, number, name))
    await store.close()
    return workers


def worker(home: Path, job: int, name: str) -> worker_process.Worker:
    """Start a process that matches the store's record of an attempt."""
    folder = RunDir(home / "runs" / f"j{job}")
    folder.path.mkdir(parents=True)
    folder.write_desired("run")
    return worker_process.start(
        worker_process.Launch(
            uuid=name,
            argv=(sys.executable, "-I", "-S", "-c", "import time; time.sleep(3600)"),
            record=folder.record(1),
            log=folder.log(1),
            environment={"PATH": os.environ["PATH"]},
        )
    )


def a_job(number: int) -> NewJob:
    return NewJob(
        model=f"rwkv7-g1a-{number % 200}", weights_path=f"/w/{number % 200}.pth", weights_sha256="0" * 64,
        benchmark=f"b{number // 200}", kind="free_response", state="queued", reason="", detail="", priority=0,
        generation_key=f"{number:032x}", grade_key=f"{number:032x}", settings="{}", configuration='{"stages": []}',
        grader="g", grader_version="1", grading="{}", benchmark_version=1, rows_sha256="0" * 64, seed=0,
        row_limit=None, numerics="fp32", repeats=1, stages=1, total=100, run_log_dir="",
    )  # fmt: skip


def start(home: Path, adopted: int = 0) -> float:
    """Return the seconds from a daemon's start until it answers. It is killed at once, before it can act."""
    environment = os.environ | {"RWKVCTL_HOME": str(home), "XDG_CONFIG_HOME": str(home / "config")}
    begun = time.perf_counter()
    with subprocess.Popen([sys.executable, "-m", "rwkv_daemon"], env=environment, stderr=subprocess.PIPE) as daemon:
        api = Client(str(home / "run" / "daemon.sock"), tries=1, timeout_s=60)
        until_it_answers(daemon, api)
        took = time.perf_counter() - begun
        daemon.kill()
        assert daemon.stderr is not None
        said = daemon.stderr.read().decode(errors="replace")
    assert said.count("adopted the runner") == adopted, said
    return took


if __name__ == "__main__":
    main()
