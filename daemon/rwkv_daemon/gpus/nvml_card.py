"""NVML's information about one card, as readings: one for the card, or one for each MIG instance.

Every call may fail by itself: a value that a card, a driver or a container does not support is None. Only a lost card
ends the sampling of it.
"""

from collections.abc import Callable, Iterator
from typing import Any, Final

import msgspec

from rwkv_daemon.rules.gpu_facts import GpuProcess, GpuReading

RECOVERY_ACTION: Final = 230
"""The field NVML_FI_DEV_GET_GPU_RECOVERY_ACTION."""

RECOVERY_NAMES: Final = {
    1: "reset the GPU",
    2: "reboot the node",
    3: "drain its peer-to-peer traffic",
    4: "drain and reset the GPU",
    5: "recover the IMEX domain",
    6: "reset its bus",
    7: "reboot the system",
}
THROTTLE_NAMES: Final = {
    0x4: "power-cap",
    0x8: "hw-slowdown",
    0x10: "sync-boost",
    0x20: "sw-thermal",
    0x40: "hw-thermal",
    0x80: "power-brake",
}
"""Bits of the clocks event reasons; idle clocks and clocks that somebody set are left out."""


class Card:
    """One card at its index, with its constant properties."""

    def __init__(self, nvml: Any, handle: Any, index: int, uuid: str) -> None:
        self.nvml, self.handle, self.index, self.uuid = nvml, handle, index, uuid
        self.fixed: GpuReading = self.identity()
        self.health: dict[str, Any] = {}

    def ask(self, call: Callable[..., Any], *arguments: Any) -> Any:
        """Return a value, or None if the driver or the card does not support the question. Raises
        NVMLError_GpuIsLost."""
        try:
            return call(*arguments)
        except self.nvml.NVMLError_GpuIsLost:
            raise
        except self.nvml.NVMLError:
            return None

    def identity(self) -> GpuReading:
        """Return the card's constant properties: UUID, index, minor number, name and maximum SM clock (MHz)."""
        nvml = self.nvml
        return GpuReading(
            id=self.uuid,
            index=self.index,
            minor=self.ask(nvml.nvmlDeviceGetMinorNumber, self.handle),
            name=self.ask(nvml.nvmlDeviceGetName, self.handle) or "GPU",
            clock_max_sm_mhz=self.ask(nvml.nvmlDeviceGetMaxClockInfo, self.handle, nvml.NVML_CLOCK_SM),
        )

    def bus(self) -> str:
        """Return its PCI bus id as the kernel's log writes it: `0000:01:00`."""
        found = self.ask(self.nvml.nvmlDeviceGetPciInfo, self.handle)
        return bus_id(found.busId) if found else ""

    def look(self, *, thorough: bool) -> Iterator[GpuReading]:
        """Yield the card's readings now. A `thorough` look includes its health, which changes rarely and is slow to
        ask."""
        if thorough or not self.health:
            self.health = self.ask_health()
        card = msgspec.structs.replace(self.fixed, **self.telemetry(), **self.health)
        instances = list(self.instances(card)) if card.mig else []
        if card.mig and not instances:
            yield msgspec.structs.replace(card, trouble="it is divided (MIG) and has no instance to compute on")
        elif card.mig:
            yield from instances
        else:
            yield msgspec.structs.replace(card, **self.memory(self.handle), processes=self.processes(self.handle))

    def telemetry(self) -> dict[str, Any]:
        """Return readings that change every second: utilisation (0 to 1), power (W), temperature (Celsius), SM clock
        (MHz) and throttle reasons."""
        nvml, handle = self.nvml, self.handle
        rates = self.ask(nvml.nvmlDeviceGetUtilizationRates, handle)
        power = self.ask(nvml.nvmlDeviceGetPowerUsage, handle)
        reasons = self.ask(nvml.nvmlDeviceGetCurrentClocksEventReasons, handle) or 0
        return {
            "utilisation": rates.gpu / 100 if rates else None,
            "power_w": power / 1000 if power is not None else None,
            "temperature_c": self.temperature(),
            "clock_sm_mhz": self.ask(nvml.nvmlDeviceGetClockInfo, handle, nvml.NVML_CLOCK_SM),
            "throttle": tuple(name for bit, name in THROTTLE_NAMES.items() if reasons & bit),
        }

    def temperature(self) -> float | None:
        """Return the temperature in Celsius. The older call is deprecated, the newer one is missing in older
        drivers."""
        nvml, sensor = self.nvml, self.nvml.NVML_TEMPERATURE_GPU
        found = self.ask(nvml.nvmlDeviceGetTemperatureV, self.handle, sensor)
        if found is None:
            found = self.ask(nvml.nvmlDeviceGetTemperature, self.handle, sensor)
        return None if found is None else float(found)

    def ask_health(self) -> dict[str, Any]:
        """Return memory errors, the driver's advice, MIG mode and the power limit."""
        nvml, handle = self.nvml, self.handle
        limit = self.ask(nvml.nvmlDeviceGetEnforcedPowerLimit, handle)
        remap = self.ask(nvml.nvmlDeviceGetRemappedRows, handle)
        mode = self.ask(nvml.nvmlDeviceGetMigMode, handle)
        return {
            "power_limit_w": limit / 1000 if limit is not None else None,
            "ecc_uncorrected": self.uncorrected(),
            "remap_pending": bool(remap[2]) if remap else None,
            "remap_failed": bool(remap[3]) if remap else None,
            "recovery_action": self.recovery(),
            "mig": bool(mode[0]) if mode else None,
        }

    def uncorrected(self) -> int | None:
        """Return the uncorrectable memory errors since the driver was loaded. (The call for the total is
        deprecated.)"""
        nvml = self.nvml
        kind, counter = nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, nvml.NVML_VOLATILE_ECC
        places = (nvml.NVML_MEMORY_LOCATION_DRAM, nvml.NVML_MEMORY_LOCATION_SRAM)
        found = [self.ask(nvml.nvmlDeviceGetMemoryErrorCounter, self.handle, kind, counter, place) for place in places]
        known = [count for count in found if count is not None]
        return sum(known) if known else None

    def recovery(self) -> str:
        """Return what the driver says must be done before the card can be used again; empty for nothing."""
        fields = self.ask(self.nvml.nvmlDeviceGetFieldValues, self.handle, [RECOVERY_ACTION])
        if not fields or fields[0].nvmlReturn != self.nvml.NVML_SUCCESS or not fields[0].value.uiVal:
            return ""
        return RECOVERY_NAMES.get(fields[0].value.uiVal, f"action {fields[0].value.uiVal}")

    def memory(self, handle: Any) -> dict[str, int | None]:
        """Return memory in use and in total, in bytes. Version 2 of the call counts the driver's own memory (over 512
        MiB on large cards) separately; version 1, all that drivers before 510 have, counts it as used."""
        call = self.nvml.nvmlDeviceGetMemoryInfo
        found = self.ask(call, handle, self.nvml.nvmlMemory_v2) or self.ask(call, handle)
        used, total = (found.used, found.total) if found else (None, None)
        return {"memory_used_bytes": used, "memory_total_bytes": total}

    def processes(self, handle: Any) -> tuple[GpuProcess, ...] | None:
        """Return the processes that hold memory; None if the driver does not say. A process in several lists counts in
        the first of them."""
        nvml = self.nvml
        compute = self.ask(nvml.nvmlDeviceGetComputeRunningProcesses, handle)
        if compute is None:
            return None
        mps = self.ask(nvml.nvmlDeviceGetMPSComputeRunningProcesses, handle) or []
        graphics = self.ask(nvml.nvmlDeviceGetGraphicsRunningProcesses, handle) or []
        found: dict[int, GpuProcess] = {}
        for kind, listed in (("compute", compute), ("mps", mps), ("graphics", graphics)):
            for one in listed:
                found.setdefault(one.pid, GpuProcess(pid=one.pid, bytes=one.usedGpuMemory, kind=kind))  # type: ignore[arg-type]  # a word of the three
        return tuple(found.values())

    def instances(self, card: GpuReading) -> Iterator[GpuReading]:
        """Yield the MIG instances of a card: each has its own memory and processes; utilisation is not measured for one
        alone, and the rest is the card's."""
        nvml = self.nvml
        for slot in range(self.ask(nvml.nvmlDeviceGetMaxMigDeviceCount, self.handle) or 0):
            handle = self.ask(nvml.nvmlDeviceGetMigDeviceHandleByIndex, self.handle, slot)
            uuid = self.ask(nvml.nvmlDeviceGetUUID, handle) if handle is not None else None
            if uuid is None:
                continue
            name = self.ask(nvml.nvmlDeviceGetName, handle) or f"{card.name} MIG"
            yield msgspec.structs.replace(
                card, id=uuid, parent=self.uuid, slot=slot, name=name, utilisation=None, power_w=None,
                **self.memory(handle), processes=self.processes(handle),
            )  # fmt: skip


def bus_id(text: str) -> str:
    """Convert NVML's `00000000:01:00.0` to the kernel's `0000:01:00`."""
    domain, _, rest = text.partition(":")
    return f"{domain[-4:]}:{rest.partition('.')[0]}".lower()
