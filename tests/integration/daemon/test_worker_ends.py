"""Ending workers that will not end, a cgroup around them, and their logs under a cap: real processes, real kernel."""

import asyncio
import os
import signal
import sys
import threading
import time
import uuid as uuids
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from waiting import LIMIT_S, wait_for

from rwkv_daemon.logs import log_reader
from rwkv_daemon.logs.timestamps import LogTimes, times_path
from rwkv_daemon.rules import exit_rules
from rwkv_daemon.workers import cgroups, stall_detection, stop_ladder, worker_process
from rwkv_daemon.workers.cgroups import CgroupLimits, Scopes
from rwkv_daemon.workers.stop_ladder import Patience, StopLadder, StopStep, climb, remains, sweep
from rwkv_daemon.workers.worker_process import Launch, Worker

QUICK = Patience(batch_s=0.1, ask_s=0.1, term_s=0.1, sweep_s=LIMIT_S)
Start = Callable[..., Worker]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts Python code as a worker. Whatever carries its marker is gone afterwards."""
    workers: list[Worker] = []

    def begin(code: str, arguments: tuple[str, ...] = (), **more: Any) -> Worker:
        name = f"w{len(workers)}"
        launch = Launch(
            uuid=str(uuids.uuid4()), argv=(sys.executable, "-I", "-S", "-c", code, *arguments),
            record=tmp_path / f"record-{name}.json", log=tmp_path / f"log-{name}.txt",
            environment={"PATH": os.environ["PATH"]}, **more,
        )  # fmt: skip
        workers.append(worker_process.start(launch))
        return workers[-1]

    yield begin
    for worker in workers:
        worker_process.sweep(worker.uuid)
        if worker.popen is not None:
            worker.popen.wait(LIMIT_S)
        os.close(worker.pidfd)


def log_of(worker: Worker) -> Path:
    return worker.record_path.with_name(worker.record_path.name.replace("record", "log")).with_suffix(".txt")


def says(worker: Worker, word: str) -> None:
    wait_for(lambda: word in log_of(worker).read_text(errors="replace"), f"the worker says {word!r}")


def end(worker: Worker, first: StopStep = StopStep.ASK, patience: Patience = QUICK) -> list[StopStep]:
    """Climb until nothing is left; the steps that were entered."""
    ladder, entered = StopLadder(), []

    def step() -> bool:
        if asyncio.run(climb(ladder, worker, first, patience)):
            entered.append(ladder.step)
        return worker_process.has_ended(worker) and not remains(worker)

    wait_for(step, f"the end of the worker, at {ladder.step!r}: {remains(worker)}")
    return entered


POLITE = "import time\nprint('ready', flush=True)\ntime.sleep(600)"
STUBBORN = "import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + POLITE
ESCAPES = f"""
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
for _ in range(2):
    if os.fork() == 0:
        os.setsid()
        if os.fork():
            os._exit(0)
        exec({STUBBORN!r})
        os._exit(0)
print("ready", flush=True)
time.sleep(600)
"""


def test_one_that_obeys_is_gone_after_sigterm(start: Start) -> None:
    worker = start(POLITE)
    says(worker, "ready")
    assert end(worker, patience=replace(QUICK, term_s=LIMIT_S)) == [StopStep.ASK, StopStep.TERM]


def test_one_that_ignores_sigterm_is_killed_and_its_exit_is_recorded(start: Start) -> None:
    worker = start(STUBBORN)
    says(worker, "ready")
    assert end(worker) == [StopStep.ASK, StopStep.TERM, StopStep.KILL]
    record = worker_process.read_record(worker.record_path)
    assert record is not None
    assert (record.done, record.signal) == (True, signal.SIGKILL)


def test_escapees_of_group_and_session_are_found_and_killed(start: Start) -> None:
    worker, bystander = start(ESCAPES), start(POLITE)
    says(worker, "ready")
    says(bystander, "ready")
    wait_for(lambda: len(remains(worker)) == 4, "worker, shim and two escapees")
    assert end(worker)[-1] is StopStep.SWEEP
    assert remains(worker) == []
    assert len(remains(bystander)) == 2


@pytest.mark.parametrize("victim", ["pid", "shim"])
def test_frozen_workers_and_frozen_shims_end_too(start: Start, victim: str) -> None:
    worker = start(POLITE)
    says(worker, "ready")
    os.kill(getattr(worker.record, victim), signal.SIGSTOP)
    wait_for(lambda: "stopped by a signal" in " ".join(remains(worker)), "it stands still")
    assert end(worker)[-1] is (StopStep.KILL if victim == "pid" else StopStep.SWEEP)


def test_what_cannot_die_is_stuck_and_gets_no_storm_of_signals(start: Start) -> None:
    """A worker whose death the kernel does not complete is played by one of which the kill is taken away."""
    worker = start(POLITE)
    says(worker, "ready")
    sent: list[int] = []
    patch = pytest.MonkeyPatch()
    patch.setattr(worker_process, "kill_group", lambda _worker: 0)
    patch.setattr(worker_process, "kill_member", lambda pid, _uuid: bool(sent.append(pid)) or True)
    try:
        ladder = StopLadder()
        patience = Patience(0.05, 0.05, 0.05, 0.05)
        blocked = Worker(worker.uuid, worker.record_path, worker.record, os.open(os.devnull, os.O_RDONLY))
        patch.setattr(worker_process, "ask_to_stop", lambda _worker: None)

        def step() -> bool:
            asyncio.run(climb(ladder, blocked, StopStep.ASK, patience))
            return ladder.step is StopStep.STUCK

        wait_for(step, "stuck")
        for _ in range(5):
            asyncio.run(climb(ladder, blocked, StopStep.ASK, patience))
        os.close(blocked.pidfd)
    finally:
        patch.undo()
    assert sent.count(worker.pid) == 1
    assert any(f"pid {worker.pid}" in line for line in remains(worker))


# -- stacks

STANDS = """
import faulthandler, signal, threading, time
faulthandler.register(signal.SIGUSR1)
def where_it_hangs():
    print("ready", flush=True)
    threading.Event().wait()
where_it_hangs()
"""


def test_the_stacks_of_a_worker_that_hangs_are_in_its_log_and_it_goes_on(start: Start) -> None:
    worker = start(STANDS)
    says(worker, "ready")
    text = stall_detection.dump(worker, log_of(worker))
    assert "where_it_hangs" in text
    assert f"thread {worker.pid} python" in text
    assert "where_it_hangs" in log_of(worker).read_text()
    assert not worker_process.has_ended(worker)


def test_one_without_a_handler_is_not_ended_by_being_asked(start: Start) -> None:
    worker = start(POLITE)
    says(worker, "ready")
    assert f"thread {worker.pid}" in stall_detection.dump(worker, log_of(worker))
    assert not stall_detection.catches(worker.pid)
    assert not worker_process.has_ended(worker)


# -- cgroups


@pytest.fixture
def scopes() -> Iterator[Scopes]:
    """A part of the real cgroup v2 tree."""
    own = cgroups.own_cgroup(cgroups.read("/proc/self/cgroup"), cgroups.read("/proc/self/mountinfo"))
    if own is None or not os.access(own, os.W_OK):
        pytest.skip("needs cgroup v2: no part of the tree that may be written")
    root = own / f"rwkvctl-test-{os.getpid()}"
    yield cgroups.open_scopes(str(root))
    for folder in [*root.iterdir(), root]:
        if folder.is_dir():
            wait_for(lambda f=folder: not cgroups.processes(f), "the cgroup is empty")
            folder.rmdir()


def test_a_cgroup_holds_the_worker_and_not_the_shim_and_its_kill_ends_all_at_once(start: Start, scopes: Scopes) -> None:
    folder = scopes.make("one", CgroupLimits(memory_bytes=2**30, pids=100))
    assert folder is not None
    worker = start(ESCAPES, cgroup=folder)
    says(worker, "ready")
    wait_for(lambda: len(cgroups.processes(folder)) == 3, "worker and escapees are in it")
    assert worker.pid in cgroups.processes(folder)
    assert worker.record.shim not in cgroups.processes(folder)
    os.kill(worker.pid, signal.SIGSTOP)
    assert cgroups.kill(folder)
    wait_for(lambda: worker_process.has_ended(worker), "all are dead")
    assert cgroups.processes(folder) == []
    record = worker_process.read_record(worker.record_path)
    assert record is not None
    assert (record.signal, record.cgroup) == (signal.SIGKILL, str(folder))
    cgroups.remove_for(record.cgroup)
    assert not folder.exists()


def test_a_worker_without_its_cgroup_runs_all_the_same_and_says_so(start: Start, tmp_path: Path) -> None:
    worker = start("print('ready', flush=True)", cgroup=tmp_path / "none")
    says(worker, "ready")
    assert "no cgroup" in log_of(worker).read_text()


def test_a_limit_that_cannot_be_set_is_said_once_and_not_for_every_worker(
    scopes: Scopes, caplog: pytest.LogCaptureFixture
) -> None:
    made = [scopes.make(name, CgroupLimits(pids=100)) for name in ("one", "two", "three")]
    limited = (made[0] / "pids.max").exists() if made[0] else True
    assert len([line for line in caplog.messages if "run without pids.max" in line]) == (0 if limited else 1)


def test_empty_cgroups_of_the_dead_are_given_back(scopes: Scopes) -> None:
    folder = scopes.make("left", CgroupLimits())
    assert folder is not None
    scopes.tidy()
    assert not folder.exists()


GREEDY = """
import os, sys
with open(sys.argv[1] + "/cgroup.procs", "w") as place:
    place.write("0")
print("ready", flush=True)
everything = bytearray(400 << 20)
"""


@pytest.fixture
def narrow() -> Iterator[Path]:
    """A control group of the kernel's, of either version, with little memory."""
    for root, limit in (("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max")):
        folder = Path(root, f"rwkvctl-test-{os.getpid()}")
        try:
            folder.mkdir()
        except OSError:
            continue
        try:
            (folder / limit).write_text(str(64 << 20))
        except OSError:
            folder.rmdir()
            continue
        yield folder
        wait_for(lambda folder=folder: not cgroups.processes(folder), "the cgroup is empty")
        folder.rmdir()
        return
    pytest.skip("needs a memory cgroup: none can be made here")


def test_a_kill_for_want_of_memory_is_told_from_one_by_somebody_else(start: Start, narrow: Path) -> None:
    """The kernel's own counters are the evidence, and it really kills."""
    killed, greedy = start(POLITE), Path(narrow)
    says(killed, "ready")
    os.kill(killed.pid, signal.SIGKILL)
    wait_for(lambda: worker_process.has_ended(killed), "it is gone")
    other = worker_process.read_record(killed.record_path)
    assert other is not None
    if other.oom == "":  # else somebody else's process was killed for want of memory just now
        assert exit_rules.cause_of(other) == "outside"
    worker = start(GREEDY, arguments=(str(greedy),))
    wait_for(lambda: worker_process.has_ended(worker), "the kernel has killed it", lambda: log_of(worker).read_text())
    record = worker_process.read_record(worker.record_path)
    assert record is not None
    assert (record.signal, record.oom) == (signal.SIGKILL, "machine")
    assert exit_rules.cause_of(record) == "memory"
    assert exit_rules.how(record) == "SIGKILL as the machine ran out of memory"


# -- logs under a cap

TALKS = """
import os, sys, time
for number in range({lines}):
    print(f"line {{number:09d}} " + "x" * 85)
print("ready", flush=True)
time.sleep(600)
"""


def test_a_log_keeps_its_beginning_and_its_end_and_no_reader_notices(start: Start) -> None:
    lines, cap = 60_000, 1024 * 1024
    worker = start(TALKS.format(lines=lines), log_cap_bytes=cap)
    log = log_of(worker)
    wait_for(lambda: log.stat().st_size > 100 * lines, "it has said all")
    wait_for(lambda: log.stat().st_blocks * 512 < 2 * cap, "its middle is given back")
    with log.open("rb") as file:
        pieces, offset = [], 0
        while (piece := log_reader.read_piece(file.fileno(), offset)).data:
            pieces.append(piece)
            offset = piece.end
    assert offset == log.stat().st_size
    dropped = sum(piece.dropped for piece in pieces)
    text = b"".join(piece.data for piece in pieces)
    assert dropped > 3 * cap
    assert len(text) + dropped == offset
    assert text.startswith(b"line 000000000 ")
    assert b"line %09d " % (lines - 1) in text
    assert b"\0" not in text
    assert log_reader.start_of_tail(log, 2) == offset - len(b"ready\n") - 101
    assert log_reader.start_of_tail(log, 10**6) > cap, "a tail never reads through the hole"


def test_the_times_of_a_log_say_when_each_line_was_written(start: Start) -> None:
    code = "import time\nfor n in range(3):\n    print('line', n, flush=True)\n    time.sleep(1.1)\ntime.sleep(600)"
    before = time.time()
    worker = start(code)
    says(worker, "line 2")
    times = LogTimes(times_path(log_of(worker)))
    wait_for(
        lambda: times.read() or (times.size and times.size[-1] == len(b"line 0\n") * 3), "the last line has a time"
    )
    assert times.at == sorted(times.at)
    assert before - 1 <= times.at[0] <= time.time()
    piece = log_reader.LogPiece(0, log_of(worker).read_bytes())
    parts = [(part.data, at) for part, at in times.split(piece, time.time())]
    assert b"".join(data for data, _ in parts) == piece.data
    assert len(parts) > 1
    assert times.offset_at(before - 10) == 0
    assert times.offset_at(time.time() + 10) == len(piece.data)


@pytest.mark.parametrize(("name", "written"), [("", "1"), ("somebody-else", "")])
def test_only_the_attempts_own_cgroup_is_killed(start: Start, tmp_path: Path, name: str, written: str) -> None:
    """A record is a file: what it names must be what was made for this attempt."""
    worker = start("import time; print('ready', flush=True); time.sleep(600)")
    folder = tmp_path / (name or worker.uuid)
    folder.mkdir()
    (folder / "cgroup.kill").touch()
    worker.record = msgspec.structs.replace(worker.record, cgroup=str(folder))
    sweep(StopLadder(StopStep.SWEEP), worker)
    assert (folder / "cgroup.kill").read_text() == written


async def test_a_look_that_hangs_holds_up_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stop_ladder, "LOOK_S", 0.05)
    ladder, freed = StopLadder(), threading.Event()
    try:
        assert await stop_ladder.in_time(ladder, freed.wait) is None
        assert await stop_ladder.in_time(ladder, lambda: "a second look") is None
    finally:
        freed.set()
    assert ladder.looking is not None
    await ladder.looking
    monkeypatch.setattr(stop_ladder, "LOOK_S", LIMIT_S)
    assert await stop_ladder.in_time(ladder, lambda: "looked") == "looked"
