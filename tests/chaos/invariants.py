"""What must be true of a node after a night of faults: read from its files, its store and the machine's processes."""

import asyncio
import fcntl
import json
import os
import sqlite3
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from world import World, said

ENDS = {"done", "failed", "stopped", "held"}
LOOKED_AT = ("job", "score", "sample", "grade", "attempt", "engine")
MARGIN_S = 5.0
"""A verdict that arrived so shortly before the daemon ended may not have been stored yet."""


def violated(world: World, wanted: dict[str, int]) -> list[str]:
    """Every rule that does not hold, as a sentence. `wanted`: job -> samples."""
    with closing(store_of(world)) as store:
        store.row_factory = sqlite3.Row
        rules = [
            *ends(store, wanted),
            *once(store),
            *generated_once(world),
            *attempts_closed(store),
            *leases_free(store, world),
        ]
    return [*rules, *judged_once(world), *nothing_left(world)]


def store_of(world: World) -> sqlite3.Connection:
    """The store; of one in PostgreSQL a copy of what the rules look at."""
    if world.server is None:
        return sqlite3.connect(world.home / "store.sqlite")
    copy = sqlite3.connect(":memory:")
    for name, (columns, rows) in asyncio.run(tables(world.node.settings["RWKVCTL_STORE"])).items():
        copy.execute(f"CREATE TABLE {name} ({', '.join(columns)})")
        copy.executemany(f"INSERT INTO {name} VALUES ({', '.join('?' * len(columns))})", rows)
    return copy


async def tables(url: str) -> dict[str, tuple[list[str], list[tuple[object, ...]]]]:
    """(columns, rows) of the tables that rules look at."""
    import asyncpg  # chaos on SQLite needs none

    found = {}
    connection = await asyncpg.connect(url)
    for name in LOOKED_AT:
        asked = await connection.prepare(f"SELECT * FROM {name}")
        found[name] = [one.name for one in asked.get_attributes()], [tuple(row) for row in await asked.fetch()]
    await connection.close()
    return found


def ends(store: sqlite3.Connection, wanted: dict[str, int]) -> Iterator[str]:
    """Every acknowledged job is there, in an end state; a finished one has all samples, graded, and one score."""
    rows = {f"j{row['id']}": row for row in store.execute("SELECT * FROM job")}
    for name, total in wanted.items():
        row = rows.get(name)
        if row is None:
            yield f"{name} was acknowledged and is not in the store"
        elif row["state"] not in ENDS:
            yield f"{name} is {row['state']}: no end"
        elif row["state"] != "done":
            yield f"{name} is {row['state']}: {row['reason']} {row['detail']}"
        elif (row["done"], row["total"]) != (total, total):
            yield f"{name} is done with {row['done']} of {row['total']} samples, and {total} were asked for"
    scores = Counter(f"j{row['job']}" for row in store.execute("SELECT job FROM score"))
    for name, row in rows.items():
        if scores[name] != (row["state"] == "done"):
            yield f"{name} is {row['state']} and has {scores[name]} scores"


def once(store: sqlite3.Connection) -> Iterator[str]:
    """One sample a (row, repeat), one grade a sample, as many as the job says."""
    for row in store.execute(
        "SELECT j.id, j.done, COUNT(DISTINCT s.number) AS samples, COUNT(g.sample) AS grades FROM job j "
        "LEFT JOIN sample s ON s.job = j.id LEFT JOIN grade g ON g.sample = s.number AND g.grade_key = j.grade_key "
        "GROUP BY j.id, j.done"
    ):
        if not row["done"] == row["samples"] == row["grades"]:
            yield f"j{row['id']} counts {row['done']} samples, has {row['samples']} and {row['grades']} grades"


def generated_once(world: World) -> Iterator[str]:
    """No stage that was written down was generated again."""
    for folder in sorted(world.home.glob("runs/j*")):
        places = Counter(world.node.stage_lines(folder.name))
        again = {place: count for place, count in places.items() if count > 1}
        if again:
            yield f"{folder.name} generated {len(again)} stages more than once: {said(list(again.items())[:3])}"


def attempts_closed(store: sqlite3.Connection) -> Iterator[str]:
    """No attempt is believed to run."""
    for row in store.execute("SELECT job, number FROM attempt WHERE state = 'running'"):
        yield f"attempt {row['number']} of j{row['job']} is stored as running"


def leases_free(store: sqlite3.Connection, world: World) -> Iterator[str]:
    """No engine is believed to live, and nobody holds a lease's lock."""
    for row in store.execute("SELECT id, state FROM engine WHERE state NOT IN ('gone', 'failed')"):
        yield f"e{row['id']} is stored as {row['state']}"
    for path in [*world.home.rglob("lease-*.lock"), *world.home.rglob("leases/*")]:
        descriptor = os.open(path, os.O_RDWR)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield f"{path.name} is still locked"
        finally:
            os.close(descriptor)


def judged_once(world: World) -> Iterator[str]:
    """Nothing was paid for again that could have been stored."""
    answered: dict[str, float] = {}
    for asked in world.judge.asked:
        before = answered.get(asked.prompt)
        excused = before is not None and any(before - MARGIN_S <= death <= before + MARGIN_S for death in world.deaths)
        if before is not None and asked.at > before + MARGIN_S and not excused:
            yield f"the judge was asked again {asked.at - before:.0f} s after it had answered: {asked.prompt[-80:]!r}"
        if asked.answered_at is not None:
            answered[asked.prompt] = asked.answered_at


def nothing_left(world: World) -> Iterator[str]:
    """No process, socket, descriptor or temporary file remains of work that is over."""
    for pid, command in world.processes().items():
        yield f"pid {pid} is left: {command}"
    for path in [*world.home.rglob("*.tmp"), *(world.folder / "tmp").iterdir(), *world.home.glob("run/e*.sock")]:
        yield f"{path} is left"
    held = [target(path) for path in Path(f"/proc/{world.daemon_pid}/fd").iterdir()]
    workers = [name for name in held if name.startswith("anon_inode:[pidfd]") or "/runs/" in name]
    if workers:
        yield f"the daemon still holds {said(workers)}"
    if len(held) > 64:
        yield f"the daemon holds {len(held)} descriptors"


def target(path: Path) -> str:
    try:
        return str(path.readlink())
    except OSError:
        return ""


def settled(world: World) -> bool:
    """Whether nothing runs any more: engines are unloaded some seconds after the last job."""
    status = world.node.api.get("/v1/status").value
    return not status["engines"] and not world.processes()


def wait_until_settled(world: World, timeout_s: float) -> None:
    """Or give up: the rules say what is left."""
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline and not settled(world):
        time.sleep(0.3)


def reference_differs(world: World, other: World, pairs: dict[str, str]) -> Iterator[str]:
    """A job that was disturbed answers what an undisturbed one answers."""
    for name, undisturbed in pairs.items():
        ours, theirs = world.node.answers_of(name), other.node.answers_of(undisturbed)
        different = [place for place in theirs if ours.get(place) != theirs[place]]
        if different or len(ours) != len(theirs):
            yield f"{name} answers otherwise than an undisturbed run at {json.dumps(different[:3])}"
