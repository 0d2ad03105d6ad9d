"""What the watch holds in memory between two looks. `records` and `inventory` are what the store holds, too; the rest
is measured anew."""

import asyncio
from dataclasses import dataclass, field
from typing import Any, Final

from rwkv_daemon.gpus.condition_rules import ConditionRecord
from rwkv_daemon.gpus.history_ring import HistoryPoint, HistoryRing
from rwkv_daemon.rules.gpu_facts import GpuReading, Holder

MOST_PENDING: Final = 200


@dataclass(frozen=True, slots=True)
class InventoryGpu:
    """A GPU of the inventory: never forgotten because it does not answer."""

    id: str
    index: int
    name: str
    parent: str = ""
    slot: int | None = None
    first_seen: str = ""

    def matches(self, reading: GpuReading) -> bool:
        """Whether a reading shows it as it is remembered."""
        return (self.index, self.slot, self.name, self.parent) == (
            reading.index, reading.slot, reading.name, reading.parent,
        )  # fmt: skip


@dataclass(slots=True)
class LastHolders:
    """The holders of one GPU when they were last looked at, and what was listed then."""

    at: float
    listed: tuple[object, ...]
    holders: tuple[Holder, ...] = ()


@dataclass(slots=True)
class ProbeAnswer:
    """Last answer of a reservation's probe, and when it came (monotonic seconds)."""

    at: float
    text: str


@dataclass(slots=True)
class WatchState:
    """The watch's memory. `seen_at` is when the last whole look arrived (monotonic; 0: none yet); `left_out` are the
    indices that hang, each with since when; `blind` are GPUs the look at whose processes has not come back; `pending`
    are facts that the store could not take yet."""

    inventory: dict[str, InventoryGpu] = field(default_factory=dict)
    records: dict[str, ConditionRecord] = field(default_factory=dict)
    stored: dict[str, tuple[InventoryGpu, ConditionRecord]] = field(default_factory=dict)
    idle_since: dict[str, float | None] = field(default_factory=dict)
    pids: dict[str, frozenset[int]] = field(default_factory=dict)
    held: dict[str, LastHolders] = field(default_factory=dict)
    blind: dict[str, asyncio.Future[None]] = field(default_factory=dict)
    contended: dict[str, str] = field(default_factory=dict)
    contended_stored: dict[str, str] = field(default_factory=dict)
    probes: dict[str, ProbeAnswer] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)
    xids: dict[tuple[str, int], float] = field(default_factory=dict)
    stuck: list[Any] = field(default_factory=list)
    pending: list[tuple[str, str, dict[str, Any]]] = field(default_factory=list)
    seen_at: float = 0.0
    driver: str = ""
    trouble: str = ""
    ring: HistoryRing | None = None
    unwritten: list[tuple[int, dict[str, HistoryPoint]]] = field(default_factory=list)
    history_trouble: str = ""
    self_test: str = "no look yet"
    probe_now: asyncio.Event = field(default_factory=asyncio.Event)

    def tell(self, kind: str, text: str, data: dict[str, Any]) -> None:
        """Something to store as an event with the next transaction; of very many the oldest are lost."""
        self.pending = [*self.pending[-MOST_PENDING:], (kind, text, data)]
