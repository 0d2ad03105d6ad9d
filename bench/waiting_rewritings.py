"""The rewriting of a job of many samples while its writer answers nothing: what the check of the recipe takes before,
and the memory of the daemon while all rewritings wait.

    python bench/waiting_rewritings.py [--samples 100000] [--benchmark-rows 200000] [--seconds 20] [--unindexed]

Set, samples and benchmark rows are those of recipes.py. The samples file of the job is written as its runner writes it,
because rewritings are made of that. The writer is a server of this script: it answers the daemon's probe and leaves
every question without an answer. Check, run, status and samples are processes of the command line that ask a real
daemon; no engine runs. The job is in the search index already, which the daemon makes in the background otherwise;
with --unindexed it does so meanwhile.

At rest every sample that is not right is stored as dropped, and the writer has all the requests that it may have. Bars:
5 s for the check, and 30 MB of resident memory more than before. A MB is 10^6 bytes. Processes of a runner share pages,
which are counted in each of them.
"""

import argparse
import asyncio
import contextlib
import json
import os
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

from decontaminate import fill
from figures import header, line
from log_follow import cpu_s, daemon
from recipes import EACH, fill_store

from rwkv_daemon.changes.records import Records
from rwkv_daemon.runner.samples_file import SamplesFile
from rwkv_daemon.samples import text_index
from rwkv_daemon.store import open_store
from rwkv_daemon.store.queries.jobs import add_attempt, end_attempt, get_job, update_job
from rwkv_daemon.store.wall_time import now
from rwkv_daemon.workers.run_directory import RunDir, SampleRecord, StageRecord
from rwkv_daemon.workers.worker_process import read_record
from rwkvctl.cli.client import Client
from rwkvctl.settings import config
from rwkvctl.settings.judge import EndpointConfig

TIME_BAR_S = 5.0
MEMORY_BAR_MB = 30.0
CHECKS, ASKED = 3, 5
"""How often the check is repeated, and how often other commands are run."""
REST_S, LONGEST_S = 5.0, 1800.0
IN_FLIGHT = EndpointConfig().concurrency
"""Requests that the writer may have at once."""
RECIPE = 'jobs = ["j1"]\n[rewrite]\nrule = "thought-solution"\n[select]\nrule = "shortest-correct"\n'
STORED = (
    "SELECT c.row, c.repeat, text, stop, prompt_tokens, generated_tokens, value, reason FROM completion c "
    "JOIN sample s ON s.job = c.job AND s.row = c.row AND s.repeat = c.repeat JOIN grade ON sample = number "
    "WHERE c.job = 1 ORDER BY c.row, c.repeat"
)
PROBED = {
    "model": "silent",
    "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "seven, eight"}}],
    "usage": {"prompt_tokens": 20, "completion_tokens": 4},
}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--samples", type=int, default=100_000)
    parser.add_argument("--benchmark-rows", type=int, default=200_000)
    parser.add_argument("--seconds", type=float, default=20.0, help="how long the daemon is watched at rest")
    parser.add_argument("--unindexed", action="store_true", help="the daemon makes the search index of the job beside")
    given = parser.parse_args()
    header(f"SQLite {sqlite3.sqlite_version}")
    with tempfile.TemporaryDirectory(prefix="rwkv-bench-", ignore_cleanup_errors=True) as folder:
        home = Path(folder)
        fill(home, 1, given.benchmark_rows)
        asyncio.run(fill_store(home, given.samples // EACH))
        samples, right = asyncio.run(fill_run(home))
        if not given.unindexed:
            asyncio.run(fill_index(home))
        size = sum((home / name).stat().st_size for name in ("store.sqlite", "runs/j1/samples-1.jsonl")) / 1e6
        print(f"{samples:,} samples, {right:,} of them right ({size:,.0f} MB), {given.benchmark_rows:,} benchmark rows")
        with silent_writer() as writer:
            configure(home, writer)
            with daemon(home) as (api, pid):
                measure(home, api, pid, writer, samples, right, given.seconds)


def measure(
    home: Path, api: Client, pid: int, writer: "SilentWriter", samples: int, right: int, watched_s: float
) -> None:
    """Check the recipe, run it, and measure while its rewritings wait."""
    recipe = home / "waiting.toml"
    recipe.write_text(RECIPE)
    time.sleep(REST_S)
    idle = memory_mb(pid)
    line("daemon, idle: memory", idle, "MB", None)
    checks(home, pid, recipe, right)
    time.sleep(REST_S)
    before = memory_mb(pid)
    line("daemon, after the checks: memory", before, "MB", None)
    reset_peak(pid)
    used, begun = cpu_s(pid), time.perf_counter()
    line("recipe run: wall", ran(home, "recipe", "run", str(recipe))[0], "s", None)
    until_all_wait(api, writer, samples - right, min(IN_FLIGHT, right))
    line("until all rewritings wait: wall", time.perf_counter() - begun, "s", None)
    line("until all rewritings wait: processor of the daemon", cpu_s(pid) - used, "s", None)
    time.sleep(REST_S)
    waiting, most = memory_mb(pid), memory_mb(pid, "VmHWM")
    line("daemon, rewritings wait: memory", waiting, "MB", None)
    line("daemon, rewritings wait: more than after the checks", waiting - before, "MB", MEMORY_BAR_MB)
    line("daemon, rewritings wait: more than idle", waiting - idle, "MB", MEMORY_BAR_MB)
    line("daemon, at most since recipe run: more than idle", most - idle, "MB", None)
    print_runner(home)
    used = cpu_s(pid)
    time.sleep(watched_s)
    line(f"daemon, rewritings wait: CPU over {watched_s:g} s", 100 * (cpu_s(pid) - used) / watched_s, "%", None)
    for words in (("status",), ("samples", "j1", "--limit", "1")):
        taken = [ran(home, *words)[0] for _ in range(ASKED)]
        line(f"{' '.join(words)}: wall, median of {ASKED}", statistics.median(taken), "s", None)
    line("daemon, after these commands: more than idle", memory_mb(pid) - idle, "MB", MEMORY_BAR_MB)
    line("requests without an answer", writer.held, "", None)


def checks(home: Path, pid: int, recipe: Path, right: int) -> None:
    """Measure the check of the recipe, repeatedly. Raises SystemExit if it counts other samples than the right ones."""
    words, used = ("recipe", "check", str(recipe), "--json"), cpu_s(pid)
    first, shown = ran(home, *words)
    line("recipe check, the first: wall", first, "s", TIME_BAR_S)
    line("recipe check, the first: processor of the daemon", cpu_s(pid) - used, "s", None)
    found = json.loads(shown)
    if (calls := [item["calls"] for item in found["paid"]]) != [right] or found.get("problems"):
        sys.exit(f"the check says {calls} calls for {right} right samples, problems: {found.get('problems')}")
    again = max(ran(home, *words)[0] for _ in range(CHECKS))
    line(f"recipe check, the longest of {CHECKS} more: wall", again, "s", TIME_BAR_S)


def ran(home: Path, *words: str) -> tuple[float, bytes]:
    """Run a command; return its seconds and what it printed. Raises SystemExit if it fails."""
    environment = os.environ | {"RWKVCTL_HOME": str(home), "XDG_CONFIG_HOME": str(home / "config")}
    begun = time.perf_counter()
    command = [sys.executable, "-m", "rwkvctl.cli", *words]
    done = subprocess.run(command, env=environment, check=False, capture_output=True)
    if done.returncode:
        sys.exit(f"rwkvctl {' '.join(words)} ended with {done.returncode}: {done.stderr.decode()}")
    return time.perf_counter() - begun, done.stdout


def until_all_wait(api: Client, writer: "SilentWriter", dropped: int, held: int) -> None:
    """Wait until the other samples of the rewriting are stored and the writer has its requests. Raises SystemExit if
    that does not happen."""
    deadline = time.monotonic() + LONGEST_S
    while time.monotonic() < deadline:
        job = next((job for job in api.get("/v1/jobs", limit=10).value["items"] if job["id"] == "j2"), {})
        if job.get("done", 0) == dropped and writer.held == held:
            return
        if job.get("state") in {"failed", "held", "done"}:
            sys.exit(f"j2 is {job['state']}: {job.get('reason')} {job.get('detail')}")
        time.sleep(0.2)
    sys.exit(f"after {LONGEST_S:.0f} s the rewritings do not wait: {job}, {writer.held} requests")


def print_runner(home: Path) -> None:
    """Print the resident memory of the runner of the rewriting, and of the processes that it has started."""
    record = read_record(home / "runs" / "j2" / "record-1.json")
    if record is None:
        sys.exit("the rewriting has no runner")
    line("its runner: memory", memory_mb(record.pid), "MB", None)
    line("its runner, at most: memory", memory_mb(record.pid, "VmHWM"), "MB", None)
    if others := list(descendants(record.pid)):
        line(f"{len(others)} processes that it has started: memory", sum(map(memory_mb, others)), "MB", None)


def descendants(pid: int) -> Iterator[int]:
    """Yield the processes that a process has started, and those that these have."""
    for children in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in map(int, children.read_text().split()):
            yield child
            yield from descendants(child)


def memory_mb(pid: int, field: str = "VmRSS") -> float:
    """Return the resident memory of a process, or the most that it was (`VmHWM`)."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.split(f"{field}:")[1].split()[0]) * 1024 / 1e6


def reset_peak(pid: int) -> None:
    """Have the kernel count the most memory from now on."""
    Path(f"/proc/{pid}/clear_refs").write_text("5")


async def fill_run(home: Path) -> tuple[int, int]:
    """Write what an attempt at the stored job would have left; return how many samples it has, and how many are right.

    The samples are those of the store, in its order."""
    run = RunDir(home / "runs" / "j1")
    run.path.mkdir(parents=True)
    count = right = 0
    with contextlib.closing(sqlite3.connect(home / "store.sqlite")) as db, SamplesFile(run.samples(1)) as samples:
        for row, repeat, text, stop, prompt_tokens, generated, value, reason in db.execute(STORED):
            place = {"row": row, "repeat": repeat}
            stage = StageRecord(
                **place, stage=0, text=text, stop=stop, prompt_tokens=prompt_tokens, generated=generated, seconds=1.0
            )
            samples.append(stage)
            samples.append(SampleRecord(**place, value=value, reason=reason))
            count, right = count + 1, right + int(value)
    store = await open_store(home / "store.sqlite")
    async with store.write() as db:
        await add_attempt(db, 1, 1, str(uuid.uuid4()))
        await db.execute("UPDATE attempt SET ingested = ? WHERE job = 1", (run.samples(1).stat().st_size,))
        await end_attempt(db, 1, 1, code=0, signal=None, lost=False)
        await update_job(
            db, 1, attempt=1, finished=now(), done=count, stages_done=count, right_sum=float(right), judged=count
        )
    await store.close()
    return count, right


async def fill_index(home: Path) -> None:
    """Make the search index of the stored job as the daemon does in the background, but without its pauses."""
    store = await open_store(home / "store.sqlite")
    job = await get_job(store, 1)
    assert job is not None
    with mock.patch.object(text_index, "REST", 0):
        await text_index.index(Records(config.load({"home": str(home)}), store), job)
    await store.close()


def configure(home: Path, writer: "SilentWriter") -> None:
    """Write the daemon's configuration, with the writer."""
    path = home / "config" / "rwkvctl" / "config.toml"
    path.parent.mkdir(parents=True)
    path.write_text(f'[writer]\nbase_url = "http://127.0.0.1:{writer.port}/v1"\nmodel = "silent"\n')


@dataclass
class SilentWriter:
    """A server that answers a probe, and no question about an attempt: `held` are those."""

    port: int = 0
    held: int = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).lower()
                body = await reader.readexactly(int(head.split(b"content-length:")[1].split()[0]))
                if b"<attempt-" in body:
                    await self.hold(reader)
                    break
                reply = json.dumps(PROBED).encode()
                writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n")
                writer.write(b"content-length: %d\r\n\r\n%b" % (len(reply), reply))
        writer.close()

    async def hold(self, reader: asyncio.StreamReader) -> None:
        """Wait until the client hangs up."""
        self.held += 1
        try:
            await reader.read()
        finally:
            self.held -= 1


@contextlib.contextmanager
def silent_writer() -> Iterator[SilentWriter]:
    """Run the server in a thread with an event loop of its own."""
    silent, ready, loop = SilentWriter(), threading.Event(), asyncio.new_event_loop()

    async def run() -> None:
        server = await asyncio.start_server(silent.serve, "127.0.0.1", 0, limit=1 << 22)
        silent.port = server.sockets[0].getsockname()[1]
        ready.set()

    def serve() -> None:
        loop.run_until_complete(run())
        loop.run_forever()

    threading.Thread(target=serve, daemon=True).start()
    ready.wait()
    try:
        yield silent
    finally:
        loop.call_soon_threadsafe(loop.stop)


if __name__ == "__main__":
    main()
