"""The daemon under a night's load against its bars, and beside task-spooler: really queued jobs, an engine at work.

    python bench/operation.py [JOBS ...]         # 10,000 and 100,000; 1000000 fills a store for some minutes first

A real daemon on a scratch home with one CPU lease. One job is dispatched; then the store is given as many more like it,
each with keys of its own, over MODELS checkpoints. They could all run, and those that get a place do: on the stub
engine of the tests, which computes nothing and takes SLOW_S for an answer. So an engine is at work, and no figure here
says anything of arithmetic. Seconds of the daemon's processor stand beside those of the clock: on a machine with other
work they are the ones to compare. A plan of as many pairs comes from small files in the weights folder.

The peer, Debian's `tsp`, is started on a private socket with its one slot taken; it is asked to queue 300 jobs one by
one, which is the only way it has. It is found on PATH or fetched with apt-get.
"""

import asyncio
import contextlib
import json
import os
import random
import shutil
import signal
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from figures import header, line, until_it_answers

from rwkvctl.cli.client import Client
from rwkvctl.protocol.errors import RwkvctlError

STUB = Path(__file__).resolve().parents[1] / "tests" / "stub"
MODELS, PEER_JOBS, CLIENTS, SECONDS, SLOW_S = 50, 300, 50, 10, 0.2


def main() -> None:
    """Print one table for each number of jobs."""
    header()
    print("the engine at work is the stub engine of the tests: it computes nothing")
    for jobs in [int(word) for word in sys.argv[1:]] or [10_000, 100_000]:
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            home = Path(folder) / "h"
            measure(home, jobs)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        enqueue(Path(folder) / "h", Path(folder))


def measure(home: Path, jobs: int) -> None:
    """Measure requests and changes while `jobs` jobs are queued."""
    print(f"\n{jobs:,} jobs queued, an engine at work")
    home.mkdir()
    with daemon(home) as (api, pid):
        template(api, home)
        line("RSS idle", rss(pid), "MiB", 80)
        line("CPU idle, nothing queued, over 20 s", 100 * cpu_share(pid, 20), "%", 0.5)
    fill(home / "store.sqlite", jobs)
    begun = time.perf_counter()
    with daemon(home) as (api, pid):
        line("start with them until it answers", time.perf_counter() - begun, "s", 2)
        until_at_work(api)
        line("RSS with them", rss(pid), "MiB", None)
        line("CPU with an engine at work, over 20 s", 100 * cpu_share(pid, 20), "%", None)
        used = cpu_s(pid)
        calm, busy = asyncio.run(requests_of_clients(home / "run" / "daemon.sock"))
        line(f"status, {CLIENTS} clients once a second: p99", calm, "ms", 50)
        line(f"status, {CLIENTS} clients at once: requests a second", busy, "/s", None)
        line("  the daemon's CPU in both", cpu_s(pid) - used, "s", None)
        asked(api, pid, "jobs, the first page", "GET", "/v1/jobs", 200)
        asked(api, pid, "metrics", "GET", "/v1/metrics", None)
        api.post("/v1/pause", {"queue": True, "request_id": "pause"}, 60)
        pause_half(api, jobs)
        time.sleep(10)
        line("CPU idle, all queued or paused, over 20 s", 100 * cpu_share(pid, 20), "%", 1)
        carried_out(api, pid, "stop --all", "/v1/stop", 5 * jobs / 100_000)
        carried_out(api, pid, "resume --all", "/v1/resume", None)
        carried_out(api, pid, "stop --all, again", "/v1/stop", None)
        files(home, max(1, jobs // pairs_each(api)))
        asked(api, pid, "queue, the first page", "POST", "/v1/plan", 200, {"limit": 200})
        asked(api, pid, "queue, the same again", "POST", "/v1/plan", 200, {"limit": 200})
        asked(api, pid, "queue, a later page", "POST", "/v1/plan", 200, {"limit": 200, "after": 5000})
        asked(api, pid, "queue, what is said of all rows", "POST", "/v1/plan", None, {"rows": False})
        while api.get("/v1/status", limit=1).value["engines"]:  # or they would outlive their folder
            time.sleep(0.5)


def template(api: Client, home: Path) -> None:
    """Dispatch a job that can run, from which the others are copied."""
    builtin = {"models": ["builtin"], "only_datasets": ["demo_arith"], "only_jobs": [], "limit": 20}
    (name,) = api.post("/v1/dispatch", {"selection": builtin | {"only_jobs": ["free_response"]}}).value["jobs"]
    while api.get(f"/v1/jobs/{name}").value["item"]["state"] != "done":
        time.sleep(0.1)
    steering = home / "runs" / "engines" / "stub.json"
    steering.write_text(json.dumps({"slow_s": SLOW_S}))


def fill(store: Path, jobs: int) -> None:
    """Add `jobs` queued copies of the one job, each with keys of its own."""
    with contextlib.closing(sqlite3.connect(store)) as db:
        row = dict(zip(*columns(db), strict=True))
        fresh = {
            "id": "NULL", "state": "'queued'", "done": "0", "stages_done": "0", "right_sum": "0", "judged": "0",
            "attempt": "0", "engine": "NULL", "started": "''", "finished": "''", "seed": "n",
            "priority": "0", "model": f"'rwkv7-bench-' || (n % {MODELS})", "version": "n",
            "generation_key": "printf('%032x', n)", "grade_key": "printf('%032x', -n)",
        }  # fmt: skip
        values = ", ".join(fresh.get(name, name) for name in row)
        db.execute(
            f"INSERT INTO job ({', '.join(row)}) WITH RECURSIVE count(n) AS "
            f"(SELECT 1 UNION ALL SELECT n + 1 FROM count WHERE n < {jobs}) "
            f"SELECT {values} FROM count, (SELECT * FROM job WHERE id = {row['id']}) AS one"
        )
        db.commit()


def columns(db: sqlite3.Connection) -> tuple[list[str], tuple[object, ...]]:
    """Return the column names and values of the one job."""
    cursor = db.execute("SELECT * FROM job")
    return [one[0] for one in cursor.description], cursor.fetchone()


def until_at_work(api: Client) -> None:
    """Wait until an engine computes for a job."""
    while not api.get("/v1/status", limit=1).value["running"]:
        time.sleep(0.2)


def pause_half(api: Client, jobs: int) -> None:
    """Pause some thousands of single jobs, as many as can be named at once."""
    names = [f"j{number}" for number in range(jobs // 2, jobs // 2 + min(5000, jobs // 2))]
    api.post("/v1/pause", {"jobs": names, "request_id": "half"}, 600)


def asked(
    api: Client, pid: int, what: str, method: str, route: str, bar: float | None, body: dict[str, object] | None = None
) -> None:
    """Print the time, size and processor time of one request."""
    used, begun = cpu_s(pid), time.perf_counter()
    wanted = {"selection": {"hold_missing": True}} | (body or {})
    answer = api.post(route, wanted, 600) if method == "POST" else api.get(route)
    took = time.perf_counter() - begun
    line(what, 1000 * took, "ms", bar)
    line("  its size; the daemon's CPU meanwhile in ms", len(answer.raw) / 1000, "kB", None)
    line("", 1000 * (cpu_s(pid) - used), "ms", None)


def carried_out(api: Client, pid: int, what: str, route: str, bar: float | None) -> None:
    """Change every job until none is left, and print the longest `status` request meanwhile."""
    used, begun, before = cpu_s(pid), time.perf_counter(), rss_now(pid)
    worst, over = [0.0], threading.Event()
    watcher = threading.Thread(target=watch, args=(api, worst, over))
    watcher.start()
    body = {"all": True, "request_id": os.urandom(8).hex()}
    while (reply := api.post(route, body, 600).value).get("left"):
        time.sleep(0.05)
    took = time.perf_counter() - begun
    over.set()
    watcher.join()
    line(f"{what}: {reply.get('changed', 0):,} changed, {reply.get('unchanged', 0):,} not", took, "s", bar)
    line("  the daemon's CPU meanwhile", cpu_s(pid) - used, "s", None)
    line("  RSS more than before", rss_now(pid) - before, "MiB", None)
    line("  status at worst meanwhile", 1000 * worst[0], "ms", None)


def watch(api: Client, worst: list[float], over: threading.Event) -> None:
    """Request the status repeatedly, and record the longest time."""
    while not over.wait(0.1):
        begun = time.perf_counter()
        with contextlib.suppress(RwkvctlError):
            api.get("/v1/status", limit=1)
        worst[0] = max(worst[0], time.perf_counter() - begun)


def files(home: Path, count: int) -> None:
    """Create checkpoint files that no engine could load."""
    for number in range(count):
        path = home / "weights" / f"rwkv7-g1a-0.1b-20260101-step{number:05d}.pth"
        path.write_bytes(number.to_bytes(8, "little") * 8)


def pairs_each(api: Client) -> int:
    """Return how many rows of a plan each checkpoint has."""
    return int(api.post("/v1/plan", {"selection": {"models": ["builtin"], "hold_missing": True}}).value["total"]) or 1


def enqueue(home: Path, folder: Path) -> None:
    """Measure one dispatch of 10,000 pairs whose rows are not prepared, compared with as many commands of tsp."""
    print("\nqueueing")
    home.mkdir()
    with daemon(home) as (api, _pid):
        files(home, 200)
        begun = time.perf_counter()
        jobs = len(api.post("/v1/dispatch", {"selection": {"hold_missing": True}}, 600).value["jobs"])
        took = time.perf_counter() - begun
        line(f"enqueue {jobs:,} jobs in one dispatch", took, "s", 2 * max(1, jobs / 10_000))
    peer = peer_enqueue(folder)
    if peer is None:
        print("tsp is not installed and cannot be fetched: no ratio")
    else:
        line("tsp: one job queued", peer * 1000, "ms", None)
        line("  its time for as many jobs, by ours", peer * jobs / took, "x", None)


@contextmanager
def daemon(home: Path) -> Iterator[tuple[Client, int]]:
    """Yield the client of a daemon that answers, and its pid."""
    environment = os.environ | {
        "RWKVCTL_HOME": str(home), "XDG_CONFIG_HOME": str(home / "config"), "PYTHONPATH": str(STUB),
        "RWKVCTL_LEASE_DIR": str(home.parent), "RWKVCTL_IDLE_UNLOAD_S": "5",
    }  # fmt: skip
    process = subprocess.Popen([sys.executable, "-m", "rwkv_daemon"], env=environment, stderr=subprocess.DEVNULL)
    api = Client(str(home / "run" / "daemon.sock"), tries=1, timeout_s=600)
    try:
        until_it_answers(process, api)
        yield api, process.pid
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()


def rss(pid: int) -> float:
    """Return the resident memory of a process in MiB, once it is idle."""
    time.sleep(3)
    return rss_now(pid)


def rss_now(pid: int) -> float:
    """Return the resident memory of a process in MiB."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def cpu_share(pid: int, seconds: float) -> float:
    """Return the share of one core that a process uses."""
    before = cpu_s(pid)
    time.sleep(seconds)
    return (cpu_s(pid) - before) / seconds


def cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def requests_of_clients(path: Path) -> tuple[float, float]:
    """Return (p99 in ms of clients that ask once a second, requests a second of clients that ask all the time)."""
    calm = await all_clients(path, 1.0)
    begun = time.perf_counter()
    busy = await all_clients(path, 0.0)
    rate = len(busy) / (time.perf_counter() - begun)
    return statistics.quantiles(calm, n=100)[98] * 1000, rate


async def all_clients(path: Path, pause_s: float) -> list[float]:
    """Return the seconds of every request of all clients."""
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(one_client(path, SECONDS, pause_s)) for _ in range(CLIENTS)]
    return [taken for task in tasks for taken in task.result()]


async def one_client(path: Path, seconds: float, pause_s: float) -> list[float]:
    """Return the seconds of each request of one client, on one connection."""
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
    """Return the median seconds to queue one job in tsp while its slot is taken."""
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
    """Return the path of tsp from Debian's archive, unpacked but not installed; None if it cannot be fetched."""
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
