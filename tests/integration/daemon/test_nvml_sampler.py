"""The sampler process on a fake NVML library, by itself. Not a test on a GPU."""

import ctypes
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from waiting import LIMIT_S, wait_for

from rwkv_daemon.gpus import xid_events
from rwkv_daemon.gpus.sampler_exits import DRIVER_GONE, NO_NVML
from rwkv_daemon.rules.gpu_facts import GpuProcess, GpuReading, GpuSnapshot, Xid

MIB = 2**20
GIB = 2**30
FUNCTION_NOT_FOUND, NOT_SUPPORTED, DRIVER_NOT_LOADED, GPU_IS_LOST, UNKNOWN = 13, 3, 9, 15, 999


class Sampler:
    """A sampler process; its lines are read by a thread, so that a silent one fails a test instead of hanging it."""

    def __init__(self, *options: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "rwkv_daemon.gpus.sampler_main", *options],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        self.lines: queue.Queue[bytes] = queue.Queue()
        self.asked: list[str] = []
        self.threads = [threading.Thread(target=reader) for reader in (self.read, self.listen)]
        for thread in self.threads:
            thread.start()

    def read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.put(line)

    def listen(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.asked.append(line.decode().strip().removeprefix("?"))

    def look(self) -> GpuSnapshot:
        return msgspec.json.decode(self.lines.get(timeout=LIMIT_S), type=GpuSnapshot)

    def until(self, condition: Callable[[tuple[GpuReading, ...]], object]) -> tuple[GpuReading, ...]:
        found: list[tuple[GpuReading, ...]] = []

        def so() -> object:
            found.append(self.look().readings)
            return condition(found[-1])

        wait_for(so, "the readings are as they must be", lambda: found[-1], pause=lambda: None)
        return found[-1]

    def wait_until_asking(self, what: str) -> None:
        """Until it has asked that, and says nothing more."""
        wait_for(lambda: self.asked and self.asked[-1] == what, f"it asks {what}", lambda: self.asked)

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        for thread in self.threads:
            thread.join()
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            assert pipe is not None
            pipe.close()


@pytest.fixture
def start(fake_nvml: Any) -> Iterator[Callable[..., Sampler]]:
    """Starts samplers on the fake; ends them all."""
    samplers: list[Sampler] = []

    def begin(*options: str) -> Sampler:
        samplers.append(Sampler(*options))
        return samplers[-1]

    yield begin
    for sampler in samplers:
        sampler.close()


def test_every_value_of_a_card_is_read(fake_nvml: Any, start: Callable[..., Sampler]) -> None:
    fake_nvml.gpus(1).gpu(
        0, used=20 * GIB, reserved=650 * MIB, util=97, temp=71, power=655_400, limit=700_000, clock=1755,
        maxclock=1980, throttle=0x4 | 0x40 | 0x1, ecc=3, pending=1, failed=1, recovery=2, minor=5, name="NVIDIA_H200",
    )  # fmt: skip
    fake_nvml.process(0, 4242, 19 * GIB).process(0, 4243, GIB, type="G").process(0, 4244, GIB, type="M")
    fake_nvml.gpu(0, used=20 * GIB)
    snapshot = start().look()
    assert snapshot.driver == "580.95.05"
    assert snapshot.left_out == ()
    assert snapshot.readings == (
        GpuReading(
            id=fake_nvml.uuid(0), index=0, minor=5, name="NVIDIA H200", memory_used_bytes=20 * GIB,
            memory_total_bytes=80 * GIB, utilisation=0.97, power_w=655.4, power_limit_w=700.0, temperature_c=71.0,
            clock_sm_mhz=1755, clock_max_sm_mhz=1980, throttle=("power-cap", "hw-thermal"), ecc_uncorrected=3,
            remap_pending=True, remap_failed=True, recovery_action="reboot the node", mig=False,
            processes=(
                GpuProcess(pid=4242, bytes=19 * GIB),
                GpuProcess(pid=4244, bytes=GIB, kind="mps"),
                GpuProcess(pid=4243, bytes=GIB, kind="graphics"),
            ),
        ),
    )  # fmt: skip


def test_an_older_driver_counts_what_it_keeps_for_itself(fake_nvml: Any, start: Callable[..., Sampler]) -> None:
    fake_nvml.gpus(1).gpu(0, used=3 * MIB, reserved=100 * MIB)
    fake_nvml.rule(f"fail nvmlDeviceGetMemoryInfo_v2 {FUNCTION_NOT_FOUND}", "fail nvmlDeviceGetTemperatureV 13")
    (gpu,) = start().look().readings
    assert (gpu.memory_used_bytes, gpu.temperature_c) == (103 * MIB, 35.0)


@pytest.mark.parametrize(
    ("failing", "code", "fields"),
    [
        ("nvmlDeviceGetPowerUsage", NOT_SUPPORTED, "power_w"),
        ("nvmlDeviceGetUtilizationRates", NOT_SUPPORTED, "utilisation"),
        ("nvmlDeviceGetRemappedRows", NOT_SUPPORTED, "remap_pending remap_failed"),
        ("nvmlDeviceGetMemoryErrorCounter", NOT_SUPPORTED, "ecc_uncorrected"),
        ("nvmlDeviceGetMigMode", NOT_SUPPORTED, "mig"),
        ("nvmlDeviceGetClockInfo", FUNCTION_NOT_FOUND, "clock_sm_mhz"),
        ("nvmlDeviceGetComputeRunningProcesses_v3", UNKNOWN, "processes"),
        ("nvmlDeviceGetMinorNumber", UNKNOWN, "minor"),
    ],
)
def test_what_the_driver_cannot_say_is_null_and_the_rest_is_read(
    fake_nvml: Any, start: Callable[..., Sampler], failing: str, code: int, fields: str
) -> None:
    fake_nvml.gpus(1).process(0, 4242).rule(f"fail {failing} {code}")
    (gpu,) = start().look().readings
    assert (gpu.id, gpu.trouble) == (fake_nvml.uuid(0), "")
    nulls = [name for name in GpuReading.__struct_fields__ if getattr(gpu, name) is None]
    assert set(nulls) == {*fields.split(), "slot"}


def test_a_card_that_fails_altogether_says_so_and_the_others_are_read(
    fake_nvml: Any, start: Callable[..., Sampler]
) -> None:
    fake_nvml.gpus(3).gpu(1, lost=1).rule(f"fail nvmlDeviceGetUUID {UNKNOWN} 2")
    found = start().look().readings
    assert [gpu.id for gpu in found] == [fake_nvml.uuid(0), "gpu-index-1", "gpu-index-2"]
    assert [(gpu.lost, bool(gpu.trouble)) for gpu in found] == [(False, False), (True, True), (False, True)]


def test_a_card_that_is_lost_between_two_questions(fake_nvml: Any, start: Callable[..., Sampler]) -> None:
    fake_nvml.gpus(2)
    sampler = start()
    assert [gpu.lost for gpu in sampler.look().readings] == [False, False]
    fake_nvml.rule(f"fail nvmlDeviceGetPowerUsage {GPU_IS_LOST} 1")
    sampler.until(lambda found: [gpu.lost for gpu in found] == [False, True])
    fake_nvml.rule()
    sampler.until(lambda found: [gpu.lost for gpu in found] == [False, False])


def test_instances_of_a_divided_card_are_gpus_of_their_own(fake_nvml: Any, start: Callable[..., Sampler]) -> None:
    fake_nvml.gpus(2).gpu(1, mig=1, util=50)
    fake_nvml.process(1, 4242, GIB, slot=2)
    fake_nvml.rule(f"mig 1 0 total={20 * GIB}", f"mig 1 2 total={40 * GIB} used={GIB}")
    found = start().look().readings
    assert [(gpu.index, gpu.slot, gpu.parent) for gpu in found[1:]] == [(1, s, fake_nvml.uuid(1)) for s in (0, 2)]
    assert [gpu.id[:4] for gpu in found] == ["GPU-", "MIG-", "MIG-"]
    assert [gpu.memory_total_bytes for gpu in found[1:]] == [20 * GIB, 40 * GIB]
    assert [gpu.utilisation for gpu in found] == [0.0, None, None], "the card's use is nobody's in particular"
    assert [len(gpu.processes or ()) for gpu in found[1:]] == [0, 1]
    fake_nvml.rule()
    (_, card) = start().look().readings
    assert (card.mig, "no instance" in card.trouble) == (True, True)


def test_each_card_is_announced_and_one_that_hangs_can_be_left_out(
    fake_nvml: Any, start: Callable[..., Sampler]
) -> None:
    fake_nvml.gpus(4).rule("hang nvmlDeviceGetUtilizationRates 2")
    sampler = start()
    sampler.wait_until_asking("2")
    without = start("--skip", "2").look()
    assert without.left_out == (2,)
    assert [gpu.index for gpu in without.readings] == [0, 1, 3]
    alone = start("--only", "2")
    alone.wait_until_asking("2")
    fake_nvml.rule()
    assert [gpu.index for gpu in start("--only", "2").look().readings] == [2]


def test_xids_are_delivered_once_and_only_for_events_that_the_card_has(
    fake_nvml: Any, start: Callable[..., Sampler]
) -> None:
    fake_nvml.gpus(2).xid(0, 13)
    sampler = start()
    assert [gpu.xids for gpu in sampler.look().readings] == [(), ()], "what was before it looked is not news"
    fake_nvml.xid(1, 79)
    found = sampler.until(lambda found: any(gpu.xids for gpu in found))
    assert [gpu.xids for gpu in found] == [(), (Xid(code=79),)]
    assert [gpu.xids for gpu in sampler.look().readings] == [(), ()]


def test_a_storm_of_xids_is_one_a_look(fake_nvml: Any, start: Callable[..., Sampler]) -> None:
    fake_nvml.gpus(1)
    sampler = start()
    sampler.look()
    fake_nvml.events += ["event 0 type=8 data=45"] * 2000
    fake_nvml.write()
    found = sampler.until(lambda found: found[0].xids)
    assert found[0].xids == (Xid(code=45),)


def test_the_kernels_log_names_the_pid(tmp_path: Path) -> None:
    path = tmp_path / "kmsg"
    path.write_text("NVRM: Xid (PCI:0000:01:00): 31, pid=1, name=old\n")
    log = xid_events.KernelLog(path)
    assert log.read() == {}
    with path.open("a") as file:
        file.write("NVRM: Xid (PCI:0000:01:00): 31, pid=4242, name=python\nsomething else\n")
    assert log.read() == {("0000:01:00", 31): {4242}}
    assert log.read() == {}
    os.close(log.file)
    assert xid_events.KernelLog(tmp_path / "none").read() == {}


def test_it_looks_again_and_ends_when_its_input_is_closed(fake_nvml: Any, start: Callable[..., Sampler]) -> None:
    fake_nvml.gpus(1)
    sampler = start()
    assert len(sampler.look().readings) == 1
    fake_nvml.gpus(2)
    sampler.until(lambda found: len(found) == 2)
    assert sampler.process.stdin is not None
    sampler.process.stdin.close()
    assert sampler.process.wait(LIMIT_S) == 0


def test_cards_are_known_by_their_uuid_whatever_their_index(fake_nvml: Any, start: Callable[..., Sampler]) -> None:
    fake_nvml.gpus(2).gpu(0, uuid="GPU-aaa", name="A").gpu(1, uuid="GPU-bbb", name="B")
    sampler = start()
    assert [(gpu.id, gpu.name) for gpu in sampler.look().readings] == [("GPU-aaa", "A"), ("GPU-bbb", "B")]
    fake_nvml.gpu(0, uuid="GPU-bbb", name="B").gpu(1, uuid="GPU-aaa", name="A")
    found = sampler.until(lambda found: found[0].id == "GPU-bbb" and found[1].id == "GPU-aaa")
    assert [(gpu.name, gpu.index) for gpu in found] == [("B", 0), ("A", 1)]


def test_a_driver_that_is_not_loaded_is_no_nvml(fake_nvml: Any, start: Callable[..., Sampler]) -> None:
    fake_nvml.rule(f"fail nvmlInitWithFlags {DRIVER_NOT_LOADED}")
    assert start().process.wait(LIMIT_S) == NO_NVML


def test_a_driver_that_goes_away_ends_it(fake_nvml: Any, start: Callable[..., Sampler]) -> None:
    fake_nvml.gpus(2)
    sampler = start()
    sampler.look()
    fake_nvml.rule(f"fail * {UNKNOWN}")
    assert sampler.process.wait(LIMIT_S) == DRIVER_GONE


def test_no_library_is_no_nvml() -> None:
    try:
        ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        ended = subprocess.run(
            [sys.executable, "-m", "rwkv_daemon.gpus.sampler_main"],
            stdin=subprocess.PIPE,
            check=False,
            capture_output=True,
        )
        assert ended.returncode == NO_NVML
    else:
        pytest.skip("needs a machine without NVML: this one has it")
