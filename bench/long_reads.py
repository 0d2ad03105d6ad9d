"""Long reads against their bars, in a store with two jobs of a million samples: search, compare, so-far, export, and
their effect on the rest of the daemon.

    python bench/long_reads.py [--samples N] [--keep FOLDER]

Times are those of the server, without the socket: the wall's, and the processor's of the whole process, which a machine
under load does not stretch. `longest pause` is how long the event loop did nothing else. Memory is the most that the
process held beyond what it held before.
"""

import argparse
import asyncio
import contextlib
import os
import resource
import sqlite3
import tempfile
import threading
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec
from figures import header, line
from store import NEW_JOB, a_running_job, ingest_all, score

from rwkv_daemon.api import router
from rwkv_daemon.catalogue.contents import NodeBenchmarks
from rwkv_daemon.node import Node
from rwkv_daemon.samples.text_index import index
from rwkv_daemon.store import open_store
from rwkv_daemon.store.queries.jobs import add_job, add_session
from rwkv_daemon.store.queries.search_index import next_to_index
from rwkv_daemon.store.read_lanes import READER, LaneReader, ReadLane
from rwkvctl.protocol.requests import CompareRequest, OutlineRequest, SamplesRequest, SoFarRequest
from rwkvctl.protocol.views import ScoreView
from rwkvctl.settings import config

COMPLETION = "We have 17 apples and give away 5, so 17 - 5 = 12 are left. "
CLIENTS = 4


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--samples", type=int, default=1_000_000)
    parser.add_argument("--keep", type=Path, default=None, help="a home that is made once and used again")
    given = parser.parse_args()
    header(f"SQLite {sqlite3.sqlite_version}")
    with contextlib.ExitStack() as stack:
        home = given.keep or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="rwkv-bench-")))
        if not (home / "store.sqlite").exists():
            asyncio.run(fill(home, given.samples))
        print(f"2 jobs of {given.samples:,} samples, {(home / 'store.sqlite').stat().st_size / 2**30:.2f} GiB")
        asyncio.run(measure(home, given.samples))


async def fill(home: Path, each: int) -> None:
    """Fill a store with two finished jobs of the same rows that differ on every tenth row."""
    home.mkdir(parents=True, exist_ok=True)
    store = await open_store(home / "store.sqlite")
    async with store.write() as db:
        await add_session(db, "bench", "{}", "bench", ("0", ""))
        for number in range(2):
            await add_job(db, "bench", replace(NEW_JOB, model=f"m{number}", benchmark="b", grade_key=f"k{number}",
                                               generation_key=f"g{number}", total=each))  # fmt: skip
    await store.close()
    with contextlib.closing(sqlite3.connect(home / "store.sqlite", isolation_level=None)) as db:
        for sql in bulk(each):
            db.execute(sql)


def bulk(each: int) -> list[str]:
    """Return the statements that insert the samples, one for each table. Every thousandth sample has a text of its
    own."""
    numbers = f"WITH RECURSIVE n (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < {each - 1})"
    cross = "FROM job CROSS JOIN seq ORDER BY job.id, seq.i"
    value = "CASE WHEN s.row % 4 = 0 OR (s.job = 2 AND s.row % 10 = 3) THEN 0.0 ELSE 1.0 END"
    return [
        "PRAGMA synchronous = OFF", "PRAGMA cache_size = -200000",
        f"CREATE TEMP TABLE seq AS {numbers} SELECT i FROM n",
        "BEGIN",
        f"INSERT INTO prompt SELECT job.id, i, 0, 'Question ' || i || ': {COMPLETION * 2}' {cross}",
        ("INSERT INTO completion (job, row, repeat, stage, attempt, ids, text, stop, logprobs, prompt_tokens, "
        "cached_tokens, generated_tokens, engine, seconds) SELECT job.id, i, 0, 0, 1, '[12,345,6789,12,345,6789]', "
        f"CASE WHEN i % 1000 = 7 THEN 'Kowalski has ' || i || ' apples. ' ELSE '' END || '{COMPLETION * 2}', "
        f"'eos', '[]', 60, 30, 40, 'e1', 0.5 {cross}"),
        f"INSERT INTO sample (job, row, repeat, attempt) SELECT job.id, i, 0, 1 {cross}",
        ("INSERT INTO grade (sample, grade_key, value, reason, expected, extracted, detail) SELECT s.number, "
        f"'k' || (s.job - 1), {value}, CASE WHEN {value} = 1 THEN 'right' ELSE 'wrong' END, '12', '12', '' "
        "FROM sample s"),
        (f"UPDATE job SET done = {each}, stages_done = {each}, right_sum = {each} * 0.75, total = {each}, "
        "started = '2026-01-01T00:00:00Z', finished = '2026-01-01T01:00:00Z'"),
        "INSERT INTO score SELECT id, grade_key, finished, replace(replace('" + a_score() + "', '@job', 'j' || id), "
        "'@model', model) FROM job",
        "COMMIT", "DROP TABLE seq", "PRAGMA wal_checkpoint(TRUNCATE)",
    ]  # fmt: skip


def a_score() -> str:
    """Return a score whose rows are known, so that two can be compared."""
    view = msgspec.json.decode(score().replace("''", "'"), type=ScoreView)
    return msgspec.json.encode(msgspec.structs.replace(view, provenance={"rows_sha256": "r"})).decode()


@dataclass(slots=True)
class Cost:
    """Cost of one action: its time, the event loop's longest pause, the memory held, and its replies."""

    wall_s: float = 0.0
    cpu_s: float = 0.0
    pause_s: float = 0.0
    held_mib: float = 0.0
    slowest_reply_s: float = 0.0
    replies: int = 0

    def show(self, what: str, most_s: float | None = None, most_mib: float | None = None) -> None:
        line(f"{what}: wall", self.wall_s, "s", most_s)
        line(f"{what}: processor", self.cpu_s, "s", None)
        line(f"{what}: longest pause of the event loop", 1000 * self.pause_s, "ms", None)
        line(f"{what}: memory", self.held_mib, "MiB", most_mib)
        if self.replies > 1:
            line(f"{what}: replies", self.replies, "", None)
            line(f"{what}: slowest reply", self.slowest_reply_s, "s", 2.0)


async def measure(home: Path, samples: int) -> None:
    """Measure the reads one by one, then all at once during an ingest."""
    os.environ["RWKVCTL_HOME"] = str(home)
    settings = config.load({"home": str(home)})
    settings.runs_dir.mkdir(parents=True, exist_ok=True)
    store = await open_store(settings.store)
    node = Node.of(settings, store, NodeBenchmarks(settings.data_dir))
    await before(node)
    (await cost(lambda c: search(node, "kowalski", c))).show("search for a name", 1.0)
    (await cost(lambda c: search(node, "zebra crossing", c))).show("search for what is nowhere", 1.0)
    (await cost(lambda c: search(node, f"question {samples - 3}:", c))).show("search for one question", 1.0)
    (await cost(lambda c: samples_of(node, "kowalski", c))).show("samples --text, the first 20", 1.0)
    request = CompareRequest(a="j1", b="j2", partial=True)
    (await cost(lambda c: until_whole(node, request, c))).show("compare", 5.0, 300.0)
    (await cost(lambda c: until_whole(node, SoFarRequest(job="j2"), c))).show("so-far", None, 300.0)
    (await cost(lambda c: exported(node, 20_000, c))).show("export of 20,000 samples", None, 300.0)
    (await cost(lambda c: beside(node, c))).show(f"{CLIENTS} searches, 3 so-far and an ingest at once")
    await store.close()


async def before(node: Node) -> None:
    """Index the texts of the job that is searched, as a daemon does by itself once a job is done."""
    texts = "SELECT SUM(LENGTH(text)) AS n FROM"
    bulk = [(await node.records.store.all(f"{texts} {table}"))[0]["n"] / 2**20 for table in ("prompt", "completion")]
    job = await next_to_index(node.records.store)
    if job is not None and job.name == "j2":
        (await cost(lambda _: index(node.records, job))).show(f"index of {job.name}")
    size = await node.records.store.all("SELECT COUNT(*) AS n, SUM(LENGTH(grams)) AS bytes FROM search_block")
    line(f"size of the index, of {sum(bulk):,.0f} MiB of text", size[0]["bytes"] / 2**20, "MiB", None)


async def cost(action: Callable[[Cost], Awaitable[None]]) -> Cost:
    """Measure the cost of an action, with a task that runs every few milliseconds beside it."""
    found, done = Cost(), asyncio.Event()
    memory = Memory()

    async def beat() -> None:
        last = time.perf_counter()
        while not done.is_set():
            await asyncio.sleep(0.002)
            now = time.perf_counter()
            found.pause_s, last = max(found.pause_s, now - last - 0.002), now

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(beat())
        wall, cpu = time.perf_counter(), time.process_time()
        await action(found)
        found.wall_s, found.cpu_s = time.perf_counter() - wall, time.process_time() - cpu
        done.set()
    found.held_mib = memory.end()
    return found


class Memory:
    """The peak of this process's memory since this object was made, less the memory at that time."""

    def __init__(self) -> None:
        self.before, self.most, self.over = held_mib(), 0.0, threading.Event()
        self.watch = threading.Thread(target=self._look)
        self.watch.start()

    def _look(self) -> None:
        while not self.over.wait(0.05):
            self.most = max(self.most, held_mib())

    def end(self) -> float:
        self.over.set()
        self.watch.join()
        return max(0.0, self.most - self.before)


def held_mib() -> float:
    """Return the resident memory of this process in MiB."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * resource.getpagesize() / 2**20


async def asked(node: Node, request: Any, found: Cost, who: str = "one") -> Any:
    """Return one reply, as a client of the socket gets it."""
    begun = time.perf_counter()
    READER.set(LaneReader(ReadLane.REQUESTS, who))
    reply = await router.answer(node, request)
    msgspec.json.encode(reply)
    found.replies += 1
    found.slowest_reply_s = max(found.slowest_reply_s, time.perf_counter() - begun)
    return reply


async def search(node: Node, text: str, found: Cost, who: str = "one") -> None:
    """Search all samples with a text, as the console does."""
    after, limit = -1, 500
    while True:
        reply = await asked(node, OutlineRequest(job="j2", text=text, after=after, limit=limit), found, who)
        after, limit = reply.next, 1_000_000
        if after < 0 and not getattr(reply, "looking", False):
            return


async def samples_of(node: Node, text: str, found: Cost) -> None:
    """Read the first samples with a text, as the command line does."""
    left, after = 20, -1
    while True:
        reply = await asked(node, SamplesRequest(job="j2", text=text, after=after, limit=left), found)
        left, after = left - len(reply.items), reply.next
        if not left or not getattr(reply, "looking", False):
            return


async def until_whole(node: Node, request: Any, found: Cost, who: str = "one") -> None:
    """Repeat a request until its answer is complete."""
    while getattr(await asked(node, request, found, who), "looking", False):
        await asyncio.sleep(0.1)


async def exported(node: Node, count: int, found: Cost) -> None:
    """Read up to `count` samples of job j2 in pages of 1,000, as an export does."""
    after = -1
    while count > 0 and (after >= 0 or found.replies == 0):
        reply = await asked(node, SamplesRequest(job="j2", limit=1000, after=after), found)
        after, count = reply.next, count - len(reply.items)


async def beside(node: Node, found: Cost) -> None:
    """Run clients that search all samples while a runner's samples are stored."""
    handle = await a_running_job(node)
    async with asyncio.TaskGroup() as tasks:
        looking = [tasks.create_task(search(node, "no such text", found, f"user {n}")) for n in range(CLIENTS)]
        looking += [
            tasks.create_task(until_whole(node, SoFarRequest(job="j2"), found, f"console {n}")) for n in range(3)
        ]
        wall = time.perf_counter()
        await ingest_all(node, handle)
        line("ingest beside them", 50_000 / (time.perf_counter() - wall), "/s", None)
        still = sum(not task.done() for task in looking)
        line("clients that still looked when all was stored", still, "", None)


if __name__ == "__main__":
    main()
