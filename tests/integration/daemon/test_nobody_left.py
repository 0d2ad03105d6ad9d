"""Nothing goes on for nobody: engines without a daemon and without work, and every process whose home is gone. The
processes are real, and so are the kills; that something stays is seen by its step counter moving on."""

import json
import os
import shutil
import signal
import subprocess
import sys
import uuid as uuids
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from waiting import LIMIT_S, wait_for

from rwkv_daemon.workers import worker_process
from rwkv_daemon.workers.worker_process import Launch, Worker

UNLOADED = 5
DEMO_STOP = Path(__file__).resolve().parents[3] / "scripts" / "demo-stop"
LiveNode = Any
NewNode = Callable[..., Any]


def named(home: Path) -> list[str]:
    """The processes that know a home by its name, in their command line or their environment."""
    found = []
    for pid in worker_process.everybody():
        try:
            words = Path(f"/proc/{pid}/cmdline").read_bytes() + worker_process.environment_of(pid)
        except OSError:
            continue
        if os.fsencode(home) in words and worker_process.state_of(pid) not in {"gone", worker_process.STATES["Z"]}:
            shown = words.replace(b"\0", b" ")[:200].decode(errors="replace")
            found.append(f"{pid}: {shown}")
    return found


def beat(node: LiveNode, engine: str = "e1") -> int:
    return int.from_bytes((node.home / "runs" / "engines" / engine / "live").read_bytes()[:8], "little")


def goes_on(node: LiveNode, engine: str = "e1") -> None:
    """Its step counter moves some times more: it has looked meanwhile whether it is wanted."""
    before = beat(node, engine)
    wait_for(lambda: beat(node, engine) >= before + 6, f"{engine} goes on", node.log)
    record = worker_process.read_record(node.home / "runs" / "engines" / engine / "record.json")
    assert record is not None
    assert not record.done


def states(node: LiveNode) -> list[tuple[str, str]]:
    """(engine, text) of every event about an engine."""
    found = map(json.loads, node.api.stream("/v1/events", 30.0, since=0, follow="no"))
    return [(event["engine"], event["text"]) for event in found if event["kind"] == "engine.state"]


def idle_engine(node: LiveNode) -> worker_process.ShimRecord:
    """A node's engine after its work."""
    (name,) = node.dispatch(limit=3)
    node.wait_for_state(name, "done")
    node.until(lambda: node.runner_record(name).done, "its runner has ended")
    return node.engine_record()


@pytest.mark.parametrize("how", ["killed", "terminated"])
def test_an_engine_without_daemon_and_work_unloads_itself_and_nobody_is_blamed(new_node: NewNode, how: str) -> None:
    node = new_node(idle_unload_s="3").start()
    before = idle_engine(node)
    socket = node.home / "run" / "e1.sock"
    assert socket.exists()
    node.kill() if how == "killed" else node.terminate()
    wait_for(lambda: node.engine_record().done, "it has unloaded itself", node.log)
    wait_for(
        lambda: not worker_process.is_same(before.shim, before.shim_start), "its shim is gone, and with it the lease"
    )
    assert (node.engine_record().code, socket.exists()) == (UNLOADED, False)
    assert "no daemon runs, and there was no work for 3 s" in (node.home / "runs/engines/e1/log.txt").read_text()
    node.start()
    told = [text for engine, text in states(node) if engine == "e1"]
    assert told[-1].endswith("is gone: no daemon ran and it had no work: it unloaded itself")
    (name,) = node.dispatch(only_datasets=["demo_choice"], limit=3)
    job = node.wait_for_state(name, "done", "failed")
    assert (job["state"], job.get("restarts", 0)) == ("done", 0)


def test_a_daemon_that_was_stopped_is_still_one(new_node: NewNode) -> None:
    node = new_node(idle_unload_s="1").start()
    node.engines_do(answers=0)
    (name,) = node.dispatch(limit=3)
    node.until(lambda: node.job(name)["state"] == "starting" and node.runner_record(name), "it is at work")
    os.kill(node.daemon.pid, signal.SIGSTOP)
    try:
        node.engines_do()
        wait_for(lambda: node.runner_record(name).done, "its work is done", node.log)
        goes_on(node)
    finally:
        os.kill(node.daemon.pid, signal.SIGKILL)
    wait_for(lambda: node.engine_record().done, "now it has unloaded itself", node.log)
    assert node.engine_record().code == UNLOADED


def test_a_runner_keeps_its_engine_without_a_daemon_and_the_engine_goes_after_it(new_node: NewNode) -> None:
    node = new_node(idle_unload_s="0.5").start()
    node.engines_do(answers=5)
    (name,) = node.dispatch(limit=20)
    node.wait_until_some(name, 5)
    node.kill()
    goes_on(node)
    node.engines_do()
    wait_for(lambda: node.runner_record(name).done, "the runner has done its work", node.log)
    assert node.runner_record(name).code == 0
    wait_for(lambda: node.engine_record().done, "the engine follows", node.log)
    assert node.engine_record().code == UNLOADED
    node.start()
    assert node.wait_for_state(name, "done", "failed")["state"] == "done"


def test_an_engine_that_unloads_itself_as_the_daemon_comes_back_is_no_failure(new_node: NewNode) -> None:
    """Its shim is stopped, so that the new daemon finds it alive, and the engine's end comes after that."""
    node = new_node(idle_unload_s="0.5").start()
    node.engines_do(answers=0)
    (name,) = node.dispatch(limit=3)
    node.until(lambda: node.job(name)["state"] == "starting" and node.runner_record(name), "it is at work")
    engine, runner = node.engine_record(), node.runner_record(name)
    node.kill()
    os.kill(engine.shim, signal.SIGSTOP)
    os.kill(runner.pid, signal.SIGKILL)
    wait_for(
        lambda: worker_process.state_of(engine.pid) == worker_process.STATES["Z"], "it has unloaded itself", node.log
    )
    node.engines_do()
    node.start()
    os.kill(engine.shim, signal.SIGCONT)
    job = node.wait_for_state(name, "done", "failed")
    assert job["state"] == "done"
    told = [text for one, text in states(node) if one == "e1"]
    assert told[-1].endswith("is gone: no daemon ran and it had no work: it unloaded itself")
    assert not any("is failed" in text for _, text in states(node))


def test_a_worker_that_still_looks_like_the_daemon_does_not_outlive_a_test_node(new_node: NewNode) -> None:
    """As a child has its parent's command line until it runs a program of its own."""
    node = new_node()
    words = [sys.executable, "-c", "input()", "rwkv_daemon"]
    forked = subprocess.Popen(words, stdin=subprocess.PIPE, env=node.environment)
    assert forked.stdin is not None
    wait_for(lambda: b"rwkv_daemon" in Path(f"/proc/{forked.pid}/cmdline").read_bytes(), "it runs")
    node.close()
    assert forked.wait(timeout=LIMIT_S) == -signal.SIGKILL
    forked.stdin.close()


def test_nor_does_one_that_was_forked_by_a_daemon_that_is_gone(new_node: NewNode) -> None:
    node = new_node().start()
    mark = os.fsdecode(node.forks.mark)
    with subprocess.Popen([sys.executable, "-c", "input()", mark], stdin=subprocess.PIPE) as orphan:
        wait_for(lambda: node.forks.orphans() == [orphan.pid], "it alone is known as such, beside a daemon that runs")
        node.close()
        assert orphan.wait(timeout=LIMIT_S) == -signal.SIGKILL


@pytest.mark.parametrize("again", [False, True])
def test_of_a_home_that_was_deleted_nothing_is_left(new_node: NewNode, again: bool) -> None:
    """Engine, runner, and what grades, with a job in the middle. Where another home of that name has come by then, none
    of them writes into it."""
    node = new_node(idle_unload_s="600").start()
    node.engines_do(answers=5)
    (name,) = node.dispatch(limit=20)
    node.wait_until_some(name, 5)
    node.kill()
    assert len(named(node.home)) >= 4
    while node.home.exists():  # they write meanwhile
        shutil.rmtree(node.home, ignore_errors=True)
    if again:
        (node.home / "runs" / "engines" / "e1").mkdir(parents=True)
        (node.home / "runs" / name).mkdir()
    wait_for(lambda: not named(node.home), "all of them are gone", lambda: named(node.home))
    left = sorted(str(path.relative_to(node.home)) for path in node.home.rglob("*"))
    assert left == (["runs", "runs/engines", "runs/engines/e1", f"runs/{name}"] if again else [])


def test_the_daemon_and_its_sampler_go_with_each_other_even_where_the_driver_hangs(
    fake_nvml: Any, new_node: NewNode
) -> None:
    """A sampler that hangs in the driver does not hear that nobody listens to it any more."""
    fake_nvml.gpus(1)
    node = new_node(sampler_deadline_s="600").start()

    node.until(lambda: [one["use"] for one in node.api.get("/v1/gpus").value["items"]] == ["free"], "the GPU is seen")
    fake_nvml.rule("hang nvmlDeviceGetUtilizationRates 0")
    (sampler,) = samplers_of(node.daemon.pid)
    wait_for(lambda: Path(f"/proc/{sampler}/syscall").read_text().split()[0] in PAUSED, "it hangs")
    node.kill()
    wait_for(lambda: worker_process.state_of(sampler) == "gone", "the sampler is gone")


PAUSED = {"34", "73"}
"""The system calls (of x86-64 and of ARM) in which the fake driver hangs."""


def samplers_of(parent: int) -> list[int]:
    found = []
    for pid in worker_process.everybody():
        try:
            words = Path(f"/proc/{pid}/cmdline").read_bytes()
            of = int(Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[1])
        except OSError:
            continue
        if of == parent and b"rwkv_daemon.gpus.sampler_main" in words:
            found.append(pid)
    return found


def demo_stop(home: Path) -> None:
    subprocess.run(["sh", str(DEMO_STOP)], env={**os.environ, "RWKVCTL_HOME": str(home)}, check=True, timeout=LIMIT_S)


def test_demo_stop_leaves_nothing_and_touches_no_other_home(new_node: NewNode) -> None:
    """The lock of the first home is old: its number is by now that of another home's daemon."""
    node, other = new_node(), new_node()
    for one in (node, other):
        one.forks = None  # the script knows a daemon by its command line
        one.start()
    node.engines_do(answers=5)
    (name,) = node.dispatch(limit=20)
    node.wait_until_some(name, 5)
    demo_stop(node.home)
    wait_for(lambda: not named(node.home), "all of them are gone", lambda: named(node.home))
    assert not [path for path in (node.home / "run").iterdir() if path.is_socket()]
    assert (node.engine_record().done, node.runner_record(name).done) == (True, True)
    (node.home / "daemon.lock").write_text(f"{other.daemon.pid}\n")
    demo_stop(node.home)
    assert other.answers()
    demo_stop(node.home / "none")


# -- the shim alone

STUBBORN = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        print("ready", os.getpid(), flush=True)
        time.sleep(600)
    os._exit(0)
os.wait()
if sys.argv[1] == "ends":
    sys.exit(3)
time.sleep(600)
"""


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Worker]]:
    """Starts Python code as a worker in a run directory of its own."""
    workers: list[Worker] = []

    def begin(code: str, *arguments: str) -> Worker:
        folder = tmp_path / "run"
        folder.mkdir()
        launch = Launch(
            uuid=str(uuids.uuid4()), argv=(sys.executable, "-I", "-S", "-c", code, *arguments),
            record=folder / "record.json", log=folder / "log.txt", environment={"PATH": os.environ["PATH"]},
        )  # fmt: skip
        workers.append(worker_process.start(launch))
        wait_for(lambda: "ready" in (folder / "log.txt").read_text(), "it runs")
        return workers[-1]

    yield begin
    for worker in workers:
        worker_process.sweep(worker.uuid)
        assert worker.popen is not None
        worker.popen.wait(LIMIT_S)
        os.close(worker.pidfd)


@pytest.mark.parametrize("how", ["removed", "moved", "replaced"])
def test_a_worker_whose_run_directory_is_gone_is_ended_with_what_it_started(
    start: Callable[..., Worker], tmp_path: Path, how: str
) -> None:
    worker, folder = start(STUBBORN, "stays"), tmp_path / "run"
    if how == "removed":
        shutil.rmtree(folder)
    else:
        folder.rename(tmp_path / "elsewhere")
        if how == "replaced":
            folder.mkdir()
    wait_for(lambda: worker_process.has_ended(worker), "it is gone, and its escapee with it")
    assert not list(worker_process.members(worker.uuid))
    assert not (folder.exists() and list(folder.iterdir())), "nothing was written into another's place"
    if how != "removed":
        record = worker_process.read_record(tmp_path / "elsewhere" / "record.json")
        assert record is not None
        assert (record.done, record.signal) == (True, signal.SIGKILL)


def test_what_a_worker_leaves_behind_is_ended_without_a_daemon(start: Callable[..., Worker], tmp_path: Path) -> None:
    worker = start(STUBBORN, "ends")
    wait_for(lambda: worker_process.has_ended(worker), "the escapee is gone, and the shim with it")
    record = worker_process.read_record(tmp_path / "run" / "record.json")
    assert record is not None
    assert record.code == 3


TIED = """
import subprocess, time
from rwkv_daemon.workers import tied_process
child = subprocess.Popen([*tied_process.command("http.server"), "--bind", "127.0.0.1", "0"], stdout=-3, stderr=-3)
print(child.pid, flush=True)
time.sleep(600)
"""
MATHS = """
import time
from rwkv_data.graders.maths.maths_worker import MathsWorker
process = MathsWorker()
process._start()
print(process._child.pid, flush=True)
time.sleep(600)
"""
GRAMMARS = """
import time
from rwkv_engine.constraints.compile_in_child import TrialCompiler
trial_compiler = TrialCompiler()
assert trial_compiler.fault('start: "a"') == ""
print(trial_compiler._child.pid, flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize("code", [TIED, MATHS, GRAMMARS], ids=["tied", "maths worker", "compiler of grammars"])
def test_a_helper_ends_when_whoever_started_it_is_killed(code: str) -> None:
    parent = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    wait_for(lambda: code != TIED or b"http.server" in Path(f"/proc/{child}/cmdline").read_bytes(), "it runs")
    assert worker_process.state_of(child) != "gone"
    parent.kill()
    parent.wait()
    parent.stdout.close()
    wait_for(lambda: worker_process.state_of(child) in {"gone", worker_process.STATES["Z"]}, "it is gone")
