"""The daemon beside a service manager: a real notification socket, passed sockets, and workers that outlive it all."""

import asyncio
import contextlib
import os
import signal
import socket
import struct
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from waiting import LIMIT_S, soon, wait_for

from rwkv_daemon.host.loop_health import Pulse, beat
from rwkv_daemon.host.sd_notify import Notifier
from rwkv_daemon.workers import worker_process

WATCHDOG = {"WATCHDOG_USEC": "400000"}


class Manager:
    """What systemd is to a service of Type=notify."""

    def __init__(self, where: str) -> None:
        self.link = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.link.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        self.link.bind("\0" + where[1:] if where.startswith("@") else where)
        self.where = where
        self.heard: list[tuple[int, dict[str, str]]] = []

    def hear(self) -> None:
        """Take in what has come."""
        while True:
            try:
                data, extra, _, _ = self.link.recvmsg(65536, 256, socket.MSG_DONTWAIT)
            except BlockingIOError:
                return
            (pid, _, _) = struct.unpack("3i", extra[0][2])
            self.heard.append((pid, dict(line.split("=", 1) for line in data.decode().splitlines())))

    def said(self, name: str) -> list[str]:
        """Every value of a field so far."""
        self.hear()
        return [fields[name] for _, fields in self.heard if name in fields]

    def wait(self, condition: Callable[[], object], saying: str) -> None:
        wait_for(condition, saying, lambda: f"heard {self.heard[-9:]}")

    def forget(self) -> None:
        self.hear()
        self.heard.clear()


@pytest.fixture
def at_path(tmp_path: Path) -> Iterator[Manager]:
    made = Manager(str(tmp_path / "notify"))
    yield made
    made.link.close()


def test_ready_is_said_once_by_the_daemon_itself_and_one_that_is_stopped_feeds_nobody(
    new_node: Any, at_path: Manager
) -> None:
    manager = at_path
    node = new_node().start(NOTIFY_SOCKET=manager.where, **WATCHDOG)
    manager.wait(lambda: manager.said("READY"), "it is ready")
    (ready,) = [fields for _, fields in manager.heard if "READY" in fields]
    assert ready["READY"] == "1"
    assert ready["STATUS"].startswith("0 jobs run")
    manager.wait(lambda: len(manager.said("WATCHDOG")) > 5, "the watchdog is fed")
    assert {pid for pid, _ in manager.heard} == {node.daemon.pid}
    node.daemon.send_signal(signal.SIGSTOP)
    stat = Path(f"/proc/{node.daemon.pid}/stat")
    manager.wait(lambda: stat.read_text().rpartition(")")[2].split()[0] == "T", "it is stopped")
    fed = len(manager.said("WATCHDOG"))
    time.sleep(0.9)  # two beats
    assert len(manager.said("WATCHDOG")) == fed
    node.daemon.send_signal(signal.SIGCONT)
    manager.wait(lambda: len(manager.said("WATCHDOG")) > fed, "it goes on")
    assert node.terminate() == 0
    assert manager.said("STOPPING") == ["1"]
    assert manager.said("READY") == ["1"]


def children(parent: int, word: bytes) -> list[int]:
    """The children of a process that have this in their command line."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            stat = (path / "stat").read_text().rpartition(")")[2].split()
            if int(stat[1]) == parent and word in (path / "cmdline").read_bytes():
                found.append(int(path.name))
    return found


def test_not_ready_before_the_first_look_at_the_gpus(new_node: Any, fake_nvml: Any, at_path: Manager) -> None:
    fake_nvml.gpus(2).rule("hang nvmlDeviceGetCount_v2")
    node = new_node(sampler_deadline_s="3600").start(NOTIFY_SOCKET=at_path.where, **WATCHDOG)
    at_path.wait(lambda: len(at_path.said("WATCHDOG")) > 3, "its loop runs")
    assert at_path.said("READY") == []
    fake_nvml.rule()
    for pid in children(node.daemon.pid, b"rwkv_daemon.gpus.sampler_main"):
        os.kill(pid, signal.SIGKILL)  # that call never returns; the sampler in its place asks anew
    at_path.wait(lambda: at_path.said("READY"), "it is ready")
    at_path.wait(lambda: "GPUs: 2 free" in "".join(at_path.said("STATUS")), "the GPUs are seen")


def test_a_hung_driver_is_said_and_kills_nobody(new_node: Any, fake_nvml: Any, at_path: Manager) -> None:
    fake_nvml.gpus(2)
    node = new_node(sampler_deadline_s="3").start(NOTIFY_SOCKET=at_path.where, **WATCHDOG)
    at_path.wait(lambda: at_path.said("READY"), "it is ready")
    fake_nvml.rule("hang nvmlDeviceGetMemoryInfo_v2", "hang nvmlDeviceGetMemoryInfo")
    at_path.wait(lambda: "unknown" in "".join(at_path.said("STATUS")), "the GPUs are unknown")
    at_path.forget()
    at_path.wait(lambda: len(at_path.said("WATCHDOG")) > 5, "the watchdog is fed all the same")
    assert node.answers()


async def test_a_blocked_loop_feeds_nobody(tmp_path: Path) -> None:
    manager = Manager(str(tmp_path / "notify"))
    pulse, notifier = Pulse(), Notifier.of({"NOTIFY_SOCKET": manager.where, "WATCHDOG_USEC": "60000"})
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(beat(pulse, notifier))
        await soon(lambda: len(manager.said("WATCHDOG")) >= 3, "the watchdog is fed")
        manager.forget()
        time.sleep(0.5)  # the loop is blocked, for many beats
        assert manager.said("WATCHDOG") == []
        await soon(lambda: manager.said("WATCHDOG"), "it is fed again")
        task.cancel()
    assert pulse.worst_s > 0.3
    manager.link.close()


def test_a_reload_is_announced_and_ends_with_ready(new_node: Any, at_path: Manager) -> None:
    node = new_node().start(NOTIFY_SOCKET=at_path.where)
    at_path.wait(lambda: at_path.said("READY"), "it is ready")
    at_path.forget()
    node.api.post("/v1/reload", {})
    at_path.wait(lambda: at_path.said("READY"), "it is ready again")
    fields = [fields for _, fields in at_path.heard]
    begun = next(number for number, found in enumerate(fields) if found.get("RELOADING") == "1")
    assert int(fields[begun]["MONOTONIC_USEC"]) <= time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
    assert any("READY" in found for found in fields[begun + 1 :])
    assert at_path.said("WATCHDOG") == []  # nobody asked for it


def test_workers_live_on_and_are_adopted(new_node: Any, at_path: Manager) -> None:
    node = new_node().start(NOTIFY_SOCKET=at_path.where, **WATCHDOG)
    node.engines_do(answers=2)
    (job,) = node.dispatch(limit=6)
    node.wait_until_some(job, 2)
    engine, runner = node.engine_record(), node.runner_record(job)
    at_path.forget()  # a full queue takes nothing more
    assert node.terminate() == 0
    assert at_path.said("STOPPING") == ["1"]
    for worker in (engine, runner):
        assert worker_process.is_same(worker.shim, worker.shim_start)
        variables = Path(f"/proc/{worker.pid}/environ").read_bytes().split(b"\0")
        assert not [one for one in variables if one.startswith((b"NOTIFY_", b"WATCHDOG_", b"LISTEN_"))]
    at_path.forget()
    node.start(NOTIFY_SOCKET=at_path.where, **WATCHDOG)
    at_path.wait(lambda: at_path.said("READY"), "it is ready")
    assert "1 jobs run" in at_path.said("STATUS")[0]
    assert (node.engine_record().pid, node.runner_record(job).pid) == (engine.pid, runner.pid)
    node.engines_do()
    node.wait_for_state(job, "done")


REQUEST = b"GET /v1/info HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"


def waiting_client(path: Path) -> socket.socket:
    """A client that has asked, with nobody there to answer yet."""
    client = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    client.settimeout(LIMIT_S)
    client.connect(str(path))
    client.sendall(REQUEST)
    return client


def answer(client: socket.socket) -> bytes:
    with client, client.makefile("rb") as reader:
        return reader.read()


def test_a_client_waits_in_the_socket_for_the_daemon_and_for_the_next_one(
    new_node: Any, launched: Callable[[Any, socket.socket], None]
) -> None:
    node = new_node()
    node.socket.parent.mkdir(mode=0o700)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(str(node.socket))
    listener.listen(64)
    inode = node.socket.stat().st_ino
    for _ in range(2):
        client = waiting_client(node.socket)
        launched(node, listener)
        assert answer(client).startswith(b"HTTP/1.1 200")
        assert node.answers()
        assert node.terminate() == 0
        assert node.socket.stat().st_ino == inode  # it is the manager's: clients go on queueing in it
    listener.close()


def test_variables_of_somebody_else_are_not_obeyed(new_node: Any) -> None:
    node = new_node().start(LISTEN_FDS="1", LISTEN_PID="1", NOTIFY_SOCKET="/nowhere/at/all")
    assert node.answers()
    assert node.terminate() == 0
    assert not node.socket.exists()


@pytest.mark.parametrize("place", ["path", "abstract"])
async def test_ready_arrives_at_a_manager_that_was_busy(tmp_path: Path, place: str) -> None:
    manager = Manager(str(tmp_path / "notify") if place == "path" else f"@rwkvctl-test-{os.getpid()}")
    notifier = Notifier.of({"NOTIFY_SOCKET": manager.where, "WATCHDOG_USEC": "1000000"})
    while notifier._send(WATCHDOG="1"):
        pass
    assert not notifier.ready("up")
    manager.forget()
    assert notifier.ready("up")
    assert manager.said("READY") == ["1"]
    manager.link.close()


def test_the_daemons_protection_from_the_memory_killer_is_not_its_workers(new_node: Any) -> None:
    own = Path("/proc/self/oom_score_adj")
    before = own.read_text()
    try:
        own.write_text("-500")
    except PermissionError:
        pytest.skip("needs root: the protection cannot be raised")
    try:
        node = new_node().start()
    finally:
        own.write_text(before)
    (job,) = node.dispatch(limit=1)
    node.wait_for_state(job, "done")
    assert Path(f"/proc/{node.daemon.pid}/oom_score_adj").read_text().strip() == "-500"
    assert Path(f"/proc/{node.engine_record().pid}/oom_score_adj").read_text().strip() == "0"
