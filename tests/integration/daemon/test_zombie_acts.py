"""The last moment of an act, on real processes: another process under the same pid, a pid that is nobody's, memory
that does not come back, and GPUs that nothing can free."""

import asyncio
import contextlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from waiting import LIMIT_S, soon, wait_for

from rwkv_daemon.catalogue.contents import NodeBenchmarks
from rwkv_daemon.changes import caller
from rwkv_daemon.changes.caller import the_daemon
from rwkv_daemon.gpus import condition_store
from rwkv_daemon.gpus.zombies import gpu_holders, reaper, reaper_task, zombie_requests
from rwkv_daemon.gpus.zombies.act_record import ReapAct
from rwkv_daemon.gpus.zombies.classify import STUCK_S
from rwkv_daemon.gpus.zombies.kill_act import GoneError, NotTouchedError, seize
from rwkv_daemon.gpus.zombies.process_tracker import ProcessTracker, StoredAttempt
from rwkv_daemon.gpus.zombies.procfs import Machine
from rwkv_daemon.node import Node
from rwkv_daemon.rules import roles
from rwkv_daemon.rules.gpu_facts import Gpu, GpuProcess, GpuReading
from rwkv_daemon.store import Store, open_store
from rwkv_daemon.store.queries.zombie_acts import (
    add_step,
    attempts_of,
    by_itself_since,
    history,
    outcome_of,
    unfinished,
)
from rwkv_daemon.store.wall_time import now
from rwkvctl.protocol.errors import RefusedError
from rwkvctl.protocol.zombies import ReapRequest
from rwkvctl.settings import config

GPU = "GPU-1"
MARKER = "11111111-2222-3333-4444-555555555555"
LAST_PID = Path("/proc/sys/kernel/ns_last_pid")


def reading(*pids: int, **values: Any) -> GpuReading:
    """GPU 0 with these processes of a GiB each."""
    usual = {"id": GPU, "index": 0, "minor": 0, "utilisation": 0.0, "memory_used_bytes": len(pids) * 2**30}
    return GpuReading(**usual | {"processes": tuple(GpuProcess(pid=pid, bytes=2**30) for pid in pids)} | values)  # type: ignore[arg-type]


@pytest.fixture
async def node(tmp_path: Path, plant: Any) -> AsyncIterator[Node]:
    """A node in this process, to whom the test's own processes are strangers: no daemon is their parent."""
    settings = config.load({"home": str(tmp_path / "home")}, {"RWKVCTL_STOP_TERM_S": "0.2", "HOME": str(tmp_path)})
    store = await open_store(settings.store)
    own = Machine().pid_namespace(os.getpid()) or 0
    made = Node.of(settings, store, NodeBenchmarks.open(settings))
    made.gpus.tracker = ProcessTracker(Machine(dev=plant.dev, first_namespace=own))
    condition_store.remember(made.gpus, reading())
    see(made)
    yield made
    await store.close()


def see(node: Node, *pids: int, **values: Any) -> None:
    """One look at the GPU, as the watch makes it."""
    seen = reading(*pids, **values)
    found = Gpu(reading=seen, use="free", holders=gpu_holders.look(node.work, node.gpus, seen))
    node.gpus.by_id[GPU] = condition_store.conditioned(found, node.gpus.watch_state.records[GPU])
    node.gpus.watch_state.seen_at, node.gpus.watch_state.self_test = time.monotonic(), ""


def orphaned(node: Node, pid: int) -> ReapAct:
    """The decision to end a process that was seen to be an orphan."""
    node.gpus.tracker.learn({MARKER: StoredAttempt("e1", "ended", None)})
    see(node, pid)
    tracked = next(one for one in node.gpus.tracker.all() if one.process.pid == pid)
    assert tracked.rule.name == "orphan", tracked.rule
    return reaper_task.act_of(tracked, the_daemon(), (), automatic=True)


def adopted(plant: Any, **options: Any) -> int:
    """A process that this one is not the parent of: it would be taken for our sampler."""
    escape = "child = os.fork()\nif child: print('ready', child, flush=True); os._exit(0)\n"
    return int(plant.start(escape + options.pop("does", ""), marker=MARKER, **options))


async def test_the_right_process_is_ended(node: Node, plant: Any) -> None:
    pid = adopted(plant)
    act = orphaned(node, pid)
    run = asyncio.ensure_future(reaper.carry_out(node.work, node.gpus, act))
    while not run.done():
        if not plant.lives(pid):
            see(node)
        await asyncio.sleep(0.05)
    assert (await run).word == "freed"
    assert await unfinished(node.records.store) == []


async def test_another_process_under_the_same_pid_lives(node: Node, plant: Any) -> None:
    try:
        LAST_PID.write_text(LAST_PID.read_text())
    except OSError:
        pytest.skip("needs root: to choose a pid")
    pid = adopted(plant)
    act = orphaned(node, pid)
    old = plant.pidfds[pid]
    plant.end(pid)
    innocent = born_as(pid)
    try:
        with pytest.raises(NotTouchedError, match="not the process that was judged: its start ticks"):
            seize(node.work, node.gpus, act)
        with pytest.raises(ProcessLookupError):
            signal.pidfd_send_signal(old, signal.SIGKILL)
        outcome = await reaper.carry_out(node.work, node.gpus, act)
        assert outcome.word == "not-touched"
        assert innocent.poll() is None
    finally:
        innocent.kill()
        innocent.wait()


def born_as(pid: int) -> subprocess.Popen[bytes]:
    """A process with this very pid. Others may take it first: then it is tried again, when that one has ended."""
    for _ in range(500):
        with contextlib.suppress(OSError):
            LAST_PID.write_text(str(pid - 1))
        child = subprocess.Popen(["sleep", "1000"])
        if child.pid == pid:
            return child
        child.kill()
        child.wait()
        wait_for(lambda: not Path(f"/proc/{pid}").exists(), f"pid {pid} is nobody's")
    pytest.fail(f"pid {pid} could not be had")


CHANGES: dict[str, tuple[Callable[[Any], Any], str]] = {
    "another user": (lambda process: replace(process, uids=(1, 1, 1)), "its uids"),
    "another program": (lambda process: replace(process, exe_id=(1, 1)), "its exe"),
    "another boot": (lambda process: replace(process, boot_id="before"), "its boot id"),
    "another cgroup": (lambda process: replace(process, cgroups=("/moved",)), "its cgroups"),
    "another namespace": (lambda process: replace(process, pid_namespace=1), "its pid namespace"),
}


@pytest.mark.parametrize("name", CHANGES)
async def test_whatever_has_changed_forbids_it(node: Node, plant: Any, name: str) -> None:
    change, says = CHANGES[name]
    pid = adopted(plant)
    act = orphaned(node, pid)
    with pytest.raises(NotTouchedError, match=says):
        seize(node.work, node.gpus, replace(act, process=change(act.process)))
    assert plant.lives(pid)


async def test_one_that_has_closed_the_device_is_left_alone(node: Node, plant: Any) -> None:
    """NVML may still list it: its memory is gone with the file, and so is the reason."""
    pid = adopted(plant, does="for file in files: os.close(file)")
    # it says that it is ready before it does that
    await soon(lambda: not node.gpus.tracker.machine.devices(pid), "it has closed the device")
    act = orphaned(node, pid)
    with pytest.raises(NotTouchedError, match="no device file of a GPU open"):
        seize(node.work, node.gpus, act)


async def test_process_1_is_never_signalled(node: Node, plant: Any) -> None:
    act = orphaned(node, adopted(plant))
    with pytest.raises(NotTouchedError, match="never signalled"):
        seize(node.work, node.gpus, replace(act, process=replace(act.process, pid=1)))


async def test_one_that_ended_by_itself_is_not_touched(node: Node, plant: Any) -> None:
    pid = adopted(plant)
    act = orphaned(node, pid)
    plant.end(pid)
    outcome = await reaper.carry_out(node.work, node.gpus, act)
    assert (outcome.word, "ended by itself" in outcome.text) == ("not-touched", True)


async def test_one_that_is_dead_and_not_collected_has_ended(node: Node, plant: Any) -> None:
    """Its parent may never collect it: executable and cgroup cannot be read any more, and nothing is left to end."""
    pid = plant.start("child = os.fork()\nif child: print('ready', child, flush=True); time.sleep(1000)", marker=MARKER)
    act = orphaned(node, pid)
    signal.pidfd_send_signal(plant.pidfds[pid], signal.SIGKILL)
    await soon(lambda: not plant.lives(pid), "it is dead")
    with pytest.raises(GoneError):
        seize(node.work, node.gpus, act)


async def test_nothing_is_called_freed_before_nvml_agrees(
    node: Node, plant: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process is gone and NVML goes on listing it: the GPU is closed, and the outcome says so."""
    monkeypatch.setattr(reaper, "RELEASE_S", 3.0)
    pid = adopted(plant)
    act = orphaned(node, pid)
    run = asyncio.ensure_future(reaper.carry_out(node.work, node.gpus, act))
    while not run.done():
        see(node, pid)
        await asyncio.sleep(0.05)
    outcome = await run
    assert outcome.word == "not-freed"
    assert not plant.lives(pid)
    assert node.gpus.by_id[GPU].condition == "quarantined"
    assert [row["outcome"] for row in await history(node.records.store, 9)] == ["not-freed"]


async def test_an_unwritable_store_sends_no_signal(node: Node, plant: Any) -> None:
    pid = adopted(plant)
    act = orphaned(node, pid)
    async with node.records.store.write() as db:
        await db.execute("ALTER TABLE reap_event RENAME TO elsewhere")
    await reaper_task.run(node.work, node.gpus, act, resumed=False)
    assert "cannot be written" in (await act.done).text
    assert plant.lives(pid)


async def test_a_ghost_closes_its_gpu_when_it_lasts(node: Node) -> None:
    nobody = 4_000_001
    see(node, nobody)
    (ghost,) = node.gpus.by_id[GPU].holders
    assert (ghost.cls, "no such process" in ghost.why) == ("ghost", True)
    await reaper_task.close_gpus(node.records, node.engines, node.gpus)
    assert node.gpus.by_id[GPU].condition == "ok"
    node.gpus.tracker.absent[GPU, nobody] -= reaper_task.GHOST_S
    await reaper_task.close_gpus(node.records, node.engines, node.gpus)
    assert node.gpus.by_id[GPU].condition == "quarantined"
    assert str(nobody) in node.gpus.by_id[GPU].reason
    see(node)
    assert node.gpus.tracker.absent == {}


async def test_a_process_that_is_stuck_closes_its_gpu_and_is_not_signalled(
    node: Node, plant: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No process can be made to hang in a driver here: /proc is read through a machine that says so."""
    pid = adopted(plant)
    whole = Machine.snapshot

    def hung(machine: Machine, asked: int) -> Any:
        found = whole(machine, asked)
        return None if found is None else replace(found, stat=replace(found.stat, state="D"), tasks=("D",))

    plain = Machine.stat
    monkeypatch.setattr(Machine, "snapshot", hung)
    monkeypatch.setattr(Machine, "stat", lambda machine, asked: one_in_d(plain(machine, asked)))
    node.gpus.tracker.learn({MARKER: StoredAttempt("e1", "ended", None)})
    for _ in range(2):
        see(node, pid)
    assert node.gpus.by_id[GPU].holders[0].cls == "orphan"
    node.gpus.tracker.by_pid[pid].blocked_since = time.monotonic() - STUCK_S
    see(node, pid)
    assert node.gpus.by_id[GPU].holders[0].cls == "stuck"
    await reaper_task.close_gpus(node.records, node.engines, node.gpus)
    assert node.gpus.by_id[GPU].condition == "quarantined"
    assert "takes no signal" in node.gpus.by_id[GPU].reason
    assert await history(node.records.store, 9) == []


def one_in_d(stat: Any) -> Any:
    return None if stat is None else replace(stat, state="D")


async def test_a_reading_counts_once_and_another_class_begins_afresh(node: Node, plant: Any) -> None:
    pid = adopted(plant)
    act = orphaned(node, pid)
    same = node.gpus.by_id[GPU].reading
    for _ in range(3):
        gpu_holders.look(node.work, node.gpus, same)
    assert [len(looks) for looks in node.gpus.tracker.by_pid[pid].observations.values()] == [1]
    see(node, pid)
    assert [len(looks) for looks in node.gpus.tracker.by_pid[pid].observations.values()] == [2]
    node.gpus.tracker.attempts = {MARKER: StoredAttempt("e1", "runs", None)}
    see(node, pid)
    assert node.gpus.tracker.by_pid[pid].observations == {}
    assert act.key == (pid, node.gpus.tracker.by_pid[pid].process.stat.start_ticks)


async def test_the_daemon_acts_once_a_gpu_in_ten_minutes(node: Node, plant: Any) -> None:
    first, second = adopted(plant), adopted(plant)
    await reaper.begin(node.records, orphaned(node, first), 0)
    node.gpus.tracker.learn({MARKER: StoredAttempt("e1", "ended", None)})
    see(node, second)
    tracked = next(one for one in node.gpus.tracker.all() if one.process.pid == second)
    conditions = await reaper_task.preconditions(node.records, node.waiting, node.gpus, tracked, by_itself=True)
    assert {finding.name for finding in conditions if not finding.holds} == {"mode", "rate of the GPU"}
    asked = await reaper_task.preconditions(node.records, node.waiting, node.gpus, tracked, by_itself=False)
    assert all(finding.holds for finding in asked)


async def test_the_log_of_acts_reads_as_it_was_written(store: Store, plant: Any) -> None:
    """On both databases: an intent is open until its outcome is there, and markers are told apart."""
    process = Machine().snapshot(plant.start())
    act = ReapAct("a1", process, "orphan", {GPU: 5, "GPU-2": None}, True, the_daemon())
    before = now()
    async with store.write() as db:
        await add_step(db, act.columns(), "intent", memory_bytes=2**40)
        await db.execute(
            "INSERT INTO engine (uuid, model, weights_path, weights_sha256, numerics, lease, state, socket, started, "
            "ended) VALUES (?, 'm', '', '', '', '', 'gone', '', '', ?), (?, 'm', '', '', '', '', 'ready', '', '', ?)",
            ("over", before, "runs", ""),
        )
    (row,) = await unfinished(store)
    again = ReapAct.of(row)
    assert (again.process, again.gpus, again.automatic, again.key) == (process, act.gpus, True, act.key)
    assert await by_itself_since(store, before) == [("a1", row["at"], (GPU, "GPU-2"))]
    assert await outcome_of(store, "a1") is None
    async with store.write() as db:
        await add_step(db, act.columns(), "outcome", outcome="freed", text="t", memory_bytes=None)
    assert await unfinished(store) == []
    (done,) = await history(store, 5)
    assert (done["outcome"], done["before_bytes"], done["memory_bytes"]) == ("freed", 2**40, None)
    assert (await outcome_of(store, "a1"))["text"] == "t"
    found = await attempts_of(store, ["over", "runs", "nobody"])
    assert {marker: row["ended"] for marker, row in found.items()} == {"over": before, "runs": ""}


def test_a_process_that_proc_hides_is_somebody_s(node: Node, plant: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """With hidepid other users' processes are not in /proc; a ghost would close the GPU for nothing."""
    pid = adopted(plant)
    monkeypatch.setattr(Machine, "stat", lambda *_: None)
    see(node, pid)
    (holder,) = node.gpus.by_id[GPU].holders
    assert (holder.cls, "hidden" in holder.why) == ("other-user", True)
    assert node.gpus.tracker.absent == {}


async def test_one_that_went_while_the_daemon_was_away_is_no_failure(node: Node, plant: Any) -> None:
    pid = adopted(plant)
    act = orphaned(node, pid)
    plant.end(pid)
    run = asyncio.ensure_future(reaper.carry_out(node.work, node.gpus, act, resumed=True))
    while not run.done():
        see(node)
        await asyncio.sleep(0.05)
    assert "ended while the daemon was away" in (await run).text
    assert (await run).word == "freed"


async def test_only_who_could_signal_it_anyway_may_end_a_foreign_process(node: Node, plant: Any) -> None:
    pid = int(plant.start("child = os.fork()\nif child: print('ready', child, flush=True); os._exit(0)\n"))
    see(node, pid)
    start = node.gpus.by_id[GPU].holders[0].start_ticks
    request = ReapRequest(pid=pid, start_ticks=start, yes=True)
    token = caller.CALLER.set(roles.Actor(54321, 54321, 1, "eve"))
    with pytest.raises(RefusedError, match="may end it"):
        await zombie_requests.reap(node.work, node.gpus, request)
    caller.CALLER.reset(token)
    assert (await zombie_requests.reap(node.work, node.gpus, ReapRequest(pid=pid))).outcome == "dry-run"
    assert plant.lives(pid)


async def test_a_request_that_is_repeated_is_done_once(node: Node, plant: Any) -> None:
    """The client asks again when the connection was cut, before or after the end."""
    pid = adopted(plant)
    act = orphaned(node, pid)
    request = ReapRequest(pid=pid, start_ticks=act.process.stat.start_ticks, yes=True, request_id="r1")
    task = asyncio.ensure_future(reaper_task.watch(node.work, node.gpus))
    both = [asyncio.ensure_future(zombie_requests.reap(node.work, node.gpus, request)) for _ in range(2)]
    while not all(one.done() for one in both):
        see(node, *([pid] if plant.lives(pid) else []))
        await asyncio.sleep(0.05)
    replies = [await one for one in both] + [await zombie_requests.reap(node.work, node.gpus, request)]
    assert [reply.outcome for reply in replies] == ["freed"] * 3
    assert len(await history(node.records.store, 9)) == 1
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


async def test_of_two_orphans_that_are_ripe_at_once_the_daemon_begins_with_one(node: Node, plant: Any) -> None:
    """The rate counts what was decided a moment ago, too: its intent is not stored yet."""
    settings = replace(node.records.config.settings, reap="auto", reap_grace_s=0.0, reap_idle_s=0.0)
    node.records.config = replace(node.records.config, settings=settings)
    pids = adopted(plant), adopted(plant)
    node.gpus.tracker.learn({MARKER: StoredAttempt("e1", "ended", None)})
    for _ in range(4):
        see(node, *pids)
    await reaper_task.round_of(node.work, node.gpus)
    assert len(node.gpus.tracker.reaper_state.acting) == 1
    await reaper_task.round_of(node.work, node.gpus)
    assert len(node.gpus.tracker.reaper_state.acting) == 1
    (act,) = node.gpus.tracker.reaper_state.acting.values()
    await reaper.begin(node.records, act, 0)
    standing = await reaper_task.standing_of(node.records, node.waiting, node.gpus, ())
    assert [gpus for _, gpus in standing.recent] == [(GPU,)], "an act counts once"


@pytest.mark.parametrize("stale", ["old", "blind"])
async def test_an_order_is_not_carried_out_on_what_nobody_sees_any_more(
    node: Node, plant: Any, monkeypatch: pytest.MonkeyPatch, stale: str
) -> None:
    """A daemon that comes back after an hour, or that cannot see the GPUs, sends no signal."""
    pid = adopted(plant)
    act = replace(orphaned(node, pid), automatic=False)
    if stale == "old":
        monkeypatch.setattr("rwkv_daemon.store.queries.zombie_acts.now", lambda: "2026-01-01T00:00:00.000Z")
    await reaper.begin(node.records, act, 0)
    monkeypatch.setattr(reaper_task, "LOOK_S", 0.3)
    node.gpus.watch_state.self_test = "NVML lists nonsense" if stale == "blind" else ""
    async with asyncio.TaskGroup() as tasks:
        await reaper_task.finish(node.work, node.gpus, tasks)
    assert (await outcome_of(node.records.store, act.id))["outcome"] == "interrupted"
    assert plant.lives(pid)
    assert await unfinished(node.records.store) == []


async def test_an_order_goes_on_once_the_process_is_known_again(node: Node, plant: Any) -> None:
    """The daemon that comes back has to ask the store whose the marker is, first."""
    pid = adopted(plant)
    act = replace(orphaned(node, pid), automatic=False)
    await reaper.begin(node.records, act, reaper.memory(node.gpus, act))
    node.gpus.tracker.attempts.clear()
    async with asyncio.TaskGroup() as tasks:
        await reaper_task.finish(node.work, node.gpus, tasks)
        await asyncio.sleep(0)
        node.gpus.tracker.learn({MARKER: StoredAttempt("e1", "ended", None)})
        while not (row := await outcome_of(node.records.store, act.id)):
            see(node, *([pid] if plant.lives(pid) else []))
            await asyncio.sleep(0.05)
    assert row["outcome"] == "freed"


async def test_a_process_that_holds_up_its_reader_holds_up_nobody_else(
    node: Node, plant: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The event loop takes the lock, too: it must never wait for a look at /proc."""
    pid, stuck, begun = adopted(plant), threading.Event(), threading.Event()

    def snapshot(_machine: Machine, _pid: int) -> None:
        begun.set()
        stuck.wait(LIMIT_S)

    monkeypatch.setattr(Machine, "snapshot", snapshot)
    look = asyncio.ensure_future(asyncio.to_thread(gpu_holders.look, node.work, node.gpus, reading(pid)))
    assert await asyncio.to_thread(begun.wait, LIMIT_S)
    assert node.gpus.tracker.all() == []
    stuck.set()
    await look
