"""XID events from NVML's event set, with the pids that the kernel's log names, if it may be read.

NVML's own events carry no pid. The log needs root or CAP_SYSLOG on most systems; without it the pid is 0.
"""

import ctypes
import os
import re
from pathlib import Path
from typing import Any, Final

from rwkv_daemon.gpus.nvml_card import Card
from rwkv_daemon.rules.gpu_facts import Xid

KERNEL_LOG: Final = Path("/dev/kmsg")
LINE: Final = re.compile(r"NVRM: Xid \(PCI:(?P<bus>[0-9a-fA-F:]+)\): (?P<code>\d+)(?:, pid='?(?P<pid>\d+))?")
MOST_A_LOOK: Final = 256
"""Events that are taken at once: a storm of them (tens of thousands of XID 45 were seen) must not stop the sampling."""
RECORD: Final = 8192
"""A buffer for any one record of the kernel's log, in bytes."""


class XidEvents:
    """The event set of this process. A card is registered when it is first seen."""

    def __init__(self, nvml: Any, kernel_log: Path) -> None:
        self.nvml = nvml
        self.set: Any = None
        self.cards: dict[int, tuple[str, str]] = {}
        self.log = KernelLog(kernel_log)

    def register(self, card: Card) -> None:
        """Subscribe to the XIDs of a card. Subscribing to a kind of event that it does not support would fail the whole
        call."""
        nvml = self.nvml
        address = address_of(card.handle)
        before = self.cards.get(address)
        if before is None or before[0] != card.uuid:
            self.cards[address] = (card.uuid, card.bus())
        if before is not None:
            return
        try:
            self.set = self.set or nvml.nvmlEventSetCreate()
            mask = nvml.nvmlEventTypeXidCriticalError & nvml.nvmlDeviceGetSupportedEventTypes(card.handle)
            if mask:
                nvml.nvmlDeviceRegisterEvents(card.handle, mask, self.set)
        except nvml.NVMLError:
            return  # the card has no XID events; its other figures are still sampled

    def take(self) -> dict[str, list[Xid]]:
        """Return the XIDs since the last call, by the card's UUID; the same code of the same process only once."""
        pids = self.log.read()
        found: dict[str, list[Xid]] = {}
        for address, code in self.raw():
            uuid, bus = self.cards.get(address, ("", ""))
            for pid in sorted(pids.get((bus, code), {0})):
                xid = Xid(code=code, pid=pid)
                if xid not in found.setdefault(uuid, []):
                    found[uuid].append(xid)
        return found

    def raw(self) -> list[tuple[int, int]]:
        """Return (handle's address, code) of the waiting events."""
        found: list[tuple[int, int]] = []
        while self.set is not None and len(found) < MOST_A_LOOK:
            try:
                event = self.nvml.nvmlEventSetWait(self.set, 0)
            except self.nvml.NVMLError:  # a timeout: no further event waits
                break
            if event.eventType & self.nvml.nvmlEventTypeXidCriticalError:
                found.append((address_of(event.device), event.eventData))
        return found


def address_of(handle: Any) -> int:
    """Return the address of a handle, which is a pointer and stays the same for a card while the library is loaded."""
    return ctypes.cast(handle, ctypes.c_void_p).value or 0


class KernelLog:
    """The kernel's log from now on, if this process may read it."""

    def __init__(self, path: Path) -> None:
        try:
            self.file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            os.lseek(self.file, 0, os.SEEK_END)
        except OSError:
            self.file = -1

    def read(self) -> dict[tuple[str, int], set[int]]:
        """Return the pids that the lines since the last call name, by (bus, code)."""
        found: dict[tuple[str, int], set[int]] = {}
        for _ in range(MOST_A_LOOK):
            try:
                text = os.read(self.file, RECORD) if self.file >= 0 else b""
            except BlockingIOError:
                break
            except OSError:  # records were overwritten before they were read; the next read continues after them
                continue
            if not text:
                break
            for key, pid in named(text.decode(errors="replace")):
                found.setdefault(key, set()).add(pid)
        return found


def named(text: str) -> list[tuple[tuple[str, int], int]]:
    """Return ((bus, code), pid) for each line about an XID; pid 0 if the line names none."""
    return [((m["bus"].lower(), int(m["code"])), int(m["pid"] or 0)) for m in LINE.finditer(text)]
