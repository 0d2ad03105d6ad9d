"""The feedback on the last checkpoint of a training run against its bar: 50 checkpoints, 20 benchmarks each.

    python bench/feedback.py [--checkpoints N] [--benchmarks N] [--rows N]

The run gets better for half of its checkpoints, then stays as it is; its first one is the pinned baseline. `cold`:
right after a start, so that every comparison is computed; `after one more`: the comparisons before the last checkpoint
are remembered, as they are while the daemon writes one feedback after the other. Times are those of the server, without
the socket.
"""

import argparse
import asyncio
import contextlib
import json
import os
import random
import resource
import sqlite3
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec
from figures import header, line
from store import NEW_JOB, score

from rwkv_daemon.api import router
from rwkv_daemon.catalogue.contents import NodeBenchmarks
from rwkv_daemon.node import Node
from rwkv_daemon.store import open_store
from rwkv_daemon.store.queries.jobs import add_job, add_session
from rwkv_daemon.store.queries.training.baselines import set_pin
from rwkv_daemon.store.queries.training.watches import add_watch, add_watched
from rwkvctl.protocol.training.feedback import FeedbackReply, FeedbackRequest
from rwkvctl.protocol.views import MetricView, ScoreView
from rwkvctl.settings import config

BAR_S = 5.0
SUITE = """[suites.nightly]
benchmarks = {benchmarks}
objective = ["{objective}"]
"""


def main() -> None:
    parser = argparse.ArgumentParser()
    for name, usual in (("checkpoints", 50), ("benchmarks", 20), ("rows", 1000)):
        parser.add_argument(f"--{name}", type=int, default=usual)
    given = parser.parse_args()
    header(f"SQLite {sqlite3.sqlite_version}")
    with tempfile.TemporaryDirectory(prefix="rwkv-bench-") as folder:
        asyncio.run(measure(Path(folder), given.checkpoints, given.benchmarks, given.rows))


async def measure(home: Path, checkpoints: int, benchmarks: int, rows: int) -> None:
    """Fill a store, and ask for the feedback as a client does, until it is there."""
    os.environ["RWKVCTL_HOME"], os.environ["XDG_CONFIG_HOME"] = str(home), str(home)
    settings = config.load({"home": str(home)})
    kinds = list(islice(kinds_of(NodeBenchmarks.open(settings)), benchmarks))
    (home / "rwkvctl").mkdir()
    members = [f"{name}.{kind}" for name, kind in kinds]
    text = SUITE.format(benchmarks=json.dumps(members), objective=members[0])
    (home / "rwkvctl" / "benchmarks.toml").write_text(text)
    await fill(settings.store, kinds, checkpoints, rows)
    print(f"{checkpoints} checkpoints, {benchmarks} benchmarks of {rows:,} rows each, "
          f"{settings.store.stat().st_size / 2**20:,.0f} MiB")  # fmt: skip
    async with a_node(settings) as cold:
        before_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        found = await timed(cold, FeedbackRequest(watch="w1", page=True), "cold", BAR_S)
        held = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kib) / 1024
        line("cold: memory", held, "MiB", None)
        assert len(found.items) == benchmarks, len(found.items)
        assert len(found.checkpoints) == checkpoints, len(found.checkpoints)
        assert found.baseline == "run-1", found.baseline
        print(f"  best so far {found.best}; {len(found.page):,} lines of Markdown")
    async with a_node(settings) as warm:
        await timed(warm, FeedbackRequest(watch="w1", step=checkpoints - 1), "one checkpoint before it", None)
        await timed(warm, FeedbackRequest(watch="w1", page=True), "after one more", BAR_S)


@contextlib.asynccontextmanager
async def a_node(settings: config.Config) -> AsyncIterator[Node]:
    """A node on the store, which is closed whatever happens: its thread would keep the process."""
    store = await open_store(settings.store)
    try:
        yield Node.of(settings, store, NodeBenchmarks.open(settings))
    finally:
        await store.close()


def kinds_of(benchmarks: NodeBenchmarks) -> Iterator[tuple[str, str]]:
    """Yield benchmarks with one kind each, of those that give each row one verdict."""
    for name, benchmark in sorted(benchmarks.all().items()):
        kinds = (one.name for one in benchmark.kinds.values() if one.metrics[0] == "accuracy" and one.repeats == 1)
        if not benchmark.training and (kind := next(kinds, "")):
            yield name, kind


async def timed(node: Node, request: FeedbackRequest, what: str, bar_s: float | None) -> FeedbackReply:
    """Ask until the reply is whole; prints how long that took, and the event loop's longest pause."""
    pauses = [0.0]
    pulse = asyncio.ensure_future(beat(pauses))
    began, cpu = time.perf_counter(), time.process_time()
    while (found := await router.answer(node, request)).looking:  # type: ignore[union-attr]
        await asyncio.sleep(0.2)
    line(f"{what}: wall", time.perf_counter() - began, "s", bar_s)
    line(f"{what}: processor", time.process_time() - cpu, "s", None)
    line(f"{what}: longest pause of the event loop", 1000 * max(pauses), "ms", None)
    pulse.cancel()
    assert isinstance(found, FeedbackReply)
    return found


async def beat(pauses: list[float]) -> None:
    while True:
        began = time.perf_counter()
        await asyncio.sleep(0.005)
        pauses.append(time.perf_counter() - began - 0.005)


async def fill(path: Path, kinds: list[tuple[str, str]], checkpoints: int, rows: int) -> None:
    """Store a watch whose checkpoints are measured on all kinds."""
    store = await open_store(path)
    selection = json.dumps({"suite": "nightly"})
    async with store.write() as db:
        await add_session(db, "bench", selection, "bench", ("0", ""))
        values = {"name": "run", "root": "/run", "inode": 1, "state": "paused", "who": "bench", "created": "",
                  "rules": "{}", "selection": selection}  # fmt: skip
        await add_watch(db, values)
        await set_pin(db, "run-*", "run-1", "bench")
        for number in range(checkpoints):
            jobs = [
                await add_job(db, "bench", replace(
                    NEW_JOB, model=f"run-{number + 1}", benchmark=name, kind=kind, grade_key=f"k{number}-{name}",
                    generation_key=f"g{number}-{name}", total=rows, repeats=1, stages=1, rows_sha256=name,
                ))
                for name, kind in kinds
            ]  # fmt: skip
            columns = {
                "watch": 1, "name": f"rwkv-{number + 1}.pth", "identity": f"1:{number}:1:1", "modified_ns": number,
                "step": number + 1, "sha256": f"{number:064x}", "state": "done", "model": f"run-{number + 1}",
                "jobs": json.dumps(jobs), "seen": "", "ready": "x", "finished": "x", "feedback": "x",
            }  # fmt: skip
            await add_watched(db, [columns])
    await store.close()
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("PRAGMA synchronous = OFF")
        db.execute("BEGIN")
        for job, grade_key, *names in list(db.execute("SELECT id, grade_key, model, benchmark, kind FROM job")):
            model, benchmark, kind = names
            right = verdicts(benchmark, int(model[4:]), checkpoints, rows)
            add_samples(db, job, grade_key, (model, benchmark, kind), right)
        db.execute("UPDATE job SET state = 'done', done = total, stages_done = total, started = 'x', finished = 'x'")
        db.execute("COMMIT")
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def verdicts(benchmark: str, step: int, checkpoints: int, rows: int) -> list[int]:
    """Return which rows a checkpoint has right: rows are hard for all checkpoints alike, and there is luck."""
    skill = 0.3 + 0.4 * min(1.0, 2 * step / checkpoints)
    hard, luck = random.Random(benchmark), random.Random(f"{benchmark} {step}")
    return [int(hard.random() + luck.gauss(0, 0.15) < skill) for _ in range(rows)]


def add_samples(
    db: sqlite3.Connection, job: int, grade_key: str, names: tuple[str, str, str], right: list[int]
) -> None:
    """Store the samples of a job and its score."""
    prompt, answer = (
        "Question: how many apples are left? " * 8,
        "We have 17 apples and give away 5, so 12 are left. " * 4,
    )
    db.executemany("INSERT INTO prompt VALUES (?, ?, 0, ?)", ((job, row, prompt) for row in range(len(right))))
    db.executemany(
        "INSERT INTO completion (job, row, repeat, stage, attempt, ids, text, stop, logprobs, prompt_tokens, "
        "cached_tokens, generated_tokens, engine, seconds) VALUES (?, ?, 0, 0, 1, '[1,2]', ?, 'eos', '[]', 60, 0, 40, "
        "'e1', 0.5)",
        ((job, row, answer) for row in range(len(right))),
    )
    db.executemany(
        "INSERT INTO sample (job, row, repeat, attempt) VALUES (?, ?, 0, 1)", ((job, row) for row in range(len(right)))
    )
    first = db.execute("SELECT MIN(number) FROM sample WHERE job = ?", (job,)).fetchone()[0]
    db.executemany(
        "INSERT INTO grade (sample, grade_key, value, reason, expected, extracted, detail) "
        "VALUES (?, ?, ?, ?, ?, ?, '')",
        ((first + row, grade_key, float(value), "right" if value else "wrong", str(row % 7), str(row % 5))
         for row, value in enumerate(right)),
    )  # fmt: skip
    db.execute("INSERT INTO score VALUES (?, ?, 'x', ?)", (job, grade_key, view(job, names, right)))


def view(job: int, names: tuple[str, str, str], right: list[int]) -> str:
    """Return the score of a job as JSON."""
    share = sum(right) / len(right)
    spread = 1.96 * (share * (1 - share) / len(right)) ** 0.5
    model, benchmark, kind = names
    found: Any = msgspec.json.decode(score().replace("''", "'"), type=ScoreView)
    metric = MetricView(value=share, stderr=spread / 1.96, ci_low=share - spread, ci_high=share + spread)
    return msgspec.json.encode(msgspec.structs.replace(
        found, job=f"j{job}", model=model, benchmark=benchmark, kind=kind, primary="accuracy",
        metrics={"accuracy": metric}, n=len(right), rows=len(right), repeats=1, scored=len(right), finished="x",
        provenance={"rows_sha256": benchmark, "configuration": {"kind": kind, "stages": [], "repeats": 1}},
    )).decode()  # fmt: skip


if __name__ == "__main__":
    main()
