"""`python -m rwkv_daemon.nvml_sampler`: one JSON line of GPUs a second on stdout. The only caller of NVML.

It ends by itself when the daemon does (its stdin closes). Exit code 3: there is no NVML here.
"""

import json
import select
import sys
from collections.abc import Callable
from typing import Any, Final

NO_NVML: Final = 3
PERIOD_S: Final = 1.0
FREE_BYTES: Final = 512 * 1024 * 1024
"""Memory a GPU may have in use and still count as free: the driver's own."""


def main() -> int:
    try:
        import pynvml
    except ImportError:
        return NO_NVML
    try:
        pynvml.nvmlInit()
    except (pynvml.NVMLError_LibraryNotFound, pynvml.NVMLError_DriverNotLoaded, pynvml.NVMLError_FunctionNotFound):
        return NO_NVML
    while True:
        gpus = [describe(pynvml, index) for index in range(pynvml.nvmlDeviceGetCount())]
        sys.stdout.write(json.dumps(gpus) + "\n")
        sys.stdout.flush()
        if select.select([sys.stdin], [], [], PERIOD_S)[0]:
            return 0


def describe(nvml: Any, index: int) -> dict[str, object]:
    """One GPU as a LeaseView. A value the driver does not give is null; a GPU that fails altogether is `unknown`."""
    handle = query(nvml, lambda: nvml.nvmlDeviceGetHandleByIndex(index))
    uuid = query(nvml, lambda: nvml.nvmlDeviceGetUUID(handle)) if handle is not None else None
    if uuid is None:
        return {"id": f"gpu-index-{index}", "use": "unknown"}
    # version 2 counts what the driver keeps for itself (over 512 MiB on large cards) apart from what is in use
    memory = query(nvml, lambda: nvml.nvmlDeviceGetMemoryInfo(handle, version=nvml.nvmlMemory_v2))
    memory = memory or query(nvml, lambda: nvml.nvmlDeviceGetMemoryInfo(handle))
    rates = query(nvml, lambda: nvml.nvmlDeviceGetUtilizationRates(handle))
    power = query(nvml, lambda: nvml.nvmlDeviceGetPowerUsage(handle))
    processes = query(nvml, lambda: nvml.nvmlDeviceGetComputeRunningProcesses(handle))
    return {
        "id": uuid,
        "name": query(nvml, lambda: nvml.nvmlDeviceGetName(handle)) or "GPU",
        "use": use_of(memory, processes),
        "memory_used_bytes": memory.used if memory else None,
        "memory_total_bytes": memory.total if memory else None,
        "utilisation": rates.gpu / 100 if rates else None,
        "power_w": power / 1000 if power is not None else None,
        "temperature_c": query(nvml, lambda: nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU)),
    }


def use_of(memory: Any, processes: Any) -> str:
    """`busy` if a process holds it or memory is taken; unknown rather than free where NVML cannot say."""
    if memory is None or processes is None:
        return "unknown"
    return "busy" if processes or memory.used > FREE_BYTES else "free"


def query(nvml: Any, call: Callable[[], Any]) -> Any:
    """A value, or None where the driver or the card does not support the question."""
    try:
        return call()
    except nvml.NVMLError:
        return None


if __name__ == "__main__":
    sys.exit(main())
