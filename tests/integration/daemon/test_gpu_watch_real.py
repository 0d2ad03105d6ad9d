"""The sampler on a real driver, where there is one: everything the fake is made to say is said there too."""

import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from waiting import LIMIT_S

from rwkv_daemon.gpus import self_test
from rwkv_daemon.gpus.usage_rules import GpuObservation, use_of
from rwkv_daemon.rules.gpu_facts import GpuSnapshot

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not Path("/dev/nvidia0").exists(), reason="needs a GPU: there is no /dev/nvidia0"),
]


def look() -> GpuSnapshot:
    """One look of a sampler of its own at the first GPU."""
    words = [sys.executable, "-m", "rwkv_daemon.gpus.sampler_main", "--only", "0"]
    found = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, timeout=LIMIT_S, check=True)
    return msgspec.json.decode(found.stdout, type=GpuSnapshot)


def test_a_real_card_says_what_the_daemon_decides_by() -> None:
    snapshot = look()
    assert snapshot.driver
    assert snapshot.readings
    for reading in snapshot.readings:
        assert not reading.trouble
        assert reading.id.startswith(("GPU-", "MIG-"))
        assert reading.memory_total_bytes
        assert reading.memory_used_bytes is not None
        assert 0 <= reading.memory_used_bytes <= reading.memory_total_bytes
        assert reading.processes is not None
        assert reading.minor is not None
        assert reading.temperature_c is None or 0 < reading.temperature_c < 120
        assert reading.utilisation is None or 0 <= reading.utilisation <= 1
        assert use_of(GpuObservation(reading)).use in {"free", "busy", "waiting", "unknown"}


def test_the_list_of_processes_can_be_believed_or_it_is_said_why_not() -> None:
    fault = self_test.fault(look().readings, {}, 2**22, lambda pid: Path(f"/proc/{pid}").exists())
    assert not fault or "pid" in fault
