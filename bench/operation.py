"""The daemon under a night's load against its bars, and beside task-spooler: 10,000 jobs, 50 clients.

    python bench/operation.py

A real daemon on a scratch home. Enqueueing is one `dispatch` of 10,000 pairs whose rows are not prepared (they are
queued as held: the same transaction). The peer, Debian's `tsp`, is started on a private socket with its one slot taken;
it is asked to queue 300 jobs one by one, which is the only way it has. It is found on PATH or fetched with apt-get.
"""

import asyncio
import os
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from figures import header, line, until_it_answers

from rwkvctl.client import Client

MODELS, WANTED, PEER_JOBS, CLIENTS, SECONDS = 200, 10_000, 300, 50, 10


def main() -> None:
    """Print one table."""
    header()
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder) / "h"
        home.mkdir()
        with daemon(home) as (api, pid):
            line("RSS idle", rss(pid), "MiB", 80)
            line("CPU idle, no GPU, over 20 s", 100 * cpu_share(pid, 20), "%", 0.5)
            for number in range(MODELS):
                path = home / "weights" / f"rwkv7-g1a-0.1b-20260101-step{number:05d}.pth"
                path.write_bytes(bytes([number % 256]) * 64)
            begun = time.perf_counter()
            jobs = len(api.post("/v1/dispatch", {"selection": {"hold_missing": True}}).value["jobs"])
            took = time.perf_counter() - begun
            line(f"enqueue {jobs:,} jobs in one dispatch", took, "s", 2 * max(1, jobs / WANTED))
            line("RSS with them", rss(pid), "MiB", 150)
            calm, busy = asyncio.run(crowd(home / "run" / "daemon.sock"))
            line(f"status, {CLIENTS} clients once a second: p99", calm, "ms", 20)
            line(f"status, {CLIENTS} clients at once: requests a second", busy, "/s", None)
        begun = time.perf_counter()
        with daemon(home):
            line("start again with them until it answers", time.perf_counter() - begun, "s", 2)
        peer = peer_enqueue(Path(folder))
        if peer is None:
            print("tsp is not there and cannot be fetched: no ratio")
        else:
            line("tsp: one job queued", peer * 1000, "ms", None)
            line("  its time for as many jobs, by ours", peer * jobs / took, "x", None)


@contextmanager
def daemon(home: Path) -> Iterator[tuple[Client, int]]:
    """A daemon that answers, and its pid."""
    environment = os.environ | {"RWKVCTL_HOME": str(home), "XDG_CONFIG_HOME": str(home / "config")}
    process = subprocess.Popen([sys.executable, "-m", "rwkv_daemon"], env=environment, stderr=subprocess.DEVNULL)
    api = Client(str(home / "run" / "daemon.sock"), tries=1, timeout_s=600)
    try:
        until_it_answers(process, api)
        yield api, process.pid
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()


def rss(pid: int) -> float:
    """MiB, after it has come to rest."""
    time.sleep(3)
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def cpu_share(pid: int, seconds: float) -> float:
    """Share of one core that the process takes."""
    before = cpu_s(pid)
    time.sleep(seconds)
    return (cpu_s(pid) - before) / seconds


def cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def crowd(path: Path) -> tuple[float, float]:
    """(p99 in ms of clients that ask once a second, requests a second of clients that ask all the time)."""
    calm = await visitors(path, 1.0)
    begun = time.perf_counter()
    busy = await visitors(path, 0.0)
    rate = len(busy) / (time.perf_counter() - begun)
    return statistics.quantiles(calm, n=100)[98] * 1000, rate


async def visitors(path: Path, pause_s: float) -> list[float]:
    """The seconds that every request of all clients took."""
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(visitor(path, SECONDS, pause_s)) for _ in range(CLIENTS)]
    return [taken for task in tasks for taken in task.result()]


async def visitor(path: Path, seconds: float, pause_s: float) -> list[float]:
    """The seconds each of a client's requests took, on one connection."""
    reader, writer = await asyncio.open_unix_connection(str(path))
    taken = []
    await asyncio.sleep(random.random() * pause_s)
    deadline = time.perf_counter() + seconds
    while time.perf_counter() < deadline:
        begun = time.perf_counter()
        writer.write(b"GET /v1/status HTTP/1.1\r\nhost: bench\r\n\r\n")
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(
            next(part for part in head.lower().split(b"\r\n") if part.startswith(b"content-length")).split()[1]
        )
        await reader.readexactly(length)
        taken.append(time.perf_counter() - begun)
        await asyncio.sleep(pause_s)
    writer.close()
    return taken


def peer_enqueue(folder: Path) -> float | None:
    """Median seconds to queue one job in tsp while its slot is taken."""
    program = shutil.which("tsp") or fetched(folder)
    if program is None:
        return None
    environment = os.environ | {"TS_SOCKET": str(folder / "tsp"), "TMPDIR": str(folder)}
    subprocess.run([program, "sleep", "600"], env=environment, check=True, stdout=subprocess.DEVNULL)
    taken = []
    try:
        for _ in range(PEER_JOBS):
            begun = time.perf_counter()
            subprocess.run([program, "true"], env=environment, check=True, stdout=subprocess.DEVNULL)
            taken.append(time.perf_counter() - begun)
    finally:
        subprocess.run([program, "-k"], env=environment, check=False)
        subprocess.run([program, "-K"], env=environment, check=False)
    return statistics.median(taken)


def fetched(folder: Path) -> str | None:
    """tsp from Debian's archive, unpacked and not installed."""
    if not shutil.which("apt-get") or not shutil.which("dpkg-deb"):
        return None
    got = subprocess.run(["apt-get", "download", "task-spooler"], cwd=folder, capture_output=True, check=False)
    packages = list(folder.glob("task-spooler*.deb"))
    if got.returncode or not packages:
        return None
    subprocess.run(["dpkg-deb", "-x", str(packages[0]), str(folder / "tsp.d")], check=True)
    return str(folder / "tsp.d" / "usr" / "bin" / "tsp")


if __name__ == "__main__":
    main()
