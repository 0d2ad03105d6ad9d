"""The sampler process on a fake NVML library, by itself and watched by the daemon. Not a test on a GPU."""

import asyncio
import ctypes
import json
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from rwkv_daemon import gpus
from rwkv_daemon.catalogue import Benchmarks
from rwkv_daemon.node import Node
from rwkv_daemon.nvml_sampler import NO_NVML
from rwkv_daemon.store import open_store
from rwkvctl import config
from rwkvctl.protocol.messages import LeaseView

DEADLINE_S = 20.0
MIB = 1024 * 1024
FUNCTION_NOT_FOUND, NOT_SUPPORTED, DRIVER_NOT_LOADED, GPU_IS_LOST, UNKNOWN = 13, 3, 9, 15, 999
Scene = Callable[..., None]


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the fake library, built once."""
    folder = tmp_path_factory.mktemp("nvml")
    source = Path(__file__).with_name("fake_nvml.c")
    options = ["-O1", "-Wall", "-Werror", "-shared", "-fPIC", "-Wl,-soname,libnvidia-ml.so.1"]
    try:
        subprocess.run(["gcc", *options, "-o", folder / "libnvidia-ml.so.1", source], check=True)
    except FileNotFoundError:
        pytest.skip("needs gcc: not installed")
    return folder


@pytest.fixture
def scene(library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Scene:
    """Sets what the library answers from now on."""
    state = tmp_path / "nvml.txt"
    monkeypatch.setenv("LD_LIBRARY_PATH", str(library))
    monkeypatch.setenv("FAKE_NVML_STATE", str(state))

    def write(*lines: str) -> None:
        temporary = tmp_path / "nvml.txt.tmp"
        temporary.write_text("".join(f"{line}\n" for line in lines))
        temporary.replace(state)

    write()
    return write


class Sampler:
    """A sampler process; its lines are read by a thread, so that a silent one fails a test instead of hanging it."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "rwkv_daemon.nvml_sampler"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self.lines: queue.Queue[bytes] = queue.Queue()
        self.thread = threading.Thread(target=self.read)
        self.thread.start()

    def read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.put(line)

    def sample(self) -> list[dict[str, Any]]:
        return list(json.loads(self.lines.get(timeout=DEADLINE_S)))

    def sample_until(self, condition: Callable[[list[dict[str, Any]]], bool]) -> list[dict[str, Any]]:
        deadline = time.monotonic() + DEADLINE_S
        while not condition(found := self.sample()):
            assert time.monotonic() < deadline, found
        return found


@pytest.fixture
def start(scene: Scene) -> Iterator[Callable[[], Sampler]]:
    samplers: list[Sampler] = []

    def begin() -> Sampler:
        samplers.append(Sampler())
        return samplers[-1]

    yield begin
    for sampler in samplers:
        sampler.process.kill()
        sampler.process.wait()
        sampler.thread.join()
        assert sampler.process.stdin is not None
        assert sampler.process.stdout is not None
        sampler.process.stdin.close()
        sampler.process.stdout.close()


# -- the process by itself


def test_free_and_busy_gpus_are_told_apart(scene: Scene, start: Callable[[], Sampler]) -> None:
    scene("gpu 0 3 650 0 0", "gpu 1 20480 650 97 1", "gpu 2 600 650 0 0", "gpu 3 3 0 0 2")
    found = start().sample()
    assert [gpu["use"] for gpu in found] == ["free", "busy", "busy", "busy"]
    assert [gpu["id"] for gpu in found] == [f"GPU-fake-{index}" for index in range(4)]
    views = [msgspec.convert(gpu, LeaseView) for gpu in found]
    assert views[1] == LeaseView(
        id="GPU-fake-1", name="NVIDIA FAKE", use="busy", memory_used_bytes=20480 * MIB,
        memory_total_bytes=81920 * MIB, utilisation=0.97, power_w=70.0, temperature_c=35,
    )  # fmt: skip


def test_a_driver_without_the_newer_memory_call_is_asked_the_older_one(
    scene: Scene, start: Callable[[], Sampler]
) -> None:
    scene("gpu 0 3 100 0 0", f"fail nvmlDeviceGetMemoryInfo_v2 {FUNCTION_NOT_FOUND}")
    (gpu,) = start().sample()
    assert (gpu["use"], gpu["memory_used_bytes"]) == ("free", 103 * MIB)


@pytest.mark.parametrize(
    ("failing", "code", "expected"),
    [
        ("nvmlDeviceGetPowerUsage", NOT_SUPPORTED, {"power_w": None, "use": "free"}),
        ("nvmlDeviceGetUtilizationRates", NOT_SUPPORTED, {"utilisation": None, "use": "free"}),
        ("nvmlDeviceGetName", UNKNOWN, {"name": "GPU", "use": "free"}),
        ("nvmlDeviceGetComputeRunningProcesses_v3", UNKNOWN, {"use": "unknown"}),
        ("nvmlDeviceGetUUID", GPU_IS_LOST, {"id": "gpu-index-0", "use": "unknown"}),
        ("nvmlDeviceGetHandleByIndex_v2", GPU_IS_LOST, {"id": "gpu-index-0", "use": "unknown"}),
    ],
)
def test_what_the_driver_cannot_say_is_null_and_never_free(
    scene: Scene, start: Callable[[], Sampler], failing: str, code: int, expected: dict[str, Any]
) -> None:
    scene("gpu 0 3 100 0 0", f"fail {failing} {code}")
    (gpu,) = start().sample()
    assert {name: gpu[name] for name in expected} == expected
    assert msgspec.convert(gpu, LeaseView)


def test_memory_that_cannot_be_read_makes_a_gpu_unknown(scene: Scene, start: Callable[[], Sampler]) -> None:
    failing = ("nvmlDeviceGetMemoryInfo", "nvmlDeviceGetMemoryInfo_v2")
    scene("gpu 0 3 100 0 0", *(f"fail {name} {UNKNOWN}" for name in failing))
    (gpu,) = start().sample()
    assert (gpu["use"], gpu["memory_used_bytes"]) == ("unknown", None)


def test_it_looks_again_and_ends_when_its_input_is_closed(scene: Scene, start: Callable[[], Sampler]) -> None:
    scene("gpu 0 3 100 0 0")
    sampler = start()
    assert [gpu["use"] for gpu in sampler.sample()] == ["free"]
    scene("gpu 0 3 100 0 1", "gpu 1 3 100 0 0")
    sampler.sample_until(lambda found: [gpu["use"] for gpu in found] == ["busy", "free"])
    assert sampler.process.stdin is not None
    sampler.process.stdin.close()
    assert sampler.process.wait(DEADLINE_S) == 0


def test_a_driver_that_is_not_loaded_is_no_nvml(scene: Scene, start: Callable[[], Sampler]) -> None:
    scene(f"fail nvmlInitWithFlags {DRIVER_NOT_LOADED}")
    assert start().process.wait(DEADLINE_S) == NO_NVML


def test_no_library_is_no_nvml() -> None:
    try:
        ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        ended = subprocess.run([sys.executable, "-m", "rwkv_daemon.nvml_sampler"], stdin=subprocess.PIPE, check=False)
        assert ended.returncode == NO_NVML
    else:
        pytest.skip("needs a machine without NVML: this one has it")


# -- watched by the daemon


@pytest.fixture
async def node(scene: Scene, tmp_path: Path) -> AsyncIterator[Node]:
    settings = config.load({"home": str(tmp_path / "home")}, {"RWKVCTL_SAMPLER_DEADLINE_S": "2", "HOME": "/"})
    store = await open_store(settings.store)
    yield Node(settings, store, Benchmarks(settings.data_dir))
    await store.close()


def cards(node: Node) -> list[LeaseView]:
    """The node's GPUs. The CPU is always a lease beside them."""
    leases = node.leases or [gpus.CPU]
    assert leases[-1] == gpus.CPU
    return leases[:-1]


async def seen(node: Node, *uses: str) -> None:
    """Wait until the node's GPUs are in these states."""
    async with asyncio.timeout(DEADLINE_S):
        while [lease.use for lease in cards(node)] != list(uses):
            await asyncio.sleep(0.02)


def samplers() -> set[int]:
    """Samplers that this process started and that still live."""
    own = set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stat = (entry / "stat").read_bytes().rpartition(b")")[2].split()
                command = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if int(stat[1]) == os.getpid() and stat[0] != b"Z" and b"rwkv_daemon.nvml_sampler" in command:
                own.add(int(entry.name))
    return own


async def test_a_driver_that_hangs_makes_leases_unknown_until_a_new_sampler_answers(
    node: Node, scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpus, "RESTART_S", 0.05)
    both = ("gpu 0 3 100 0 0", "gpu 1 3 100 0 1")
    scene(*both)
    watch = asyncio.ensure_future(gpus.watch(node))
    try:
        await seen(node, "free", "busy")
        assert node.wake.is_set()
        (first,) = samplers()
        scene(*both, "hang nvmlDeviceGetUtilizationRates")
        await seen(node, "unknown", "unknown")
        assert [lease.id for lease in cards(node)] == ["GPU-fake-0", "GPU-fake-1"]
        scene(*both)
        await seen(node, "free", "busy")
        assert first not in samplers()
        assert len(samplers()) == 1
        assert not watch.done()
    finally:
        watch.cancel()
        await asyncio.wait([watch])
    async with asyncio.timeout(DEADLINE_S):
        while samplers():
            await asyncio.sleep(0.02)


async def test_a_sampler_that_is_killed_or_talks_nonsense_is_started_again(
    node: Node, scene: Scene, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(gpus, "RESTART_S", 0.05)
    fake = tmp_path / "python"
    fake.write_text("#!/bin/sh\necho 'not JSON at all'\nexec sleep 600\n")
    fake.chmod(0o755)
    scene("gpu 0 3 100 0 0")
    real = sys.executable
    monkeypatch.setattr(sys, "executable", str(fake))
    assert await gpus.sample(node) is None, "given up"
    fake.write_text('#!/bin/sh\necho \'[{"name": "a GPU without an id"}]\'\nexec sleep 600\n')
    assert await gpus.sample(node) is None, "given up"
    monkeypatch.setattr(sys, "executable", real)
    watch = asyncio.ensure_future(gpus.watch(node))
    try:
        await seen(node, "free")
        for number in samplers():
            os.kill(number, 9)
        await seen(node, "unknown")
        await seen(node, "free")
    finally:
        watch.cancel()
        await asyncio.wait([watch])


async def test_without_nvml_the_cpu_is_the_lease(node: Node, scene: Scene) -> None:
    scene(f"fail nvmlInitWithFlags {DRIVER_NOT_LOADED}")
    async with asyncio.timeout(DEADLINE_S):
        await gpus.watch(node)
    assert node.leases == [gpus.CPU]
    assert node.wake.is_set()


async def test_a_machine_whose_nvml_lists_no_gpu_uses_its_cpu(node: Node) -> None:
    watch = asyncio.ensure_future(gpus.watch(node))
    try:
        async with asyncio.timeout(DEADLINE_S):
            await node.wake.wait()
        assert node.leases == [gpus.CPU]
    finally:
        watch.cancel()
        await asyncio.wait([watch])
