"""Daemons without the cost of an interpreter each: forked from a process that has imported the daemon and nothing else.

Importing is half of the processor time of a daemon that a test starts, and hundreds are started. All that follows is
the same: `main`, the environment, the descriptors. The command line is that of the fork server, so whoever proves how a
daemon is found in /proc starts `python -m rwkv_daemon`.
"""

import gc
import importlib
import json
import os
import pkgutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import NoReturn

LOOK_S = 0.005
LARGEST_BYTES = 1 << 20


class ForkServer:
    """The process that forks daemons and waits for them: one for all tests of this process."""

    def __init__(self, mark: Path) -> None:
        self.ours, theirs = socket.socketpair(type=socket.SOCK_SEQPACKET)
        self.mark = os.fsencode(mark)
        """A word of its command line that no other fork server has."""
        with theirs:
            command = [sys.executable, __file__, str(theirs.fileno()), str(mark)]
            self.process = subprocess.Popen(command, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL)

    def ask(self, **question: object) -> int | None:
        self.ours.sendall(json.dumps(question).encode())
        reply = self.ours.recv(LARGEST_BYTES)
        assert reply, "the process that forks daemons has ended"
        answer: int | None = json.loads(reply)
        return answer

    def close(self) -> None:
        self.ours.close()
        self.process.wait()

    def orphans(self) -> list[int]:
        """Workers that a killed daemon was about to start: until such a process is executed it has the command line
        that daemon and fork server have, and a parent that has another."""
        alike = {int(path.parent.name) for path in Path("/proc").glob("[0-9]*/cmdline") if self.mark in words(path)}
        alike.discard(self.process.pid)
        return [pid for pid in alike if parent_of(pid) not in {self.process.pid, *alike}]


def words(cmdline: Path) -> list[bytes]:
    try:
        return cmdline.read_bytes().split(b"\0")
    except OSError:
        return []


def parent_of(pid: int) -> int | None:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return None


class ForkedDaemon:
    """A daemon; answers as `subprocess.Popen` does."""

    def __init__(self, server: ForkServer, environment: Mapping[str, str], log: Path) -> None:
        self.server = server
        self.returncode: int | None = None
        pid = server.ask(environment=dict(environment), log=str(log))
        assert pid is not None
        self.pid = pid

    def poll(self) -> int | None:
        if self.returncode is None:
            self.returncode = self.server.ask(ended=self.pid)
        return self.returncode

    def wait(self, timeout: float = float("inf")) -> int:
        until = time.monotonic() + timeout
        while (code := self.poll()) is None:
            if time.monotonic() > until:
                raise subprocess.TimeoutExpired("the daemon", timeout)
            time.sleep(LOOK_S)
        return code

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def can_start(environment: Mapping[str, str]) -> bool:
    """Whether a forked daemon would be as one that is executed in this environment."""
    return "LD_PRELOAD" not in environment  # read when a program is executed


def serve(asked: socket.socket) -> None:
    """Fork a daemon, or say how one has ended, for each message that comes."""
    prepare()
    while message := asked.recv(LARGEST_BYTES):
        question = json.loads(message)
        if (pid := question.get("ended")) is not None:
            gone, status = os.waitpid(pid, os.WNOHANG)
            answer = os.waitstatus_to_exitcode(status) if gone else None
        elif (answer := os.fork()) == 0:
            asked.close()
            be_the_daemon(question["environment"], Path(question["log"]))
        asked.sendall(json.dumps(answer).encode())


def prepare() -> None:
    """Import what a daemon does at its start, for its first plan and for endpoints, and make the built-in rows. Not in
    the test process, which imports this module, too."""
    for name in ("rwkv_daemon.main", "httpx", "httpcore", "anyio._backends._asyncio"):
        importlib.import_module(name)
    benchmarks = importlib.import_module("rwkv_data.benchmarks")
    sets = importlib.import_module("rwkv_data.prepare.prepared_sets")
    for found in pkgutil.iter_modules(benchmarks.__path__, "rwkv_data.benchmarks."):
        if (one := importlib.import_module(found.name).BENCHMARK).generate_rows:
            sets.read_manifest(Path(), one)
    gc.freeze()


def be_the_daemon(environment: dict[str, str], log: Path) -> NoReturn:
    with log.open("ab") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    os.environ.clear()
    os.environ.update(environment)
    from rwkv_daemon.main import main

    sys.exit(main([]))


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])))
