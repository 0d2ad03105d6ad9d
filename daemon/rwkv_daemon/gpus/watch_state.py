"""What the watch of the GPUs holds in memory. `records` and `inventory` are stored, too; the rest is measured again."""

import asyncio
from dataclasses import dataclass, field
from typing import Any, Final

from rwkv_daemon.gpus.condition_rules import ConditionRecord
from rwkv_daemon.gpus.history_ring import HistoryPoint, HistoryRing
from rwkv_daemon.rules.gpu_facts import GpuReading, Holder

MOST_PENDING: Final = 200


@dataclass(frozen=True, slots=True)
class InventoryGpu:
    """A GPU of the inventory; it stays there even if it does not answer."""

    id: str
    index: int
    name: str
    parent: str = ""
    slot: int | None = None
    first_seen: str = ""

    def matches(self, reading: GpuReading) -> bool:
        """Whether a reading has the same index, name, parent and slot."""
        return (self.index, self.slot, self.name, self.parent) == (
            reading.index, reading.slot, reading.name, reading.parent,
        )  # fmt: skip


@dataclass(slots=True)
class LastHolders:
    """The holders of one GPU when they were last read (`at`, monotonic), and what NVML listed then."""

    at: float
    listed: tuple[object, ...]
    holders: tuple[Holder, ...] = ()


@dataclass(slots=True)
class ProbeAnswer:
    """The last answer of a reservation's probe, and when it came (monotonic seconds)."""

    at: float
    text: str


@dataclass(slots=True)
class WatchState:
    """What the watch knows of the GPUs, by their ids unless a field says otherwise. Times are monotonic seconds."""

    inventory: dict[str, InventoryGpu] = field(default_factory=dict)
    records: dict[str, ConditionRecord] = field(default_factory=dict)
    stored: dict[str, tuple[InventoryGpu, ConditionRecord]] = field(default_factory=dict)
    """What the store holds of each GPU; what differs is stored with the next transaction."""

    idle_since: dict[str, float | None] = field(default_factory=dict)
    """Since when no sample has shown utilisation; None if it is not measured."""

    pids: dict[str, frozenset[int]] = field(default_factory=dict)
    """The pids that NVML listed last."""

    held: dict[str, LastHolders] = field(default_factory=dict)
    blind: dict[str, asyncio.Future[None]] = field(default_factory=dict)
    """GPUs whose processes are being read by a thread that has not come back."""

    contended: dict[str, str] = field(default_factory=dict)
    """Who computes beside an engine of ours, in words; `contended_stored` is what the store holds of it."""

    contended_stored: dict[str, str] = field(default_factory=dict)
    probes: dict[str, ProbeAnswer] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)
    """Indices of GPUs that are skipped because they hang, or `events`: each with since when (wall time)."""

    xids: dict[tuple[str, int], float] = field(default_factory=dict)
    """When an XID code of a GPU was last reported."""

    stuck: list[Any] = field(default_factory=list)
    """Sampler processes that are stuck in the driver."""

    pending: list[tuple[str, str, dict[str, Any]]] = field(default_factory=list)
    """Events (kind, text, data) that the store could not take yet."""

    seen_at: float = 0.0
    """When the last whole snapshot arrived; 0: none yet."""

    driver: str = ""
    trouble: str = ""
    """Why no GPU can be sampled; empty if they can."""

    ring: HistoryRing | None = None
    """The open history file; None until it is needed."""

    unwritten: list[tuple[int, dict[str, HistoryPoint]]] = field(default_factory=list)
    """Seconds that are not in the history file yet."""

    history_trouble: str = ""
    self_test: str = "no sample yet"
    """Why NVML's process list cannot be trusted; empty if it can."""

    probe_now: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the probes are to run at once."""

    def tell(self, kind: str, text: str, data: dict[str, Any]) -> None:
        """Queue an event to be stored with the next transaction; if there are very many, the oldest are dropped."""
        self.pending = [*self.pending[-MOST_PENDING:], (kind, text, data)]
