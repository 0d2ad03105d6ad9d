"""Saved states on the device and in host memory, each tier evicting the least recently used. Torch-free."""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field

from rwkv_engine.errors import OutOfMemory
from rwkv_engine.scheduling.snapshots import Snapshot

Forget = Callable[[], None]


@dataclass(slots=True)
class Tiers:
    """Snapshots on the device and in the host's memory, each within a budget of bytes. `forget` of a snapshot is called
    once it was evicted from both."""

    device_bytes: int
    host_bytes: int
    spill: Callable[[object], object]
    spills: int = 0
    _device: OrderedDict[Snapshot, Forget] = field(default_factory=OrderedDict)
    _host: OrderedDict[Snapshot, Forget] = field(default_factory=OrderedDict)
    on_device: int = 0
    on_host: int = 0

    def hold(self, snapshot: Snapshot, forget: Forget) -> bool:
        """Add a snapshot; return False if it is larger than the budget."""
        if snapshot.size_bytes > self.device_bytes:
            return False
        self._device[snapshot] = forget
        self.on_device += snapshot.size_bytes
        self._fit()
        return True

    def touch(self, snapshot: Snapshot) -> None:
        """Mark a snapshot as the most recently used of its tier."""
        tier = self._device if snapshot in self._device else self._host
        if snapshot in tier:
            tier.move_to_end(snapshot)

    def release(self, snapshot: Snapshot) -> None:
        """Drop a snapshot without calling its `forget`."""
        if self._device.pop(snapshot, None) is not None:
            self.on_device -= snapshot.size_bytes
        elif self._host.pop(snapshot, None) is not None:
            self.on_host -= snapshot.size_bytes

    def clear_device(self) -> None:
        """Move or drop everything that lies on the device."""
        while self._device:
            self._evict()

    def _fit(self) -> None:
        while self.on_device > self.device_bytes:
            self._evict()

    def _evict(self) -> None:
        """Move the least recently used snapshot from the device to the host's memory, or drop it if it cannot go
        there."""
        snapshot, forget = self._device.popitem(last=False)
        self.on_device -= snapshot.size_bytes
        if not self._spilled(snapshot):
            forget()
            return
        self._host[snapshot] = forget
        self.on_host += snapshot.size_bytes
        while self.on_host > self.host_bytes:
            oldest, forget_oldest = self._host.popitem(last=False)
            self.on_host -= oldest.size_bytes
            forget_oldest()

    def _spilled(self, snapshot: Snapshot) -> bool:
        if snapshot.payload is None or snapshot.size_bytes > self.host_bytes:
            return False
        try:
            snapshot.payload = self.spill(snapshot.payload)
        except OutOfMemory:
            return False
        self.spills += 1
        return True
