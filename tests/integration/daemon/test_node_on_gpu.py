"""A whole node on a real GPU: the daemon, its sampler of NVML, leases, an engine on CUDA and the runner. What the fake
NVML is made to say elsewhere is seen here from the driver, and what the stub engine plays is computed."""

import contextlib
import csv
import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import waiting
from live_node import kill_worker
from waiting import wait_for

from rwkv_daemon.rules.gpu_facts import GpuReading, GpuSnapshot
from rwkv_daemon.workers import worker_process

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.real_engine,
    pytest.mark.skipif(not Path("/dev/nvidia0").exists(), reason="needs a GPU: there is no /dev/nvidia0"),
]
LiveNode = Any
NewNode = Callable[..., Any]
LIMIT_S = 60.0
"""Below the usual one: the whole file has to end, and to report, within the minutes for which a GPU is lent."""
STRANGER_BYTES = 4 * 2**30
CONTEXT_BYTES = 200 * 2**20
"""Less than any CUDA context takes of a GPU's memory."""
DEMOS = ["demo_arith", "demo_choice"]
LONG = {"settings": {"k": "16", "temperature": "2.5"}}
"""4,800 samples: seconds of work for the four sequences at once that the node's engines have."""
SMI = shutil.which("nvidia-smi") or shutil.which("nvidia-smi", path="/usr/local/nvidia/bin")
STRANGER = f"""
import torch
held = torch.empty({STRANGER_BYTES}, dtype=torch.uint8, device="cuda")
torch.cuda.synchronize()
print("ready", flush=True)
input()
"""


@pytest.fixture(scope="module")
def shared(module_node: NewNode) -> LiveNode:
    """A node whose first engine has been ready: the kernels are compiled, which takes a minute where they never were.

    Only `fp32` may run on its CPU. An engine without work stays for longer than a test needs to dispatch again."""
    settings = {"numerics": "exact", "engine_slots": "4", "engine_threads": "8", "idle_unload_s": "10"}
    node = module_node(**settings, cpu_engines="true", max_restarts="2", sampler_deadline_s="30").start()
    node.until(lambda: gpus(node), "the GPU is known")
    if others := [gpu["index"] for gpu in gpus(node)[1:]]:
        node.cli("gpus", "reserve", *others, "--for", "others: these tests use the first GPU")
    finish(node, limit=5)
    return node


@pytest.fixture(autouse=True)
def limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "LIMIT_S", LIMIT_S)


def gpus(node: LiveNode) -> list[dict[str, Any]]:
    """The GPUs as `rwkvctl gpus` shows them."""
    return list(json.loads(node.cli("gpus", "--json").stdout)["items"])


def first_gpu(node: LiveNode) -> dict[str, Any]:
    return dict(node.api.get("/v1/gpus").value["items"][0])


def condition(gpu: dict[str, Any]) -> str:
    return str(gpu.get("condition", "ok"))


def engines(node: LiveNode) -> list[dict[str, Any]]:
    return list(node.api.get("/v1/status").value["engines"])


def ended(node: LiveNode, name: str) -> dict[str, Any]:
    """A job that is done, with all of its samples, none of them generated twice and each with a verdict."""
    job = node.wait_for_state(name, "done", "failed", "held")
    assert job["state"] == "done", (job, engine_log(node))
    assert (job["done"], job["score"]["n"], job["score"]["scored"]) == (job["total"],) * 3
    lines = node.stage_lines(name)
    assert len(lines) == len(set(lines)) == job["total"]
    return dict(job)


def finish(node: LiveNode, **selection: Any) -> list[dict[str, Any]]:
    """Dispatch, and wait for the end of every job."""
    return [ended(node, name) for name in node.dispatch(**selection)]


def begun(node: LiveNode, seed: int) -> str:
    """A long job of which some samples are stored. Its seed makes it another work than every other job's."""
    (name,) = node.dispatch(**LONG, seed=seed)
    node.wait_until_some(name, 1)
    return str(name)


def engine_log(node: LiveNode) -> str:
    """The end of the log of the engine that was started last."""
    logs = sorted(node.home.glob("runs/engines/e*/log.txt"), key=lambda path: int(path.parent.name[1:]))
    return logs[-1].read_text(errors="replace")[-3000:] if logs else "no engine was started"


def engines_of(node: LiveNode, job: dict[str, Any]) -> list[dict[str, Any]]:
    """The engines that answered for a job, as its score records them; each ran on the node's GPU."""
    used, gpu = list(job["score"]["provenance"]["engines"]), first_gpu(node)
    for engine in used:
        assert (engine["lease"], engine["device_id"], engine["device"]) == (gpu["id"], gpu["id"], gpu["name"])
        assert engine["numerics"] == "exact"
    return used


@contextlib.contextmanager
def reserved(node: LiveNode) -> Iterator[None]:
    """Within the block the GPU is kept free, as far as this node is concerned: its engine has been unloaded."""
    node.cli("gpus", "reserve", "0", "--for", "a test")
    try:
        node.until(lambda: first_gpu(node)["use"] == "free", "the engine has left the GPU, and the driver agrees")
        assert not first_gpu(node).get("holders")
        yield
    finally:
        node.cli("gpus", "release", "0")


def card() -> GpuReading:
    """One look of a sampler of its own at the first GPU, whether or not a daemon runs."""
    words = [sys.executable, "-m", "rwkv_daemon.gpus.sampler_main", "--only", "0"]
    found = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, timeout=LIMIT_S, check=True)
    return msgspec.json.decode(found.stdout, type=GpuSnapshot).readings[0]


def test_the_daemon_sees_the_gpu_as_nvidia_smi_does(shared: LiveNode) -> None:
    found = gpus(shared)
    print(shared.cli("gpus", "-o", "wide").stdout, json.dumps(found, indent=1), Path("/proc/self/ns/pid").readlink())
    assert condition(found[0]) == "ok"
    if SMI is None:
        pytest.skip("needs nvidia-smi: not installed")
    words = [SMI, "--query-gpu=uuid,name,memory.total", "--format=csv,noheader,nounits"]
    said = subprocess.run(words, capture_output=True, text=True, timeout=LIMIT_S, check=True).stdout.splitlines()
    rows = [tuple(row) for row in csv.reader(said, skipinitialspace=True)]
    assert [(gpu["id"], gpu["name"], str(gpu["memory_total_bytes"] >> 20)) for gpu in found] == rows


def test_a_job_of_the_command_line_runs_on_the_gpu_and_its_scores_are_those_of_the_cpu(shared: LiveNode) -> None:
    """The CPU computes in fp32, the GPU with weights in fp16: a row in a hundred may come out otherwise."""
    done = shared.cli("dispatch", "--models", "builtin", "--only-datasets", *DEMOS, "--wait", "--json", check=False)
    assert done.returncode == 0, (done.stderr, engine_log(shared))
    on_gpu = [ended(shared, item["id"]) for item in shared.api.get("/v1/jobs").value["items"] if item["total"] == 300]
    assert sorted(job["benchmark"] for job in on_gpu) == DEMOS
    with reserved(shared):
        on_cpu = {job["benchmark"]: job for job in finish(shared, only_datasets=DEMOS, numerics="fp32")}
    for job in on_gpu:
        other = on_cpu[job["benchmark"]]
        assert len(engines_of(shared, job)) == 1
        assert [engine["device"] for engine in other["score"]["provenance"]["engines"]] == ["cpu"]
        ours, theirs = shared.answers_of(job["id"]), shared.answers_of(other["id"])
        assert ours.keys() == theirs.keys()
        assert sum(ours[place] != theirs[place] for place in ours) <= 3
        accuracy, expected = (one["score"]["metrics"]["accuracy"]["value"] for one in (job, other))
        assert accuracy >= 0.9
        assert accuracy == pytest.approx(expected, abs=0.01)


def test_a_daemon_that_is_killed_finds_its_engine_on_the_gpu_again(shared: LiveNode) -> None:
    name = begun(shared, 1)
    with shared.engine_stands_still():  # so that the job is in its middle when the daemon ends
        before = [(engine["id"], engine["lease"], engine["pid"]) for engine in engines(shared)]
        runner = shared.runner_record(name)
        assert shared.job(name)["state"] == "generating", "faster than this test"
        shared.kill()
    shared.start()
    assert [(engine["id"], engine["lease"], engine["pid"]) for engine in engines(shared)] == before
    job = ended(shared, name)
    assert len(engines_of(shared, job)) == 1
    assert (job["attempt"], shared.runner_record(name).pid) == (1, runner.pid)


def test_a_job_whose_engine_is_killed_goes_on_with_the_next_one(shared: LiveNode) -> None:
    name = begun(shared, 2)
    assert kill_worker(shared.engine_record())
    job = ended(shared, name)
    first, second = engines_of(shared, job)
    assert first["pid"] != second["pid"]
    assert condition(first_gpu(shared)) == "ok", "the GPU is not blamed"


def test_a_job_that_is_stopped_leaves_an_engine_without_work_which_a_reservation_unloads(shared: LiveNode) -> None:
    name = begun(shared, 3)
    shared.cli("stop", name)
    job = shared.job(name)
    assert (job["state"], job["done"] < job["total"]) == ("stopped", True), "faster than this test"
    shared.until(lambda: not any(engine.get("running", 0) for engine in engines(shared)), "nothing is computed")
    assert [engine["state"] for engine in engines(shared)] == ["ready"]
    pid, held = shared.engine_record().pid, card().memory_used_bytes
    with reserved(shared):
        assert shared.engine_record().done
        after = card()
        assert pid not in [process.pid for process in after.processes]
        assert after.memory_used_bytes < held - CONTEXT_BYTES
    shared.cli("resume", name)
    ended(shared, name)


@pytest.fixture
def stranger() -> Iterator[Callable[[], subprocess.Popen[str]]]:
    """Starts a process of torch that is none of the node's and holds memory of the GPU; it ends with its input."""
    started: list[subprocess.Popen[str]] = []

    def start() -> subprocess.Popen[str]:
        words = [sys.executable, "-c", STRANGER]
        process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        started.append(process)
        assert process.stdout.readline() == "ready\n"
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def test_a_job_waits_for_a_gpu_that_a_stranger_holds_and_says_so(
    shared: LiveNode, stranger: Callable[[], subprocess.Popen[str]]
) -> None:
    with reserved(shared):
        process = stranger()  # the last look may be from the middle of its start, when it held next to nothing
        shared.until(lambda: first_gpu(shared)["memory_used_bytes"] >= STRANGER_BYTES, "its memory is seen")
        assert first_gpu(shared)["use"] == "busy"
    (name,) = shared.dispatch(limit=20, seed=4)
    why = "no lease on this node is free; see `rwkvctl gpus`"
    shared.until(lambda: shared.job(name).get("detail") == why, "the job says why it waits")
    seen, shown = first_gpu(shared), shared.cli("gpus").stdout
    assert shared.job(name)["state"] == "queued"
    assert (seen["use"], seen.get("engines", [])) == ("busy", []), seen
    assert seen["memory_used_bytes"] >= STRANGER_BYTES, seen
    process.communicate("end\n")
    assert len(engines_of(shared, ended(shared, name))) == 1
    assert f"pid {process.pid}" in seen["why"], seen
    assert str(process.pid) in shown


def test_nothing_of_a_node_stays_on_the_gpu_after_its_daemon(shared: LiveNode) -> None:
    """An engine that has no work outlives its daemon only for as long as it may be idle."""
    finish(shared, limit=5, seed=5)
    record, held = shared.engine_record(), card().memory_used_bytes
    assert shared.terminate() == 0
    try:
        wait_for(lambda: shared.engine_record().done, "the engine unloads itself", shared.log)
        wait_for(lambda: not worker_process.is_same(record.shim, record.shim_start), "its shim is gone", shared.log)
        after = card()
        assert record.pid not in [process.pid for process in after.processes]
        assert after.memory_used_bytes < held - CONTEXT_BYTES
    finally:
        shared.start()
