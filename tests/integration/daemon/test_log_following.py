"""Following logs that grow, stand still, are cut, deleted or rotated by somebody; by many readers at once."""

import asyncio
import concurrent.futures
import contextlib
import json
import os
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from waiting import LIMIT_S, soon

from rwkv_daemon.changes.event_bus import Bus
from rwkv_daemon.changes.records import Records
from rwkv_daemon.logs import log_reader, log_streams, tailer
from rwkv_daemon.logs.log_reader import LogPiece
from rwkv_daemon.logs.log_streams import LogFollower
from rwkv_daemon.logs.tailer import LogTail, LogTails
from rwkv_daemon.rules.shim_record import ShimRecord
from rwkv_daemon.scheduling.live_engines import Engines
from rwkv_daemon.scheduling.node_work import NodeWork
from rwkv_daemon.scheduling.running_jobs import RunnerHandle, RunningJobs
from rwkv_daemon.scheduling.waiting_jobs import WaitingJobs
from rwkv_daemon.store import Store, open_store
from rwkv_daemon.workers.worker_process import Worker
from rwkvctl.protocol.events import Event
from rwkvctl.settings import config


class Writer:
    """A worker's log, held open as a worker holds it."""

    def __init__(self, path: Path) -> None:
        self.path, self.alive = path, True
        self.descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def say(self, text: str) -> None:
        os.write(self.descriptor, text.encode())

    def end(self) -> None:
        self.alive = False
        os.close(self.descriptor)


class Reader:
    """A follower as `LogFollower.live` is one: takes pieces at its own pace."""

    def __init__(self) -> None:
        self.text, self.offset, self.read_itself = "", 0, 0

    async def follow(self, tails: LogTails, writer: Writer, pause: Callable[[], float] = lambda: 0.0) -> None:
        with tails.follow(writer.path, lambda: writer.alive, lambda _event: False) as tail:
            while True:
                turned, over = tail.turned, tail.over
                in_memory = tail.after(self.offset) is not None
                piece = await tail.next(self.offset)
                self.read_itself += bool(piece.data) and not in_memory
                if piece.data:
                    self.text += piece.data.decode()
                    self.offset = piece.end
                    await asyncio.sleep(pause())
                elif over:
                    return
                else:
                    await turned.wait()


@contextlib.asynccontextmanager
async def keeping(tails: LogTails, bus: Bus | None = None) -> AsyncIterator[asyncio.TaskGroup]:
    """The task that reads, for as long as it is needed."""
    async with asyncio.timeout(LIMIT_S), asyncio.TaskGroup() as tasks:
        keeper = tasks.create_task(tails.keep_up(bus or Bus()))
        async with asyncio.TaskGroup() as readers:
            yield readers
        keeper.cancel()


async def until(condition: Callable[[], Any]) -> None:
    await soon(condition, "the readers are there")


@pytest.fixture(autouse=True)
def often() -> Iterator[None]:
    patch = pytest.MonkeyPatch()
    patch.setattr(tailer, "LOOK_S", 0.02)
    yield
    patch.undo()


async def test_many_followers_share_one_reader_and_all_get_every_line(tmp_path: Path) -> None:
    writer, tails, readers = Writer(tmp_path / "log-1.txt"), LogTails(), [Reader() for _ in range(200)]
    writer.say("before\n")
    async with keeping(tails) as tasks:
        for reader in readers:
            tasks.create_task(reader.follow(tails, writer))
        await until(lambda: all(reader.text == "before\n" for reader in readers))
        (tail,) = tails.followed.values()
        assert tail.followers == 200
        for number in range(50):
            writer.say(f"line {number} ü\n")
            await asyncio.sleep(0)
        await until(lambda: readers[0].text.endswith("line 49 ü\n"))
        writer.end()
    expected = "before\n" + "".join(f"line {number} ü\n" for number in range(50))
    assert {reader.text for reader in readers} == {expected}
    assert max(reader.read_itself for reader in readers) <= 2, "what was added came from memory"


async def test_a_slow_follower_loses_nothing_and_holds_up_nobody(tmp_path: Path) -> None:
    writer, tails, slow, quick = Writer(tmp_path / "log-1.txt"), LogTails(), Reader(), Reader()
    size = 3 * tailer.KEPT_BYTES
    async with keeping(tails) as tasks:

        async def held_up() -> None:
            await until(lambda: quick.offset >= size)
            await slow.follow(tails, writer)

        tasks.create_task(quick.follow(tails, writer))
        tasks.create_task(held_up())
        await until(lambda: tails.followed)
        for _ in range(size // 4096):
            writer.say("x" * 4095 + "\n")
        await until(lambda: quick.offset >= size)
        (tail,) = tails.followed.values()
        assert sum(len(piece.data) for piece in tail.kept) <= tailer.KEPT_BYTES + log_reader.CHUNK_BYTES
        writer.end()
    assert slow.text == quick.text
    assert len(slow.text) == size


@pytest.mark.parametrize("what", ["deleted", "renamed", "replaced"])
async def test_a_log_that_is_taken_away_under_its_worker_is_followed_to_its_end(tmp_path: Path, what: str) -> None:
    writer, tails, reader = Writer(tmp_path / "log-1.txt"), LogTails(), Reader()
    async with keeping(tails) as tasks:
        tasks.create_task(reader.follow(tails, writer))
        writer.say("one\n")
        await until(lambda: reader.text)
        if what == "deleted":
            writer.path.unlink()
        else:
            writer.path.rename(tmp_path / "log-1.txt.1")
        if what == "replaced":
            writer.path.write_text("of somebody else\n")
        writer.say("two\n")
        await until(lambda: "two" in reader.text)
        writer.end()
    assert reader.text == "one\ntwo\n"


async def test_a_log_that_somebody_cut_is_followed_from_its_new_beginning(tmp_path: Path) -> None:
    writer, tails, reader = Writer(tmp_path / "log-1.txt"), LogTails(), Reader()
    async with keeping(tails) as tasks:
        tasks.create_task(reader.follow(tails, writer))
        writer.say("a long beginning\n")
        await until(lambda: reader.text)
        os.truncate(writer.path, 0)
        await until(lambda: next(iter(tails.followed.values())).size == 0)
        writer.say("new\n")
        await until(lambda: reader.text.endswith("new\n"))
        writer.end()
    assert reader.text == "a long beginning\nnew\n"


async def test_a_log_that_is_not_there_yet_is_waited_for(tmp_path: Path) -> None:
    path, tails, reader = tmp_path / "log-1.txt", LogTails(), Reader()
    writer = Writer(tmp_path / "elsewhere")
    writer.path = path
    async with keeping(tails) as tasks:
        tasks.create_task(reader.follow(tails, writer))
        await until(lambda: tails.followed)
        (tmp_path / "elsewhere").rename(path)
        writer.say("here\n")
        await until(lambda: reader.text)
        writer.end()
    assert reader.text == "here\n"


async def test_followers_that_are_gone_leave_nothing_open(tmp_path: Path) -> None:
    tails = LogTails()
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
    readers = [Reader() for _ in range(20)]
    async with keeping(tails) as tasks:
        for number, reader in enumerate(readers):
            writer = Writer(tmp_path / f"log-{number}.txt")
            writer.say("x\n")
            writer.end()
            tasks.create_task(reader.follow(tails, writer))
        await until(lambda: all(reader.text for reader in readers) and not tails.followed)
    assert len(os.listdir("/proc/self/fd")) <= before + 1  # noqa: PTH208


async def test_what_happened_to_the_job_is_told_with_its_log(tmp_path: Path) -> None:
    tails, bus = LogTails(), Bus()
    path = tmp_path / "log-1.txt"
    async with keeping(tails, bus):
        with tails.follow(path, lambda: True, lambda event: event.job == "j1") as tail:
            await until(lambda: bus.followers)
            for job in ("j1", "j2"):
                bus.publish([Event(kind="job.state", at="now", seq=1, job=job, text=f"{job}: stopping")])
            await until(lambda: tail.said)
            assert [event.text for event in tail.said] == ["j1: stopping"]


async def test_the_last_events_are_there_before_a_log_is_over(tmp_path: Path) -> None:
    """A follower that is awake in the middle of a look leaves when it is over: it would miss how its job ended."""
    tails, bus, before = LogTails(), Bus(), []
    with bus.follow() as queue, tails.follow(tmp_path / "log-1.txt", lambda: False, lambda _event: True) as tail:
        tail.concerns = lambda _event: not before.append(tail.over)
        bus.publish([Event(kind="job.state", at="now", seq=1, job="j1", text="j1: done")])
        await tails.look(queue)
        assert (before, [event.text for event in tail.said], tail.over) == ([False], ["j1: done"], True)


def test_pieces_in_memory_are_those_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "log-1.txt"
    path.write_text("one\ntwo\n")
    tail = LogTail(path, lambda: True, lambda _event: False)
    tail.look()
    with path.open("a") as file:
        file.write("three\nfour\n")
    tail.look()
    assert tail.after(0) is None
    assert tail.after(8) == LogPiece(8, b"three\nfour\n")
    assert tail.after(14) == LogPiece(14, b"four\n")
    assert tail.after(19) is None
    assert tail.read(0) == LogPiece(0, path.read_bytes())
    tail.close()


def lines_of(node: Any, target: str, **query: Any) -> list[dict[str, Any]]:
    """Every piece of a log as the daemon sends it."""
    return [json.loads(line) for line in node.api.stream(f"/v1/logs/{target}", LIMIT_S, **query)]


def test_the_log_of_a_real_job_is_followed_through_a_death_to_its_end(node: Any, tools: Any) -> None:
    node.engines_do(answers=3)
    (name,) = node.dispatch(limit=6)
    node.wait_until_some(name, 3)
    assert tools.kill_worker(node.runner_record(name))
    node.engines_do()
    pieces = lines_of(node, name, tail=1000, follow=True)
    assert node.job(name)["state"] == "done"
    assert node.job(name)["attempt"] == 2
    files = [node.home / "runs" / name / f"log-{attempt}.txt" for attempt in (1, 2)]
    said = "".join(piece["text"] for piece in pieces if piece["source"] == name)
    assert said.endswith(files[1].read_text())
    told = "".join(piece["text"] for piece in pieces if piece["source"] == "daemon")
    assert [word in told for word in ("starting", "again in", "done", "e1 builtin")] == [True] * 4
    assert lines_of(node, name, since="2100-01-01T00:00:00Z") == []
    stamped = lines_of(node, name, tail=10, timestamps=True)
    assert all(piece["at"] for piece in stamped)
    assert "".join(piece["text"] for piece in stamped if piece["source"] == name) == files[1].read_text()
    engine = lines_of(node, "e1", tail=3)
    assert "e1 builtin is ready on cpu:0" in "".join(piece["text"] for piece in engine)


def work_of(home: Path, store: Store) -> NodeWork:
    """The records of a node with nothing to do."""
    return NodeWork(
        Records(config.load(environ={"RWKVCTL_HOME": str(home)}), store), WaitingJobs(), RunningJobs(), Engines()
    )


async def test_what_happens_while_nobody_listens_is_told_with_the_next_event(tmp_path: Path) -> None:
    """Between two attempts no log is followed, and the bus is not heard."""
    store = await open_store(tmp_path / "store.sqlite")
    tail = LogTail(tmp_path / "log", lambda: False, lambda _event: True)
    rows = [(1, 1, 1, "starting"), (2, 1, None, "again in 1 s"), (3, None, 1, "e1 builtin is ready"), (4, 1, 1, "done")]
    columns = "seq, job, engine, text, at, kind, session, data"
    async with store.write() as db:
        for row in rows:
            await db.execute(f"INSERT INTO event ({columns}) VALUES (?, ?, ?, ?, 'now', 'k', '', '{{}}')", row)
    log = LogFollower(work_of(tmp_path, store), LogTails(), "j1", 1, seen=1)
    tail.said.append(Event(kind="job.state", at="now", seq=4, job="j1", text="done"))
    tail.over = True
    assert [event.text async for event in log.live(tail, 0)] == ["again in 1 s", "e1 builtin is ready", "done"]
    assert (log.seen, await log.happened()) == (4, [])
    await store.close()


async def test_a_jobs_log_has_nothing_of_other_jobs_and_an_engines_log_names_them(tmp_path: Path) -> None:
    store = await open_store(tmp_path / "store.sqlite")
    rows = [(1, 1, 1, "m b k: starting"), (2, 2, 1, "m b k: starting"), (3, None, 1, "e1 m is ready"),
            (4, 2, None, "m b k: done"), (5, 12, 1, "j12 goes to e1")]  # fmt: skip
    async with store.write() as db:
        for row in rows:
            await db.execute(
                "INSERT INTO event (seq, job, engine, text, at, kind, session, data) "
                "VALUES (?, ?, ?, ?, 'now', 'k', '', '{}')",
                row,
            )
    record = ShimRecord(shim=1, shim_start=1, pid=2, pid_start=2, boot_id="b")
    work, worker = work_of(tmp_path, store), Worker("u", tmp_path / "record", record, -1)
    work.running.runners[1] = RunnerHandle(job=1, attempt=1, worker=worker, engine=1)
    log = LogFollower(work, LogTails(), "j1", 1)
    assert [event.text for event in await log.happened()] == ["m b k: starting", "e1 m is ready"]
    told = [Event(kind="k", at="now", seq=seq, job=f"j{job}" if job else "", engine="e1" if engine else "", text=text)
            for seq, job, engine, text in rows]  # fmt: skip
    assert [event.seq for event in told if log.concerns(event)] == [1, 3]
    engine = LogFollower(work, LogTails(), "e1", 1)
    lines = ["j1 m b k: starting", "j2 m b k: starting", "e1 m is ready", "j12 goes to e1"]
    assert [event.text for event in await engine.happened()] == lines
    assert log_streams.told(told[3]).text == "now j2 m b k: done\n"
    await store.close()


@pytest.fixture(scope="module")
def shared(module_node: Any) -> Any:
    """A node that each test leaves with its queue open."""
    return module_node().start()


def test_a_job_may_be_followed_before_it_is_started(shared: Any) -> None:
    """Whether it waits in the queue, or has just been taken from it."""
    node = shared
    node.api.post("/v1/pause", {"queue": True})
    names = [node.dispatch(limit=5, seed=seed)[0] for seed in (1, 2)]
    with concurrent.futures.ThreadPoolExecutor() as pool:
        early = pool.submit(lines_of, node, names[0], follow=True)
        stream = map(json.loads, node.api.stream("/v1/events", LIMIT_S))
        node.api.post("/v1/pause", {"queue": True, "off": True})
        next(one for one in stream if one.get("job") == names[1] and one["text"].endswith("starting"))
        late = pool.submit(lines_of, node, names[1], follow=True)
        for name, pieces in zip(names, (early.result(), late.result()), strict=True):
            said = "".join(piece["text"] for piece in pieces if piece["source"] == name)
            assert said == (node.home / "runs" / name / "log-1.txt").read_text() != ""


def test_what_was_told_while_nobody_listened_is_told_to_who_comes_back(shared: Any) -> None:
    node = shared
    (name,) = node.dispatch(limit=5)
    node.wait_for_state(name, "done")
    pieces = lines_of(node, name, tail=1000)
    told = [piece for piece in pieces if piece["source"] == "daemon"]
    offset = next(piece["offset"] for piece in pieces if piece.get("offset"))
    assert lines_of(node, name, offset=offset, attempt=1) == []
    again = lines_of(node, name, offset=offset, attempt=1, since=told[1]["at"])
    assert [piece["text"] for piece in again] == [piece["text"] for piece in told if piece["at"] > told[1]["at"]]


def test_the_daemons_own_log_is_followed(shared: Any) -> None:
    node = shared
    node.api.post("/v1/pause", {"queue": True, "why": "one"})
    stream = (json.loads(line)["text"] for line in node.api.stream("/v1/logs/daemon", LIMIT_S, tail=1, follow=True))
    assert "is paused by" in next(stream)
    node.api.post("/v1/pause", {"queue": True, "why": "another"})
    assert any("another" in text for text in stream)
    node.api.post("/v1/pause", {"queue": True, "off": True})
