"""A real daemon on a home of its own, with engines and runners as real processes, for every integration test."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from rwkv_daemon import processes
from rwkvctl.client import Client
from rwkvctl.protocol.errors import RwkvctlError

FAST = {
    "RWKVCTL_RESTART_BACKOFF_S": "0.05",
    "RWKVCTL_STOP_GRACE_S": "5",
    "RWKVCTL_STOP_TERM_S": "5",
    "RWKVCTL_ENGINE_THREADS": "1",
    "RWKVCTL_NUMERICS": "fp32",
    "RWKVCTL_MAX_RESTARTS": "20",
}


@dataclass
class LiveNode:
    """One home and the daemon on it."""

    home: Path
    settings: dict[str, str] = field(default_factory=dict)
    daemon: subprocess.Popen[bytes] | None = None

    @property
    def environment(self) -> dict[str, str]:
        plain = {name: text for name, text in os.environ.items() if not name.startswith("RWKVCTL_")}
        own = {"RWKVCTL_HOME": str(self.home), "RWKVCTL_LEASE_DIR": str(self.home.parent.parent)}
        return plain | FAST | own | self.settings

    @property
    def socket(self) -> Path:
        return Path(self.settings.get("RWKVCTL_SOCKET", self.home / "run" / "daemon.sock"))

    @property
    def api(self) -> Client:
        return Client(str(self.socket), timeout_s=30.0, tries=1)

    def start(self, **markers: str) -> "LiveNode":
        """Start the daemon and wait until it answers (or has died, if a crash point is set)."""
        with (self.home.parent / "daemon.log").open("ab") as log:
            self.daemon = subprocess.Popen(
                [sys.executable, "-m", "rwkv_daemon"], env=self.environment | markers, stdout=log, stderr=log
            )
        wait_for(lambda: self.answers() or self.daemon.poll() is not None, 30, "the daemon answers")
        return self

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
        return self.daemon.wait(timeout=20)

    def cli(self, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """The real CLI."""
        found = subprocess.run(
            [sys.executable, "-m", "rwkvctl.cli", *arguments],
            env=self.environment, capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
        assert not check or found.returncode == 0, found.stderr
        return found

    def dispatch(self, **selection: Any) -> list[str]:
        """Queue jobs of the built-in checkpoint; returns their names."""
        wanted = {"models": ["builtin"], "only_datasets": ["demo_arith"]} | selection
        return list(self.api.post("/v1/dispatch", {"selection": wanted}).value["jobs"])

    def job(self, name: str) -> dict[str, Any]:
        return dict(self.api.get(f"/v1/jobs/{name}").value["item"])

    def wait_for_state(self, name: str, *states: str, timeout_s: float = 90) -> dict[str, Any]:
        wait_for(lambda: self.job(name)["state"] in states, timeout_s, f"{name} is {' or '.join(states)}", self.log)
        return self.job(name)

    def wait_until_some(self, name: str, stages: int) -> None:
        """Until so many completions of a job are stored."""
        wait_for(lambda: self.job(name).get("stages_done", 0) >= stages, 60, f"{name} has {stages} stages", self.log)

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
        """Until no engine runs."""
        wait_for(lambda: not self.api.get("/v1/status").value["engines"], 60, "every engine is gone", self.log)

    def samples(self, name: str) -> list[dict[str, Any]]:
        """Every stored sample."""
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

    def worker(self, path: Path) -> processes.ShimRecord | None:
        return processes.read_record(path)

    def engine_record(self) -> processes.ShimRecord | None:
        """The engine that was started last."""
        paths = sorted((self.home / "runs" / "engines").glob("e*/record.json"), key=lambda p: int(p.parent.name[1:]))
        return processes.read_record(paths[-1]) if paths else None

    def runner_record(self, name: str) -> processes.ShimRecord | None:
        """The last attempt of a job."""
        paths = sorted((self.home / "runs" / name).glob("record-*.json"), key=lambda p: int(p.stem[7:]))
        return processes.read_record(paths[-1]) if paths else None

    def log(self) -> str:
        return (self.home.parent / "daemon.log").read_text(errors="replace")[-6000:]

    def close(self) -> None:
        """End the daemon and everything it started, each by a pid that is proved to be ours."""
        if self.daemon is not None and self.daemon.poll() is None:
            self.daemon.kill()
            self.daemon.wait()
        for path in [*self.home.glob("runs/engines/e*/record.json"), *self.home.glob("runs/j*/record-*.json")]:
            record = processes.read_record(path)
            if record and not record.done and processes.is_same(record.shim, record.shim_start):
                os.kill(record.pid, signal.SIGKILL)
        self.kill_strays()

    def kill_strays(self) -> None:
        """A worker that was being started when the daemon was killed has no record yet: it is known by our home."""
        for line in Path("/proc").glob("[0-9]*/cmdline"):
            with contextlib.suppress(OSError):
                if os.fsencode(self.home) in line.read_bytes():
                    os.kill(int(line.parent.name), signal.SIGKILL)


def wait_for(what: Callable[[], object], timeout_s: float, saying: str, log: Callable[[], str] = lambda: "") -> None:
    """Poll until something is true; fail with a sentence and the log's end."""
    deadline = time.monotonic() + timeout_s
    while not what():
        if time.monotonic() > deadline:
            pytest.fail(f"waited {timeout_s} s in vain until {saying}\n{log()}")
        time.sleep(0.02)


def kill_worker(record: processes.ShimRecord | None) -> bool:
    """kill -9 of a worker (not of its shim), if it still runs."""
    if record is None or record.done or not processes.is_same(record.pid, record.pid_start):
        return False
    os.kill(record.pid, signal.SIGKILL)
    return True


class FakeNvml:
    """What the fake NVML library answers (`daemon/fake_nvml.c` has every word of it). Each method takes effect at once,
    as one change of the file. Memory that processes hold counts as used."""

    def __init__(self, library: Path, state: Path) -> None:
        self.environment = {"LD_LIBRARY_PATH": str(library), "FAKE_NVML_STATE": str(state)}
        self.state = state
        self.cards: dict[int, dict[str, Any]] = {}
        self.processes: dict[tuple[int, int], dict[str, Any]] = {}
        self.events: list[str] = []
        self.others: list[str] = []
        self.write()

    def gpus(self, count: int) -> "FakeNvml":
        """So many idle GPUs, and nothing else."""
        self.cards, self.processes, self.others = {index: {} for index in range(count)}, {}, []
        return self.write()

    def gpu(self, index: int, **values: Any) -> "FakeNvml":
        """Set values of one GPU: util=97, temp=80, lost=1, uuid=..."""
        self.cards.setdefault(index, {}).update(values)
        return self.write()

    def remove(self, index: int) -> "FakeNvml":
        """The GPU is not counted any more."""
        del self.cards[index]
        return self.write()

    def process(self, index: int, pid: int, mem: int = 2**30, **values: Any) -> "FakeNvml":
        """A process that holds memory of a GPU."""
        self.processes[index, pid] = {"pid": pid, "mem": mem} | values
        return self.write()

    def end(self, pid: int) -> "FakeNvml":
        """A process gives up what it holds."""
        self.processes = {key: values for key, values in self.processes.items() if values["pid"] != pid}
        return self.write()

    def xid(self, index: int, code: int) -> "FakeNvml":
        """An XID event."""
        self.events.append(f"event {index} type=8 data={code}")
        return self.write()

    def rule(self, *lines: str) -> "FakeNvml":
        """`fail FUNCTION CODE [GPU]`, `delay ...`, `hang FUNCTION [GPU]`, `mig ...`, in place of those before."""
        self.others = list(lines)
        return self.write()

    def uuid(self, index: int) -> str:
        """The UUID of a GPU that was given none."""
        return str(self.cards[index].get("uuid", f"GPU-fa4e{index:04d}-0000-4000-8000-{index:012d}"))

    def write(self) -> "FakeNvml":
        """Put the scenario in force."""
        held = {index: sum(v["mem"] for (i, _), v in self.processes.items() if i == index) for index in self.cards}
        cards = [
            " ".join([f"gpu {index}", *(f"{k}={v}" for k, v in ({"used": held[index]} | values).items())])
            for index, values in self.cards.items()
        ]
        processes = [
            " ".join([f"proc {index}", *(f"{k}={v}" for k, v in values.items())])
            for (index, _), values in self.processes.items()
        ]
        temporary = self.state.with_suffix(".new")
        temporary.write_text("".join(f"{line}\n" for line in [*cards, *processes, *self.events, *self.others]))
        temporary.replace(self.state)
        return self


@pytest.fixture(scope="session")
def nvml_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the fake NVML library, built once."""
    folder = tmp_path_factory.mktemp("nvml")
    source = Path(__file__).parent / "daemon" / "fake_nvml.c"
    options = ["-O1", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-Wl,-soname,libnvidia-ml.so.1"]
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("needs gcc: not installed")
    subprocess.run([compiler, *options, "-o", folder / "libnvidia-ml.so.1", source], check=True)
    return folder


@pytest.fixture
def fake_nvml(nvml_library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeNvml:
    """A fake NVML for every process that is started from now on; without any GPU until the test adds some."""
    fake = FakeNvml(nvml_library, tmp_path / "nvml.txt")
    for name, value in fake.environment.items():
        monkeypatch.setenv(name, value)
    return fake


@pytest.fixture(scope="session")
def node_kind() -> type[LiveNode]:
    """The class of nodes, for tests that cannot import this file."""
    return LiveNode


@pytest.fixture
def new_node(tmp_path: Path) -> Iterator[Callable[..., LiveNode]]:
    """Makes nodes; ends them all afterwards."""
    made: list[LiveNode] = []

    def make(**settings: str) -> LiveNode:
        home = tmp_path / f"n{len(made)}" / "h"
        home.mkdir(parents=True)
        made.append(LiveNode(home, {f"RWKVCTL_{name.upper()}": value for name, value in settings.items()}))
        return made[-1]

    yield make
    for node in made:
        node.close()


@pytest.fixture
def node(new_node: Callable[..., LiveNode]) -> LiveNode:
    """A running node."""
    return new_node().start()


@pytest.fixture
def tools() -> Any:
    """wait_for and kill_worker, for tests that cannot import this file."""

    class Tools:
        wait_for = staticmethod(wait_for)
        kill_worker = staticmethod(kill_worker)

    return Tools
