"""GPUs on the wire: as they are, their last 24 hours, and what an operator decides about them."""

from typing import Literal

from msgspec import Struct

from rwkvctl.protocol.ranges import Pid, Seconds, Stamp
from rwkvctl.protocol.replies import Reply

GpuAction = Literal["reserve", "release", "drain", "undrain", "quarantine", "unquarantine", "forget"]


class GpusRequest(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`GET /v1/gpus`: every GPU that was ever seen here and not forgotten."""


class GpuHistoryRequest(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`GET /v1/gpus/history`: what was recorded from `since` to `until` (seconds since 1970; 0: the last hour, now), in
    steps of `step_s` seconds. `gpu` names one of them; empty: all."""

    since: Stamp = 0.0
    until: Stamp = 0.0
    step_s: Seconds = 10
    gpu: str = ""


class GpuChange(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`POST /v1/gpus`: decide something about GPUs, each named by its index, its UUID, or the beginning of that.
    `reason` is what a reservation is for, or why a GPU is drained or quarantined. A reservation ends with the process
    `until_pid`, if one is named. Repeating it changes nothing."""

    action: GpuAction
    gpus: tuple[str, ...]
    reason: str = ""
    until_pid: Pid = 0


class GpuProbe(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`POST /v1/gpus/probe`: the command (program and arguments, no shell) that says how the work on reserved GPUs is
    getting on; empty for none. The daemon runs it now and then, as its own user (as `nobody` where that is root)."""

    gpus: tuple[str, ...]
    command: tuple[str, ...] = ()


class GpuHolderView(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A process that holds memory of a GPU. `start` is its start time in ticks: with the pid it names one process."""

    pid: int
    start: int
    cls: str
    why: str = ""
    user: str = ""
    command: str = ""
    memory_bytes: int | None = None
    age_s: float = 0.0


class GpuView(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A GPU, or an instance of a divided one (`parent` is then the card). `why` explains its use, `reason` and `since`
    its condition; a reservation ends with the process `until_pid` (0: with none). Shares are of one; what the driver
    does not say is null."""

    id: str
    index: str
    name: str = ""
    parent: str = ""
    use: str
    condition: str = "ok"
    why: str = ""
    reason: str = ""
    since: str = ""
    engines: tuple[str, ...] = ()
    reserved_for: str = ""
    until_pid: int = 0
    probe: tuple[str, ...] = ()
    probe_says: str = ""
    contended: bool = False
    holders: tuple[GpuHolderView, ...] = ()
    memory_used_bytes: int | None = None
    memory_total_bytes: int | None = None
    utilisation: float | None = None
    idle_s: float | None = None
    power_w: float | None = None
    power_limit_w: float | None = None
    temperature_c: float | None = None
    clock_mhz: int | None = None
    clock_max_mhz: int | None = None
    throttle: tuple[str, ...] = ()
    ecc_uncorrected: int | None = None
    application_xids: int = 0
    failures: int = 0


class GpusReply(Reply, frozen=True, kw_only=True, tag="rwkvctl.gpus/1"):
    """The GPUs. `trouble` says why nothing can be measured, `self_test` why NVML's process list is not believed (and
    nothing is reaped); empty where all is well."""

    items: tuple[GpuView, ...]
    driver: str = ""
    trouble: str = ""
    self_test: str = ""


class ChangedGpu(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a change did to one GPU: its condition now, whether that changed, or why not."""

    gpu: str
    condition: str = ""
    reason: str = ""
    changed: bool
    error: str = ""


class GpusChangedReply(Reply, frozen=True, kw_only=True, tag="rwkvctl.gpus-changed/1"):
    """What a change did, GPU by GPU."""

    items: tuple[ChangedGpu, ...]


class GpuTrack(Struct, frozen=True, kw_only=True):
    """One GPU over time, one value for each step; null (or an empty word) where nothing was recorded. Utilisation and
    power are means, memory and temperature maxima, use and condition the last of the step."""

    id: str
    index: str
    use: tuple[str, ...]
    condition: tuple[str, ...]
    utilisation: tuple[float | None, ...]
    memory_used_bytes: tuple[int | None, ...]
    power_w: tuple[float | None, ...]
    temperature_c: tuple[float | None, ...]


class GpuHistoryReply(Reply, frozen=True, kw_only=True, tag="rwkvctl.gpu-history/1"):
    """Steps of `step_s` seconds, the first at `since` (seconds since 1970). Long windows get longer steps."""

    since: int
    until: int
    step_s: int
    items: tuple[GpuTrack, ...]
