"""A real daemon on a home of its own, with runners and engines as real processes, for tests that cannot do with less.

Its engines are stubs (`tests/stub`) unless the test is marked `real_engine`.
"""

import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Self

from forked_daemon import ForkedDaemon, ForkServer, can_start
from waiting import LIMIT_S, LOOK_S, wait_for

from rwkv_daemon.workers import worker_process
from rwkv_weights.local.checkpoint_files import builtin_checkpoint_path
from rwkvctl.cli.client import Answer, Client, Record
from rwkvctl.protocol.errors import Exit, NotNowError, RwkvctlError

STUB = Path(__file__).resolve().parents[1] / "stub"
FAST = {
    "RWKVCTL_RESTART_BACKOFF_S": "0.05",
    "RWKVCTL_STOP_GRACE_S": "5",
    "RWKVCTL_STOP_TERM_S": "5",
    "RWKVCTL_ENGINE_THREADS": "1",
    "RWKVCTL_NUMERICS": "fp32",
    "RWKVCTL_MAX_RESTARTS": "20",
}


class Ears:
    """Hears that the daemon tells of something, whatever it is; also of a daemon that comes and goes."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.heard: socket.socket | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.heard is not None:
            self.heard.close()

    def listen(self) -> None:
        """Until an event comes, or for a tenth of a second."""
        if self.heard is None:
            self.heard = self.connected()
        if self.heard is None:
            time.sleep(LOOK_S)
        elif select.select([self.heard], [], [], 0.1)[0] and not self.received():
            self.heard.close()
            self.heard = None

    def connected(self) -> socket.socket | None:
        one = socket.socket(socket.AF_UNIX)
        try:
            one.connect(str(self.path))
            one.sendall(b"GET /v1/events?follow=yes HTTP/1.1\r\nhost: daemon\r\n\r\n")
        except OSError:
            one.close()
            return None
        return one

    def received(self) -> bytes:
        assert self.heard is not None
        with contextlib.suppress(OSError):
            return self.heard.recv(1 << 20)
        return b""


class PatientClient(Client):
    """Asks until the store answers, for as long as tests wait. A change that is asked for again has the same id."""

    def get(self, route: str, **query: object) -> Answer:
        return patiently(partial(super().get, route, **query))

    def post(self, route: str, body: Record, timeout_s: float = 0.0) -> Answer:
        return patiently(partial(super().post, route, body, timeout_s))


def patiently(ask: Callable[[], Answer]) -> Answer:
    """Ask until the store answers, as under load it does not for a second."""
    until = time.monotonic() + LIMIT_S
    while True:
        try:
            return ask()
        except NotNowError:
            if time.monotonic() > until:
                raise
        time.sleep(LOOK_S)


@dataclass
class LiveNode:
    """One home and the daemon on it."""

    home: Path
    settings: dict[str, str] = field(default_factory=dict)
    real_engine: bool = False
    forks: ForkServer | None = None
    """Forks its daemons; without one each is executed, as an operator does it: `python -m rwkv_daemon`."""
    daemon: subprocess.Popen[bytes] | ForkedDaemon | None = None

    @property
    def environment(self) -> dict[str, str]:
        plain = {name: text for name, text in os.environ.items() if not name.startswith("RWKVCTL_")}
        own = {"RWKVCTL_HOME": str(self.home), "RWKVCTL_LEASE_DIR": str(self.home.parent.parent)}
        stub = {} if self.real_engine else {"PYTHONPATH": f"{STUB}:{os.environ.get('PYTHONPATH', '')}"}
        return plain | FAST | own | stub | self.settings

    @property
    def socket(self) -> Path:
        return Path(self.settings.get("RWKVCTL_SOCKET", self.home / "run" / "daemon.sock"))

    @property
    def api(self) -> Client:
        """A client that asks again while the store does not answer."""
        return PatientClient(str(self.socket), timeout_s=30.0, tries=1)

    @property
    def hasty(self) -> Client:
        """A client that asks once."""
        return Client(str(self.socket), timeout_s=30.0, tries=1)

    def start(self, **markers: str) -> "LiveNode":
        """Start the daemon and wait until it answers (or has died, if a crash point is set)."""
        environment, path = self.environment | markers, self.home.parent / "daemon.log"
        if self.forks is not None and can_start(environment):
            self.daemon = ForkedDaemon(self.forks, environment, path)
        else:
            with path.open("ab") as log:
                command = [sys.executable, "-m", "rwkv_daemon"]
                self.daemon = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
        wait_for(lambda: self.answers() or self.daemon.poll() is not None, "the daemon answers", self.log)
        return self

    def refused_start(self) -> subprocess.CompletedProcess[str]:
        """Run a daemon that does not start, to its end."""
        command = [sys.executable, "-m", "rwkv_daemon"]
        return subprocess.run(
            command, env=self.environment, capture_output=True, text=True, timeout=LIMIT_S, check=False
        )

    def engines_do(self, **steering: Any) -> None:
        """From now on the stub engines of this node behave so, and as usual with nothing: see `tests/stub`."""
        assert not self.real_engine, "a real engine cannot be steered"
        file = self.home / "runs" / "engines" / "stub.json"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.with_suffix(".new").write_text(json.dumps(steering))
        file.with_suffix(".new").replace(file)

    def add_model(self, name: str) -> Path:
        """A checkpoint of this name that is none of the others: the built-in one with other bytes behind it."""
        path = self.home / "weights" / f"{name}.pth"
        path.parent.mkdir(exist_ok=True)
        new = path.with_suffix(".new")  # the daemon may look at any moment
        new.write_bytes(builtin_checkpoint_path().read_bytes())
        with zipfile.ZipFile(new, "a") as archive:
            archive.comment = name.encode()
        return new.replace(path)

    def look_at_held(self) -> None:
        """Until all held jobs have been looked at once more: one that came to them last has been let go.

        Its checkpoint lies elsewhere: no such one is hashed before a job waits for it."""
        number = len(list(self.home.parent.glob("late*.pth")))
        path = self.home.parent / f"late{number}.pth"
        path.write_bytes(builtin_checkpoint_path().read_bytes())
        late = {"models": [], "checkpoints": [{"path": str(path)}], "only_datasets": ["demo_choice"]}
        (name,) = self.dispatch(**late, limit=1, seed=4711 + number)
        self.until(lambda: self.job(name)["state"] != "held", "held jobs are looked at again")

    def answers(self) -> bool:
        try:
            self.api.get("/v1/info")
        except (OSError, RwkvctlError):
            return False
        return True

    def kill(self) -> None:
        """kill -9 of the daemon."""
        assert self.daemon is not None
        self.daemon.kill()
        self.daemon.wait()

    def terminate(self) -> int:
        """SIGTERM; returns the exit code."""
        assert self.daemon is not None
        self.daemon.terminate()
        return self.daemon.wait(timeout=LIMIT_S)

    def cli(self, *arguments: str, check: bool = True, patient: bool = True) -> subprocess.CompletedProcess[str]:
        """Run the real CLI in a process of its own; with `check`, assert that it exits with 0. If `patient`, it is run
        again, as a person would, while the store does not answer, as under load for some seconds."""
        until = time.monotonic() + LIMIT_S
        while True:
            found = subprocess.run(
                [sys.executable, "-m", "rwkvctl.cli", *arguments],
                env=self.environment, capture_output=True, text=True, timeout=LIMIT_S, check=False,
            )  # fmt: skip
            if found.returncode != Exit.NOT_NOW or not patient or time.monotonic() > until:
                break
        assert not check or found.returncode == 0, found.stderr
        return found

    def dispatch(self, **selection: Any) -> list[str]:
        """Queue jobs of the built-in checkpoint; returns their names."""
        wanted = {"models": ["builtin"], "only_datasets": ["demo_arith"]} | selection
        return list(self.api.post("/v1/dispatch", {"selection": wanted}).value["jobs"])

    def job(self, name: str) -> dict[str, Any]:
        return dict(self.api.get(f"/v1/jobs/{name}").value["item"])

    def until(self, what: Callable[[], object], saying: str) -> Any:
        """Wait until something is true, and return it: looks whenever the daemon tells of an event, and ten times a
        second for what no event tells."""
        with Ears(self.socket) as ears:
            return wait_for(what, saying, self.log, pause=ears.listen)

    def wait_for_state(self, name: str, *states: str) -> dict[str, Any]:
        """Until a job is in one of these states; returns the job."""
        self.until(lambda: self.job(name)["state"] in states, f"{name} is {' or '.join(states)}")
        return self.job(name)

    def wait_until_some(self, name: str, stages: int) -> None:
        """Until so many completions of a job are stored."""
        self.until(lambda: self.job(name).get("stages_done", 0) >= stages, f"{name} has {stages} stages")

    @contextlib.contextmanager
    def engine_stands_still(self) -> Iterator[None]:
        """No job ends as long as the block runs: the engine that was started last is stopped (SIGSTOP)."""
        record = self.engine_record()
        assert record is not None
        os.kill(record.pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(record.pid, signal.SIGCONT)

    def wait_until_cold(self) -> None:
        """Wait until the daemon reports no engine."""
        self.until(lambda: not self.api.get("/v1/status").value["engines"], "every engine is gone")

    def samples(self, name: str) -> list[dict[str, Any]]:
        """Return all stored samples of a job, fetched page by page."""
        found: list[dict[str, Any]] = []
        after = -1
        while True:
            page = self.api.get(f"/v1/jobs/{name}/samples", limit=1000, after=after).value
            found += page["items"]
            after = page.get("next", -1)
            if after < 0:
                return found

    def answers_of(self, name: str) -> dict[tuple[int, int], list[str]]:
        """(row, repeat) -> completions of all stages."""
        return {(s["row"], s["repeat"]): [stage["completion"] for stage in s["stages"]] for s in self.samples(name)}

    def stage_lines(self, name: str) -> list[tuple[int, int, int]]:
        """(row, repeat, stage) of every stage line in all samples files of a job, torn lines left out."""
        places = []
        for path in (self.home / "runs" / name).glob("samples-*.jsonl"):
            for line in path.read_bytes().splitlines():
                try:
                    record = json.loads(line)
                except ValueError:
                    continue
                if record["type"] == "stage":
                    places.append((record["row"], record["repeat"], record["stage"]))
        return places

    def worker(self, path: Path) -> worker_process.ShimRecord | None:
        return worker_process.read_record(path)

    def engine_record(self) -> worker_process.ShimRecord | None:
        """The engine that was started last."""
        paths = sorted((self.home / "runs" / "engines").glob("e*/record.json"), key=lambda p: int(p.parent.name[1:]))
        return worker_process.read_record(paths[-1]) if paths else None

    def runner_record(self, name: str) -> worker_process.ShimRecord | None:
        """The last attempt of a job."""
        paths = sorted((self.home / "runs" / name).glob("record-*.json"), key=lambda p: int(p.stem[7:]))
        return worker_process.read_record(paths[-1]) if paths else None

    def log(self) -> str:
        return (self.home.parent / "daemon.log").read_text(errors="replace")[-6000:]

    def close(self) -> None:
        """End the daemon and everything it started, each by a pid that is proved to be ours."""
        if self.daemon is not None and self.daemon.poll() is None:
            self.daemon.kill()
            self.daemon.wait()
        for path in [*self.home.glob("runs/engines/e*/record.json"), *self.home.glob("runs/j*/record-*.json")]:
            record = worker_process.read_record(path)
            if record and not record.done and worker_process.is_same(record.shim, record.shim_start):
                with contextlib.suppress(ProcessLookupError):  # it has just ended, and its shim is about to say so
                    os.kill(record.pid, signal.SIGKILL)
        wait_for(lambda: not self.kill_strays(), "no process of the node is left")

    def kill_strays(self) -> list[int]:
        """A worker that was being started when the daemon was killed has no record yet: it is known by our home, in its
        command line or, as long as it still has the daemon's, in its environment. Returns the pids; one of them may
        have started another meanwhile."""
        found, home = [], os.fsencode(self.home)
        for line in Path("/proc").glob("[0-9]*/cmdline"):
            with contextlib.suppress(OSError):
                words = line.read_bytes()
                if home in words or (b"rwkv_daemon" in words and home in (line.parent / "environ").read_bytes()):
                    found.append(int(line.parent.name))
        found += self.forks.orphans() if self.forks else []
        for pid in found:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return found


def kill_worker(record: worker_process.ShimRecord | None, number: int = signal.SIGKILL) -> bool:
    """kill -9 of a worker (not of its shim), if it still runs; with SIGSEGV it ends as by a crash of its own.

    Returns once it is dead: until then an engine can answer it, and those answers are lost."""
    if record is None or record.done or not worker_process.is_same(record.pid, record.pid_start):
        return False
    os.kill(record.pid, number)
    wait_for(lambda: not worker_process.is_same(record.pid, record.pid_start), f"process {record.pid} is dead")
    return True
