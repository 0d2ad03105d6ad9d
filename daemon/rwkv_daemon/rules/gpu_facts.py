"""What is known of a GPU, as plain values shared by the sampler, the process tracker, the GPU's state, and
placement."""

from typing import Literal

from msgspec import Struct

Use = Literal["free", "leased", "busy", "waiting", "zombie", "unknown"]
"""Who uses it: nobody, an engine of ours, somebody's computing process, a process that waits (memory held, nothing
computed), only dead or orphaned holders, or unknown."""

Condition = Literal["ok", "cooldown", "suspect", "quarantined", "draining", "reserved"]
"""Whether it may be used: only `ok` takes new engines."""

HolderClass = Literal[
    "protected",  # never to be touched: a system service, a debugger's target, a name on the operator's list
    "ours",  # a live worker of this daemon
    "orphan",  # carries the marker of an attempt of ours that has ended, or whose shim is gone
    "container",  # in another pid namespace or a container's cgroup
    "other-user",
    "foreign",  # our uid, without our marker
    "defunct",  # every task is a zombie: nothing is left to kill, its parent must reap it
    "stuck",  # in uninterruptible sleep for long
    "ghost",  # NVML lists it and /proc does not
]


class GpuProcess(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A process as NVML lists it. `bytes` is None if the driver does not say."""

    pid: int
    bytes: int | None = None
    kind: Literal["compute", "graphics", "mps"] = "compute"


class Xid(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An XID event: the driver's error number, and the pid that it hit (0: unknown)."""

    code: int
    pid: int = 0


class GpuReading(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One reading of one GPU. What the driver or the card does not report is None, never a number.

    `id` is the UUID (of a MIG instance if the card is partitioned; `parent` is then the card's, and `slot` its place
    there). `trouble` says why nothing else could be asked. Utilisation is a share of one; clocks are in MHz.
    """

    id: str
    index: int = -1
    slot: int | None = None
    minor: int | None = None
    name: str = ""
    parent: str = ""
    trouble: str = ""
    lost: bool = False
    memory_used_bytes: int | None = None
    memory_total_bytes: int | None = None
    utilisation: float | None = None
    power_w: float | None = None
    power_limit_w: float | None = None
    temperature_c: float | None = None
    clock_sm_mhz: int | None = None
    clock_max_sm_mhz: int | None = None
    throttle: tuple[str, ...] = ()
    ecc_uncorrected: int | None = None
    remap_pending: bool | None = None
    remap_failed: bool | None = None
    recovery_action: str = ""
    mig: bool | None = None
    processes: tuple[GpuProcess, ...] | None = None
    xids: tuple[Xid, ...] = ()


class GpuSnapshot(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One reading of every GPU but those (by index) that are skipped because they hang."""

    readings: tuple[GpuReading, ...]
    driver: str = ""
    left_out: tuple[int, ...] = ()


class Holder(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A process that holds memory of a GPU, or its device file: who it is, its class, and why in one sentence."""

    pid: int
    start_ticks: int = 0
    cls: HolderClass
    why: str = ""
    bytes: int | None = None
    uid: int = -1
    user: str = ""
    command: str = ""
    state: str = ""
    parent: int = 0
    age_s: float = 0.0
    cpu_s: float = 0.0
    container: str = ""
    attempt: str = ""


class Gpu(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A GPU as the daemon sees it now. `why` explains its use; `reason` and `since` why its condition is what it is.

    `idle_s` is how long no look has shown any use; null where the driver does not say. `contended`: somebody else's
    process runs on a GPU that an engine of ours holds.
    """

    reading: GpuReading
    use: Use
    condition: Condition = "ok"
    holders: tuple[Holder, ...] = ()
    why: str = ""
    reason: str = ""
    since: str = ""
    reserved_for: str = ""
    idle_s: float | None = None
    contended: bool = False

    @property
    def id(self) -> str:
        return self.reading.id
