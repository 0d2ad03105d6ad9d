"""Watched folders against their bars: a look at 10,000 checkpoints, what these cost an idle daemon, and the time from a
ready file to its queued jobs.

    python bench/watching.py [--files N] [--rest SECONDS]

The files are small, and the store knows them as measured, as after a long run: what is hashed and measured once costs
nothing here. The daemon's processor time is that of a rest with the watch and of one without it, in two processes one
after the other; their difference is what the watch costs. `ready to queued` begins when the written checkpoint has
stood still for as long as it has to, ends at the time stored with its jobs, and holds its hashing.
"""

import argparse
import asyncio
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import TypeVar

from figures import header, line, until_it_answers

from rwkv_daemon.catalogue.contents import NodeBenchmarks
from rwkv_daemon.node import Node
from rwkv_daemon.store import open_store
from rwkv_daemon.store.queries.training.watches import add_watched
from rwkv_daemon.training import watch_task
from rwkv_daemon.training.folders.root_scan import scan
from rwkv_weights.local.checkpoint_files import builtin_checkpoint_path
from rwkvctl.cli.client import Client
from rwkvctl.settings import config

T = TypeVar("T")
SETTLE_S = 2
LOOKS = 9
CHECKPOINTS = 5


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--files", type=int, default=10_000)
    parser.add_argument("--rest", type=int, default=60)
    given = parser.parse_args()
    header()
    with tempfile.TemporaryDirectory(prefix="rwkv-bench-") as folder:
        home, root = Path(folder) / "h", Path(folder) / "run"
        root.mkdir()
        for number in range(given.files):
            (root / f"old-{number}.pth").write_bytes(b"x" * 100)
        without = with_daemon(home, lambda _api, pid: used_s(pid, given.rest))
        with_daemon(home, lambda api, _pid: watch(api, root))
        asyncio.run(measure_looks(home, given.files))
        resting = with_daemon(home, lambda _api, pid: used_s(pid, given.rest))
        line("daemon: processor at rest, no watch", 100 * without / given.rest, "%", None)
        line("daemon: processor at rest, with the watch", 100 * resting / given.rest, "%", 1.0)
        delays = with_daemon(home, lambda api, _pid: [delay_s(api, root, number) for number in range(CHECKPOINTS)])
    line("ready to queued, median", statistics.median(delays), "s", None)
    line("ready to queued, longest", max(delays), "s", 5.0)


def with_daemon(home: Path, measure: Callable[[Client, int], T]) -> T:
    """Start a daemon, measure, stop it."""
    environment = os.environ | {"RWKVCTL_HOME": str(home)}
    daemon = subprocess.Popen([sys.executable, "-m", "rwkv_daemon"], env=environment, stderr=subprocess.DEVNULL)
    api = Client(str(home / "run" / "daemon.sock"), tries=1)
    try:
        until_it_answers(daemon, api)
        return measure(api, daemon.pid)
    finally:
        daemon.send_signal(signal.SIGTERM)
        daemon.wait()


def used_s(pid: int, rest_s: int) -> float:
    """Return the processor time of the daemon alone in so many seconds, after ten for its start."""
    time.sleep(10)
    before = processor_s(pid)
    time.sleep(rest_s)
    return processor_s(pid) - before


def processor_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def watch(api: Client, root: Path) -> None:
    """Have the folder watched, without a look at it yet."""
    rules = {"policy": "all", "settle_s": SETTLE_S}
    selection = {"only_datasets": ["demo_choice"], "limit": 1}
    api.post("/v1/watches", {"root": str(root), "rules": rules, "selection": selection})
    api.post("/v1/watches/change", {"watch": "w1", "action": "pause"})


async def measure_looks(home: Path, files: int) -> None:
    """Store the files as measured, then look at them again and again."""
    os.environ["RWKVCTL_HOME"] = str(home)
    settings = config.load({"home": str(home)})
    store = await open_store(settings.store)
    root = home.parent / "run"
    async with store.write() as db:
        await db.execute("DELETE FROM watched")
        await db.execute("UPDATE watch SET state = 'watching'")
        await add_watched(db, [
            {"watch": 1, "name": name, "identity": file.identity, "modified_ns": file.modified_ns, "state": "done",
             "sha256": f"{number:064x}", "seen": "2026-11-28T00:00:00Z"}
            for number, (name, file) in enumerate(scan(root, (), "").files.items())
        ])  # fmt: skip
    node = Node.of(settings, store, NodeBenchmarks(settings.data_dir))
    await watch_task.load(node.records, node.catalogue, node.watches)
    (folder,) = node.watches.folders.values()
    walls, own = [], []
    for _ in range(LOOKS):
        began, processor = time.perf_counter(), time.process_time()
        look = await watch_task.look_into(node.watches, folder)
        await watch_task.note_look(node.records, folder, look)
        await watch_task.follow(node.work, node.catalogue, folder)
        walls.append(time.perf_counter() - began)
        own.append(time.process_time() - processor)
        await asyncio.sleep(0.2)
    assert len(folder.in_state("done")) == files, "the looks have found something new"
    line(f"look at {files:,} checkpoints: wall, median", 1000 * statistics.median(walls), "ms", 200.0)
    line(f"look at {files:,} checkpoints: wall, longest", 1000 * max(walls), "ms", None)
    line(f"look at {files:,} checkpoints: processor, median", 1000 * statistics.median(own), "ms", None)
    await store.close()


def delay_s(api: Client, root: Path, number: int) -> float:
    """Write a checkpoint and return how long after it was ready its jobs were queued."""
    new = root / f"new-{number}.tmp"
    new.write_bytes(builtin_checkpoint_path().read_bytes())
    with zipfile.ZipFile(new, "a") as archive:
        archive.comment = f"checkpoint {number}".encode()
    new.rename(root / f"new-{number}.pth")
    ready = time.time() + SETTLE_S
    while True:
        found = api.get("/v1/watches/w1", limit=1).value["items"][0]
        if found["name"] == f"new-{number}.pth" and found.get("dispatched"):
            return datetime.fromisoformat(found["dispatched"]).timestamp() - ready
        time.sleep(0.1)


if __name__ == "__main__":
    main()
