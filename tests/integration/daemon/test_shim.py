"""Workers behind the real shim: identity, exit, log, lock, death of everybody involved, and finding them again."""

import contextlib
import os
import platform
import signal
import stat
import subprocess
import sys
import uuid as uuids
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from waiting import LIMIT_S, wait_for

from rwkv_daemon.workers import shim, worker_process
from rwkv_daemon.workers.worker_process import Launch, LockHeldError, NotStartedError, Worker

Start = Callable[..., Worker]
SLEEP = "import time\nprint('ready', flush=True)\ntime.sleep(600)"


def launch(
    folder: Path, argv: tuple[str, ...], name: str = "w", locks: tuple[Path, ...] = (), share: Path | None = None
) -> Launch:
    return Launch(
        uuid=str(uuids.uuid4()), argv=argv, record=folder / f"record-{name}.json", log=folder / f"log-{name}.txt",
        environment={"PATH": os.environ["PATH"]}, locks=locks, share=share,
    )  # fmt: skip


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts workers: Python code, or a whole command. Whatever carries their markers is gone afterwards."""
    workers: list[Worker] = []

    def begin(
        code: str = SLEEP, *, argv: tuple[str, ...] = (), name: str = "w", locks: tuple[Path, ...] = (),
        share: Path | None = None,
    ) -> Worker:  # fmt: skip
        command = argv or (sys.executable, "-I", "-S", "-c", code)
        workers.append(worker_process.start(launch(tmp_path, command, name, locks, share)))
        return workers[-1]

    yield begin
    for worker in workers:
        worker_process.sweep(worker.uuid)
        if worker.popen is not None:
            worker.popen.wait(LIMIT_S)
        if worker.pidfd >= 0:
            os.close(worker.pidfd)


def finish(worker: Worker) -> worker_process.ShimRecord | None:
    """Wait for the end of shim and worker; the handle is released."""
    wait_for(lambda: worker_process.has_ended(worker), "the end of the worker")
    record = worker.close()
    worker.pidfd = -1
    return record


def log_of(worker: Worker) -> str:
    return (
        worker.record_path.with_name(worker.record_path.name.replace("record", "log")).with_suffix(".txt").read_text()
    )


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != b"Z"


def said(worker: Worker, word: str = "ready") -> str:
    return str(wait_for(lambda: word in log_of(worker) and log_of(worker), f"the worker's {word!r}"))


def identity(record: worker_process.ShimRecord) -> tuple[object, ...]:
    """What of a record does not change: the worker may have ended before it was read."""
    return record.shim, record.shim_start, record.pid, record.pid_start, record.boot_id


# -- one worker


def test_the_record_is_on_disk_before_the_worker_runs(start: Start, tmp_path: Path) -> None:
    worker = start(argv=("sh", "-c", f"echo $$; cat {tmp_path}/record-w.json"))
    assert finish(worker) is not None
    pid, record = log_of(worker).split("\n", 1)
    found = msgspec.json.decode(record.encode(), type=worker_process.ShimRecord)
    assert identity(found) == identity(worker.record)
    assert (found.pid, found.done, found.boot_id) == (int(pid), False, worker_process.boot_id())
    assert found.shim not in {found.pid, os.getpid()}
    assert not list(tmp_path.glob("*.tmp"))


@pytest.mark.parametrize(
    ("argv", "code", "number"),
    [
        (("sh", "-c", "exit 0"), 0, None),
        (("sh", "-c", "exit 7"), 7, None),
        (("sh", "-c", "kill -9 $$"), None, 9),
        (("no-such-program-anywhere",), 127, None),
    ],
)
def test_how_the_worker_ended_is_recorded(start: Start, argv: tuple[str, ...], code: int | None, number: int) -> None:
    worker = start(argv=argv)
    before, record = worker.record, finish(worker)
    assert record is not None
    assert (record.code, record.signal, record.done) == (code, number, True)
    same = ("shim", "shim_start", "pid", "pid_start", "boot_id")
    assert [getattr(record, name) for name in same] == [getattr(before, name) for name in same]
    assert record.max_rss_kib > 0
    assert record.wall_s > 0
    if code == 127:
        assert "cannot start no-such-program-anywhere" in log_of(worker)


def test_the_worker_has_the_log_for_both_outputs_and_nothing_to_read(start: Start, tmp_path: Path) -> None:
    (tmp_path / "log-w.txt").write_text("of before\n")
    worker = start(argv=("sh", "-c", "cat; echo out; echo err >&2; ls -l /proc/self/fd | wc -l"))
    assert finish(worker) is not None
    lines = log_of(worker).split()
    assert lines[:4] == ["of", "before", "out", "err"]
    fresh = start(argv=("sh", "-c", "echo"), name="fresh")
    finish(fresh)
    assert stat.S_IMODE((tmp_path / "log-fresh.txt").stat().st_mode) & 0o137 == 0


def test_the_worker_has_a_group_of_its_own_and_carries_the_marker(start: Start) -> None:
    worker = start()
    said(worker)
    assert os.getpgid(worker.pid) == worker.pid
    assert os.getsid(worker.record.shim) == worker.record.shim != os.getsid(0)
    assert worker_process.marker_of(worker.pid) == worker_process.marker_of(worker.record.shim) == worker.uuid
    assert set(worker_process.members(worker.uuid)) == {worker.pid, worker.record.shim}


DOUBLE_FORK = """
import os, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        print("grandchild", os.getpid(), flush=True)
        while not os.path.exists(sys.argv[1]):
            time.sleep(0.01)
        print("goes", flush=True)
    os._exit(0)
os.wait()
print("worker ends", flush=True)
sys.exit(3)
"""


def test_a_grandchild_that_left_session_and_group_is_waited_for(start: Start, tmp_path: Path) -> None:
    worker = start(argv=(sys.executable, "-I", "-S", "-c", DOUBLE_FORK, str(tmp_path / "go")))
    wait_for(
        lambda: (found := worker_process.read_record(worker.record_path)) and found.done, "the worker's exit record"
    )
    said(worker, "grandchild")
    assert not worker_process.has_ended(worker), "the shim lives as long as anything of the tree"
    (tmp_path / "go").touch()
    record = finish(worker)
    assert record is not None
    assert record.code == 3
    assert "goes" in log_of(worker)


def test_sigterm_is_passed_on_to_the_whole_group(start: Start) -> None:
    child = "trap 'echo child; exit 0' TERM; echo ready; while :; do sleep 0.02; done"
    worker = start(argv=("sh", "-c", f"trap 'wait; echo parent; exit 5' TERM; sh -c \"{child}\" & wait; wait"))
    said(worker)
    worker_process.ask_to_stop(worker)
    record = finish(worker)
    assert record is not None
    assert (record.code, record.signal) == (5, None)
    assert {"child", "parent"} <= set(log_of(worker).split())


def test_a_lease_held_by_another_shim_stops_the_start_and_is_free_after_its_death(start: Start, tmp_path: Path) -> None:
    lock = tmp_path / "gpu.lock"
    holder = start(locks=(lock,))
    with pytest.raises(LockHeldError):
        start(name="second", locks=(lock,))
    assert f"{lock} cannot be locked: another process holds it" in (tmp_path / "log-second.txt").read_text()
    assert not (tmp_path / "record-second.json").exists()
    worker_process.send(holder.pidfd, signal.SIGKILL)
    finish(holder)
    third = start(argv=("sh", "-c", "exit 4"), name="third", locks=(lock,))
    record = finish(third)
    assert record is not None
    assert record.code == 4


def test_shared_leases_exclude_a_whole_one_and_each_other_part_by_part(start: Start, tmp_path: Path) -> None:
    whole, first, second = (tmp_path / name for name in ("gpu.lock", "gpu.0.lock", "gpu.1.lock"))
    start(name="a", share=whole, locks=(first,))
    start(name="b", share=whole, locks=(second,))
    for name, locks, share in (("c", (first,), whole), ("d", (whole,), None), ("e", (second, first), whole)):
        with pytest.raises(LockHeldError):
            start(name=name, locks=locks, share=share)


def symlink(path: Path) -> None:
    path.symlink_to(path.with_name("elsewhere"))


@pytest.mark.parametrize(("make", "why"), [(symlink, "links"), (os.mkfifo, "plain file"), (os.mkdir, "plain")])
def test_a_lock_that_somebody_planted_is_refused_and_nothing_is_touched(
    start: Start, tmp_path: Path, make: Callable[[Path], None], why: str
) -> None:
    lock = tmp_path / "gpu.lock"
    make(lock)
    with pytest.raises(LockHeldError):
        start(locks=(lock,))
    assert why in (tmp_path / "log-w.txt").read_text()
    assert not (tmp_path / "elsewhere").exists()


def test_a_lock_file_can_be_locked_by_every_user_and_written_by_none(start: Start, tmp_path: Path) -> None:
    lock = tmp_path / "gpu.lock"
    before = os.umask(0o077)
    try:
        start(locks=(lock,))
    finally:
        os.umask(before)
    assert lock.stat().st_mode & 0o777 == 0o444


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: files of two users")
def test_a_lock_file_of_another_user_does_as_well(start: Start, tmp_path: Path) -> None:
    lock = tmp_path / "gpu.lock"
    lock.touch(mode=0o644)
    os.chown(lock, 65534, 65534)
    tmp_path.chmod(0o1777)
    start(name="first", locks=(lock,))
    with pytest.raises(LockHeldError):
        start(name="second", locks=(lock,))


def test_the_worker_dies_with_its_shim_and_the_attempt_is_lost(start: Start) -> None:
    worker = start()
    said(worker)
    worker_process.send(worker.pidfd, signal.SIGKILL)
    assert finish(worker) is None
    wait_for(lambda: not alive(worker.pid), "the worker's death")


def test_a_shim_that_cannot_even_begin_is_reported(tmp_path: Path) -> None:
    wanted = launch(tmp_path, ("true",), locks=(tmp_path / "no folder" / "lock",))
    with pytest.raises(NotStartedError, match="ended with code 1 before starting true"):
        worker_process.start(wanted)
    assert "No such file" in wanted.log.read_text()


# -- finding a worker again


@pytest.mark.parametrize(
    "changes",
    [
        {"shim_start": 1},
        {"boot_id": "00000000-0000-0000-0000-000000000000"},
        {"shim": 1},
        {"shim": 2**22 - 1},
    ],
)
def test_a_process_that_is_not_the_recorded_one_is_not_adopted(start: Start, changes: dict[str, Any]) -> None:
    worker = start()
    worker.record_path.write_bytes(msgspec.json.encode(msgspec.structs.replace(worker.record, **changes)))
    assert worker_process.adopt(worker.uuid, worker.record_path) is None
    assert alive(worker.pid)


def test_a_copy_of_the_run_directory_names_nobody(start: Start, tmp_path: Path) -> None:
    """Somebody who tries something on a copy of the home adopts, and ends, no worker of the original."""
    worker = start()
    copy = tmp_path / "copy" / "runs" / "engines" / "e1"
    copy.mkdir(parents=True)
    os.link(worker.record_path, copy / worker.record_path.name)
    assert worker_process.adopt(worker.uuid, copy / worker.record_path.name) is None
    worker_process.end_all(tmp_path / "copy" / "runs")
    assert alive(worker.pid)
    linked = tmp_path / "linked"
    linked.symlink_to(tmp_path)
    adopted = worker_process.adopt(worker.uuid, linked / worker.record_path.name)
    assert adopted is not None, "the same directory by another name"
    os.close(adopted.pidfd)
    worker_process.end_in(linked)
    wait_for(lambda: not alive(worker.pid), "the end of the worker")


def test_another_users_process_with_our_marker_is_not_ours(start: Start) -> None:
    """Root reads every environment: whoever knows a marker could have others killed, or keep a worker from ending."""
    if os.geteuid() != 0:
        pytest.skip("needs root: another user")
    worker = start()
    stranger = subprocess.Popen(
        ["/bin/sleep", "600"], env={worker_process.MARKER: worker.uuid}, user=65533, group=65533, extra_groups=[]
    )
    try:
        wait_for(lambda: worker_process.marker_of(stranger.pid) == worker.uuid, "the stranger")
        assert stranger.pid not in set(worker_process.members(worker.uuid))
        worker_process.sweep(worker.uuid)
        finish(worker)
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


def test_once_the_worker_has_ended_its_groups_number_is_not_signalled(start: Start, tmp_path: Path) -> None:
    """The shim waits for what escaped; meanwhile the kernel may have given the number to somebody else's group."""
    last = Path("/proc/sys/kernel/ns_last_pid")
    try:
        last.write_text(last.read_text())
    except OSError:
        pytest.skip("needs root: to choose a pid")
    worker = start(argv=(sys.executable, "-I", "-S", "-c", DOUBLE_FORK, str(tmp_path / "go")))
    wait_for(
        lambda: (found := worker_process.read_record(worker.record_path)) and found.done, "the worker's exit record"
    )
    innocent = with_pid(worker.pid, last)
    try:
        worker_process.ask_to_stop(worker)
        (tmp_path / "go").touch()
        finish(worker)
        assert innocent.poll() is None
    finally:
        innocent.kill()
        innocent.wait()


def with_pid(pid: int, last: Path) -> subprocess.Popen[bytes]:
    """A process with this pid that leads its own group. Others may take it first: then it is tried again."""
    for _ in range(2000):
        with contextlib.suppress(OSError):
            last.write_text(str(pid - 1))
        child = subprocess.Popen(["sleep", "1000"], process_group=0)
        if child.pid == pid:
            return child
        child.kill()
        child.wait()
    pytest.fail(f"pid {pid} could not be had")


def test_adoption_needs_the_marker(start: Start) -> None:
    worker = start()
    assert worker_process.adopt(str(uuids.uuid4()), worker.record_path) is None
    adopted = worker_process.adopt(worker.uuid, worker.record_path)
    assert adopted is not None
    os.close(adopted.pidfd)


@pytest.mark.parametrize("content", [b"", b"{", b'{"shim": 5}', b'{"shim": "\xff"}', b"null"])
def test_an_unreadable_record_names_nobody(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "record.json").write_bytes(content)
    assert worker_process.read_record(tmp_path / "record.json") is None
    assert worker_process.adopt("u", tmp_path / "record.json") is None
    assert worker_process.adopt("u", tmp_path / "none.json") is None


STARTER = """
import sys, time
from pathlib import Path
from rwkv_daemon.workers import worker_process
folder = Path(sys.argv[1])
code = (
    "import os, sys, time\\n"
    "while not os.path.exists(sys.argv[1]): time.sleep(0.01)\\n"
    "print('went on', flush=True); sys.exit(7)"
)
worker_process.start(worker_process.Launch(
    uuid=sys.argv[2], argv=(sys.executable, "-I", "-S", "-c", code, str(folder / "go")),
    record=folder / "record-w.json", log=folder / "log-w.txt", environment={},
))
print("started", flush=True)
time.sleep(600)
"""


def test_a_worker_outlives_the_kill_of_its_starter_and_is_adopted(tmp_path: Path) -> None:
    uuid = str(uuids.uuid4())
    starter = subprocess.Popen(
        [sys.executable, "-c", STARTER, str(tmp_path), uuid], stdout=subprocess.PIPE, start_new_session=True
    )
    try:
        assert starter.stdout is not None
        assert starter.stdout.readline() == b"started\n"
        starter.kill()
        starter.wait()
        worker = worker_process.adopt(uuid, tmp_path / "record-w.json")
        assert worker is not None
        assert worker.popen is None
        assert alive(worker.pid)
        assert not worker_process.has_ended(worker)
        (tmp_path / "go").touch()
        record = finish(worker)
        assert record is not None
        assert record.code == 7
        assert log_of(worker) == "went on\n"
        assert worker_process.adopt(uuid, tmp_path / "record-w.json") is None
    finally:
        starter.kill()
        starter.wait()
        starter.stdout and starter.stdout.close()
        worker_process.sweep(uuid)


# -- odd processes


RENAMED = "open('/proc/self/comm', 'w').write('a) R 1 (x')\n" + SLEEP


def test_a_worker_with_brackets_in_its_name_is_read_right(start: Start) -> None:
    worker = start(RENAMED)
    said(worker)
    assert Path(f"/proc/{worker.pid}/comm").read_text() == "a) R 1 (x\n"
    assert shim.start_ticks(worker.pid) == worker.record.pid_start
    assert worker_process.is_same(worker.pid, worker.record.pid_start)
    assert not worker_process.is_same(worker.pid, worker.record.pid_start + 1)


ESCAPEE = """
import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if os.fork() == 0:
    os.setsid()
    print("escaped", os.getpid(), flush=True)
time.sleep(600)
"""


def test_the_sweep_kills_what_left_the_group_and_spares_the_shim(start: Start) -> None:
    worker, bystander = start(ESCAPEE), start(name="bystander")
    escapee = int(said(worker, "escaped").split()[-1])
    said(bystander)
    assert os.getpgid(escapee) != worker.pid
    assert worker_process.kill(worker) == 2
    record = finish(worker)
    assert record is not None
    assert (record.signal, record.code) == (9, None)
    assert not alive(escapee)
    assert not list(worker_process.members(worker.uuid))
    assert alive(bystander.pid)
    assert worker_process.sweep(worker.uuid) == 0


LEADER_ENDS = """
import ctypes, sys, threading, time
threading.Thread(target=time.sleep, args=(600,)).start()
print("ready", flush=True)
ctypes.CDLL(None).syscall(int(sys.argv[1]), 0)  # ends this thread only
"""


def test_a_process_whose_first_thread_has_ended_is_still_found_and_killed(start: Start) -> None:
    number = {"x86_64": 60, "aarch64": 93}.get(platform.machine())
    if number is None:
        pytest.skip(f"needs x86_64 or aarch64: is {platform.machine()}")
    worker = start(argv=(sys.executable, "-I", "-S", "-c", LEADER_ENDS, str(number)))
    said(worker)
    wait_for(lambda: not alive(worker.pid), "the first thread's end")
    assert len(list(Path(f"/proc/{worker.pid}/task").iterdir())) > 1 or alive(worker.record.shim)
    assert worker_process.marker_of(worker.pid) == worker.uuid
    assert worker_process.kill(worker) == 1
    record = finish(worker)
    assert record is not None
    assert record.signal == 9


def test_what_a_session_left_is_ended_and_a_session_that_lives_is_not_ours_to_end(start: Start) -> None:
    command = ["sh", "-c", "sleep 600 & echo $!"]
    ended = subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True)
    assert ended.stdout is not None
    left = int(ended.stdout.readline())
    ended.wait()
    ended.stdout.close()
    lives = subprocess.Popen(["sleep", "600"], start_new_session=True)
    try:
        worker_process.kill_session(lives.pid)  # as if its number had been another session's
        assert lives.poll() is None
        worker_process.kill_session(ended.pid)
        wait_for(lambda: not alive(left), "the end of what was left")
    finally:
        lives.kill()
        lives.wait()


KILLED_AT_ONCE = """
import os, runpy, signal, sys
fork = os.fork
def killed_at_once():
    pid = fork()
    if pid:
        os.kill(pid, signal.SIGSEGV)
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    return pid
os.fork = killed_at_once
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""
"""Runs the shim, whose worker is killed before it may begin."""


def test_the_end_of_a_worker_that_was_killed_before_it_began_is_recorded(tmp_path: Path) -> None:
    record = tmp_path / "record.json"
    words = [shim.__file__, str(record), str(tmp_path / "log.txt"), "--", "/bin/true"]
    found = subprocess.run(
        [sys.executable, "-c", KILLED_AT_ONCE, *words], capture_output=True, timeout=LIMIT_S, check=False
    )
    assert (found.returncode, found.stderr) == (0, b"")
    ended = worker_process.read_record(record)
    assert ended is not None
    assert (ended.done, ended.signal, ended.code) == (True, signal.SIGSEGV, None)
