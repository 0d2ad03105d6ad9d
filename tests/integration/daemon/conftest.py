"""A private PostgreSQL server and a store in each of the databases we know; processes that hold fake GPUs."""

import contextlib
import fcntl
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import leftovers
import pytest
from harness_node import HarnessNode
from waiting import wait_for

from rwkv_daemon.gpus.zombies.procfs import Machine
from rwkv_daemon.store import Store, open_store
from rwkv_data.sandbox import available

NUMBERS = count(1)


@dataclass
class PostgresServer:
    """A server that listens on a Unix socket only. `bin` are its programs; root runs them as the user postgres."""

    bin: Path
    folder: Path

    def program(self, name: str, *words: str) -> None:
        """Run one of the server's programs."""
        user = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"] if os.getuid() == 0 else []
        with (self.folder / "programs.log").open("ab") as log:
            argv = [*user, str(self.bin / name), *words]
            done = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, check=False, cwd="/")
        assert done.returncode == 0, (self.folder / "programs.log").read_text()

    def make(self) -> "PostgresServer":
        self.program("initdb", "-D", f"{self.folder}/d", "-A", "trust", "-U", "postgres", "-E", "UTF8", "--no-sync")
        return self.start()

    def copy_of(self, shared: Path) -> "PostgresServer":
        """The same, as a copy: making a cluster takes seconds, and is done once for all processes of a run."""
        with (shared.parent / f"{shared.name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not shared.exists():
                self.make()
                self.program("pg_ctl", "-D", f"{self.folder}/d", "-m", "fast", "-w", "stop")
                shutil.copytree(self.folder / "d", shared)
                return self.start()
        shutil.copytree(shared, self.folder / "d")
        if os.getuid() == 0:
            for path in [self.folder / "d", *(self.folder / "d").rglob("*")]:
                shutil.chown(path, "postgres", "postgres")
        return self.start()

    def start(self) -> "PostgresServer":
        options = f"-F -c listen_addresses= -c max_connections=40 -k {self.folder}"
        self.program("pg_ctl", "-D", f"{self.folder}/d", "-w", "-l", f"{self.folder}/log", "-o", options, "start")
        return self

    def stop(self) -> None:
        """As a crash would: nobody is told."""
        self.program("pg_ctl", "-D", f"{self.folder}/d", "-m", "immediate", "-w", "stop")

    def processes(self) -> list[int]:
        """The server and everything that it has started."""
        main = int((self.folder / "d" / "postmaster.pid").read_text().splitlines()[0])
        return [main, *map(int, Path(f"/proc/{main}/task/{main}/children").read_text().split())]

    @contextlib.contextmanager
    def frozen(self) -> Iterator[None]:
        """It takes connections and answers nobody, as long as the block runs."""
        stopped = self.processes()
        try:
            self.send(stopped, signal.SIGSTOP)
            yield
        finally:
            self.send(stopped, signal.SIGCONT)

    def send(self, pids: list[int], number: int) -> None:
        """Send a signal to some of its processes; those that serve one connection, or clean up, may be gone by then."""
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def database(self) -> str:
        """The URL of a new, empty database."""
        name = f"rwkvctl_{next(NUMBERS)}"
        self.program("createdb", "-h", str(self.folder), "-U", "postgres", name)
        return f"postgresql://postgres@/{name}?host={self.folder}"


def server_programs() -> Path | None:
    """Where initdb and pg_ctl lie."""
    folders = [Path(found).resolve().parent] if (found := shutil.which("initdb")) else []
    folders += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    return next((folder for folder in folders if (folder / "pg_ctl").exists()), None)


CLEAN_UP = """
read nothing
pid=$(head -n 1 "$1/d/postmaster.pid" 2>/dev/null) && kill -QUIT "$pid" && kill -CONT "$pid" &&
    while kill -0 "$pid"; do sleep 0.1; done
rm -rf "$1"
"""
"""Ends the server, frozen or not, and removes its folder once nobody holds the other end of the pipe, however that
came about."""


@contextlib.contextmanager
def private_server(programs: Path, shared: Path | None = None) -> Iterator[PostgresServer]:
    """A server that is ours alone, in a folder that goes with it: into those of tests the user postgres may not go. It
    outlives no test process, not even one that is killed."""
    folder = Path(tempfile.mkdtemp(prefix="rwkvpg-", dir="/var/tmp"))
    argv = ["sh", "-c", CLEAN_UP, "sh", str(folder)]
    with (
        leftovers.shared(str(folder)),
        subprocess.Popen(argv, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True),
    ):
        if os.getuid() == 0:
            shutil.chown(folder, "postgres", "postgres")
        server = PostgresServer(programs, folder)
        yield server.make() if shared is None else server.copy_of(shared)


@pytest.fixture(scope="session")
def postgres_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PostgresServer]:
    """One server for all tests of a process, or a skip that says what is missing."""
    programs = server_programs()
    if programs is None:
        pytest.skip("needs PostgreSQL: no initdb on this machine")
    pytest.importorskip("asyncpg", reason="needs asyncpg: not installed")
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent  # where those of all workers lie
    with private_server(programs, folder / "postgres") as server:
        yield server


@pytest.fixture(params=["sqlite", "postgresql"])
def store_at(request: pytest.FixtureRequest, tmp_path: Path) -> Path | str:
    """Where a store may be made: every test that asks for it is run on both databases."""
    if request.param == "sqlite":
        return tmp_path / "store.sqlite"
    server: PostgresServer = request.getfixturevalue("postgres_server")
    return server.database()


@pytest.fixture
async def store(store_at: Path | str) -> AsyncIterator[Store]:
    """An empty store in each database."""
    opened = await open_store(store_at)
    yield opened
    await opened.close()


LAUNCHER = """
import os, sys
os.dup2(int(sys.argv[1]), 3, inheritable=True)
os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS="1", LISTEN_FDNAMES="rwkvctl")
os.execv(sys.executable, [sys.executable, "-m", "rwkv_daemon"])
"""


@pytest.fixture
def launched() -> Callable[[Any, socket.socket], None]:
    """Starts the daemon as systemd does for a socket unit: in place, so that the pid stays true."""

    def launch(node: Any, listener: socket.socket) -> None:
        with (node.home.parent / "daemon.log").open("ab") as log:
            node.daemon = subprocess.Popen(
                [sys.executable, "-c", LAUNCHER, str(listener.fileno())],
                pass_fds=[listener.fileno()], env=node.environment, stdout=log, stderr=log,
            )  # fmt: skip

    return launch


HOLD = """
import os, signal, sys, time
files = [os.open(path, os.O_RDONLY) for path in sys.argv[2:]]
exec(sys.argv[1])
print("ready", os.getpid(), flush=True)
while True:
    time.sleep(1000)
"""
"""Opens device files as a CUDA process does, does what a class is made of, and waits without using the CPU."""

THREAD = r"""
#include <pthread.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>
static void *live(void *path) { open(path, O_RDONLY); puts("ready"); fflush(stdout); for (;;) pause(); return 0; }
int main(int n, char **arguments) {
    pthread_t thread;
    (void)n;
    pthread_create(&thread, 0, live, arguments[1]);
    pthread_exit(0);
}
"""
"""A process whose first thread has ended and another lives: `Z` in /proc, and yet it can be ended, and must be."""

DEVICES = ("nvidia0", "nvidia1", "nvidiactl", "nvidia-uvm")


@dataclass
class Plant:
    """Starts processes that hold a fake GPU, and ends what is left of them, each by a pidfd opened when it was born."""

    dev: Path
    binary: Path | None = None
    children: list[subprocess.Popen[Any]] = field(default_factory=list)
    pidfds: dict[int, int] = field(default_factory=dict)

    def start(
        self, does: str = "", *, marker: str = "", minor: int = 0, prefix: tuple[str, ...] = (), **options: Any
    ) -> int:
        """A process that holds the device files of a GPU; returns its pid when it does."""
        argv = [*prefix, sys.executable, "-I", "-S", "-c", HOLD, does, str(self.dev / f"nvidia{minor}")]
        return self.run([*argv, str(self.dev / "nvidia-uvm")], marker, **options)

    def thread_only(self, marker: str) -> int:
        """A dead first thread with a live one."""
        assert self.binary is not None
        return self.run([str(self.binary), str(self.dev / "nvidia0")], marker)

    def shell(self, marker: str, **options: Any) -> int:
        """A process of which only NVML says that it holds a GPU: one of another user, who may not read our Python."""
        return self.run(["/bin/sh", "-c", "echo ready; exec sleep 1000"], marker, **options)

    def run(self, argv: list[str], marker: str, **options: Any) -> int:
        environment = {"PATH": os.environ["PATH"]} | ({"RWKVCTL_ATTEMPT": marker} if marker else {})
        child = subprocess.Popen(argv, env=environment, stdout=subprocess.PIPE, text=True, **options)
        self.children.append(child)
        assert child.stdout is not None
        words = child.stdout.readline().split()
        assert words[:1] == ["ready"], words
        named = int(words[1]) if len(words) > 1 else 0
        pid = named if named > 1 else child.pid  # 1: its own view, in a PID namespace
        self.pidfds[pid] = os.pidfd_open(pid)
        return pid

    def lives(self, pid: int) -> bool:
        """Whether the very process that was started is there, dead or not."""
        stat = Machine().stat(pid)
        return stat is not None and stat.state != "Z"

    def end(self, pid: int) -> None:
        """Kill one, and wait until nothing of it is left."""
        signal.pidfd_send_signal(self.pidfds[pid], signal.SIGKILL)
        wait_for(lambda: not Path(f"/proc/{pid}").exists(), f"process {pid} is gone")

    def close(self) -> None:
        for pidfd in self.pidfds.values():
            try:
                signal.pidfd_send_signal(pidfd, signal.SIGKILL)
            except ProcessLookupError:
                pass
            finally:
                os.close(pidfd)
        for child in self.children:
            child.kill()
            child.wait()
            if child.stdout is not None:
                child.stdout.close()


@pytest.fixture
def plant(tmp_path: Path) -> Iterator[Plant]:
    dev = tmp_path / "dev"
    dev.mkdir()
    for name in DEVICES:
        (dev / name).touch()
    made = Plant(dev)
    yield made
    made.close()


@pytest.fixture
def threaded(plant: Plant, tmp_path: Path) -> Plant:
    """The same, with the C program."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("needs gcc: not installed")
    source = tmp_path / "thread.c"
    source.write_text(THREAD)
    plant.binary = tmp_path / "thread"
    subprocess.run([compiler, "-pthread", "-o", plant.binary, source], check=True)
    return plant


@pytest.fixture(scope="module")
def built_harness(module_node: Any) -> Path:
    """The installation of the fake harness, as `rwkvctl harness build` makes it; a skip where runs are not isolated."""
    if trouble := available():
        pytest.skip(f"needs namespaces: {trouble}")
    one = HarnessNode(module_node())
    one.write()
    said = one.live.cli("harness", "build", "fake")
    assert "fake is ready: 16 tasks" in said.stdout
    assert "installs fake@1.0" in said.stderr
    return one.live.home / "harnesses" / "fake"
