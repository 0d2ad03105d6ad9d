"""A private node for chaos: a home on a small disk of its own, a judge, a wall clock that can be set, a restarter."""

import contextlib
import importlib
import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

TESTS = Path(__file__).resolve().parents[1]
CLOCK = Path(__file__).with_name("skewed_clock.c")
DISK_MB = 96
SETTINGS = {
    "RWKVCTL_IDLE_UNLOAD_S": "3",
    "RWKVCTL_STOP_GRACE_S": "4",
    "RWKVCTL_STOP_TERM_S": "2",
    "RWKVCTL_ENGINE_HANG_S": "20",
    "RWKVCTL_MAX_RESTARTS": "50",
    "RWKVCTL_MIN_FREE_DISK_BYTES": "4000000",
    "JUDGE_MODEL": "fake-judge-1",
    "JUDGE_API_KEY": "k" * 20,
}
JUDGED = """
from dataclasses import replace

from rwkv_data.benchmark import by_name
from rwkv_data.benchmarks.demo_arith import BENCHMARK as SUMS
from rwkv_data.graders.judged import judged
from rwkv_data.graders.text import EXACT
from rwkv_data.judges import rule

KIND = replace(SUMS.default_kind, name="free_response_judge", grader=judged(EXACT, rule("rwkv-skills-v1")))
BENCHMARK = replace(SUMS, name="judged_sums", kinds=by_name([KIND]))
"""


def beside(path: Path, name: str) -> ModuleType:
    """A module of the tests, which are no package."""
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


sys.path.insert(0, str(TESTS / "support"))
live_node = importlib.import_module("live_node")
databases = beside(TESTS / "integration" / "daemon" / "conftest.py", "databases_of_chaos")
fake_judge = importlib.import_module("fake_judge")


FOUND = {
    "checker_cot": "", "answer_correct": False, "instruction_following_error": False, "world_knowledge_error": False,
    "math_error": True, "reasoning_logic_error": False, "thought_contains_correct_answer": False,
    "reason": "off by one",
}  # fmt: skip


def plainly(asked: Any) -> Any:
    """What the judge says at its best: nothing that it would be asked again for."""
    return fake_judge.Do(json.dumps(FOUND) if "thought_contains_correct_answer" in asked.prompt else "True")


@dataclass
class World:
    """What chaos acts upon. `deaths` are the moments (monotonic) at which the daemon ended or could not write; `broken`
    are rules that did not hold in the middle of it."""

    folder: Path
    node: Any
    judge: Any
    small_disk: bool
    server: Any = None
    notes: list[str] = field(default_factory=list)
    deaths: list[float] = field(default_factory=list)
    jobs: list[str] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)

    @property
    def home(self) -> Path:
        return Path(self.node.home)

    @property
    def daemon_pid(self) -> int:
        return int(self.node.daemon.pid)

    def keep_up(self) -> None:
        """What systemd would do: start a daemon that has ended."""
        if self.node.daemon.poll() is not None:
            self.deaths.append(time.monotonic())
            self.start()

    def start(self) -> None:
        """Start the daemon, whatever the disk and the database are like just now."""
        self.node.start()
        if self.node.daemon.poll() is not None:
            raise AssertionError(f"the daemon does not start:\n{self.node.log()}")

    def must_answer(self, when: str) -> None:
        """The daemon lives, so it says how it is, with or without a store."""
        try:
            self.node.api.get("/v1/status")
        except (OSError, live_node.RwkvctlError) as error:
            if self.node.daemon.poll() is None and self.node.socket.exists():
                self.broken.append(f"no status {when}: {error}")

    def set_clock(self, seconds: int) -> None:
        """Put the node's wall clock so many seconds off."""
        (self.folder / "skew").write_text(str(seconds))

    def records(self) -> list[tuple[str, Any]]:
        """(who, shim's record) of every worker that runs."""
        found = []
        paths = [*self.home.glob("runs/engines/e*/record.json"), *self.home.glob("runs/j*/record-*.json")]
        for path in paths:
            record = live_node.worker_process.read_record(path)
            if record and not record.done and live_node.worker_process.is_same(record.shim, record.shim_start):
                found.append((f"{path.parent.name}/{path.stem}", record))
        return found

    def processes(self) -> dict[int, str]:
        """Every process that names our home in its command line or carries it in its environment, but the daemon."""
        found = {}
        for line in Path("/proc").glob("[0-9]*/cmdline"):
            pid = int(line.parent.name)
            with contextlib.suppress(OSError):
                text = line.read_bytes().replace(b"\0", b" ")
                if os.fsencode(self.home) in text and pid not in {os.getpid(), self.daemon_pid}:
                    found[pid] = text.decode(errors="replace")[:160]
        return found


@contextlib.contextmanager
def world(keep: bool = False, postgres: bool = False, real_engine: bool = True) -> Iterator[World]:
    """Build it, with a store in a PostgreSQL server of its own if asked, and take all of it away again."""
    folder = Path(tempfile.mkdtemp(prefix="chaos"))
    disk = folder / "d"
    disk.mkdir()
    small = mount(disk)
    with fake_judge.in_thread(fake_judge.FakeJudge(plainly)) as judge, contextlib.ExitStack() as undo:
        undo.callback(unmount, disk, small)
        (folder / "tmp").mkdir()
        config = folder / "config" / "rwkvctl" / "benchmarks"
        config.mkdir(parents=True)
        (config / "judged_sums.py").write_text(JUDGED, encoding="utf-8")
        home = disk / "h"
        home.mkdir()
        environment = SETTINGS | {"JUDGE_BASE_URL": judge.url, "XDG_CONFIG_HOME": str(folder / "config")}
        environment |= {"TMPDIR": str(folder / "tmp")} | skewed(folder)
        server = undo.enter_context(databases.private_server(databases.server_programs())) if postgres else None
        environment |= {"RWKVCTL_STORE": server.database()} if server else {}
        node = live_node.LiveNode(home, environment, real_engine)
        made = World(folder, node, judge, small, server)
        undo.callback(node.close)
        yield made
    if not keep:
        shutil.rmtree(folder)


def mount(disk: Path) -> bool:
    """A disk that can be full, where we may mount one."""
    if os.geteuid() != 0 or not shutil.which("mount"):
        return False
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={DISK_MB}m", "tmpfs", str(disk)], capture_output=True, check=False
    )
    return done.returncode == 0


def unmount(disk: Path, mounted: bool) -> None:
    """The store's files go with it."""
    if mounted:
        subprocess.run(["umount", "-l", str(disk)], check=False)


def skewed(folder: Path) -> dict[str, str]:
    """The environment that gives a program the clock of `set_clock`; none without a C compiler."""
    (folder / "skew").write_text("0")
    library = folder / "skewed_clock.so"
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        return {}
    subprocess.run([compiler, "-shared", "-fPIC", "-O2", "-o", str(library), str(CLOCK), "-ldl"], check=True)
    return {"LD_PRELOAD": str(library), "SKEW_FILE": str(folder / "skew")}


def kill(pid: int, number: signal.Signals) -> bool:
    """Whether it was there to be hit."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return False
    return True


def said(value: object) -> str:
    return json.dumps(value, default=str)[:200]
