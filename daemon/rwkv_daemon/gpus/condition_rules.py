"""Whether a GPU may be used: its condition, and how each event changes it. Pure.

    ok -> cooldown (60 s after an engine ended abnormally) -> suspect (10 min after a second one) -> quarantined (third)

Evidence of a hardware fault quarantines at once; an operator reserves, drains and quarantines. A quarantine ends when
the operator says so, or by itself if a process was the cause and the GPU has been free for a minute. Times are
monotonic seconds; after a restart of the daemon every wait begins anew.
"""

from typing import Final, Literal

import msgspec
from msgspec import Struct

from rwkv_daemon.gpus import xid_rules
from rwkv_daemon.rules.gpu_facts import Condition, GpuReading

COOLDOWN_S: Final = 60.0
SUSPECT_S: Final = 600.0
FORGET_S: Final = 3600.0
"""After so long without a failure the earlier ones do not count."""
MOST_FAILURES: Final = 3
CLEAR_S: Final = 60.0
"""A quarantine that a process caused ends when the GPU has been free for so long."""

Cause = Literal["", "operator", "hardware", "process", "engine"]
"""Who or what quarantined a GPU: only `process` ends by itself."""

SUSPICIOUS: Final = {
    "remap-pending": "memory rows wait to be remapped: reset the GPU when it is idle",
    "hw-slowdown": "the hardware slows its clocks down (power or heat)",
    "hw-thermal": "it is too hot: the hardware slows its clocks down",
    "power-brake": "the power supply slows it down",
}
"""Symptoms that keep new engines away while they last and for a minute after, as they come and go by the second."""


class AwaitedProcess(Struct, frozen=True):
    """A process with whose end a reservation ends."""

    pid: int
    start_ticks: int
    boot_id: str


class ConditionRecord(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the daemon remembers of one GPU, stored at every change. An empty text means: not so. `probe` is the command
    of a reservation, `until` the process with which it ends; `symptoms` are those of the last reading; `since` is wall
    time, the other times are monotonic."""

    quarantine: str = ""
    cause: Cause = ""
    hold: Literal["", "cooldown", "suspect"] = ""
    hold_why: str = ""
    hold_ends: float = 0.0
    draining: str = ""
    reserved_for: str = ""
    probe: tuple[str, ...] = ()
    until: AwaitedProcess | None = None
    symptoms: tuple[str, ...] = ()
    failures: int = 0
    failed_at: float = 0.0
    application_xids: int = 0
    ecc_seen: int | None = None
    free_since: float | None = None
    since: str = ""


class EngineFailed(Struct, frozen=True):
    """An engine of ours ended abnormally on the GPU, and its model is not to blame."""

    why: str


class GpuMeasured(Struct, frozen=True):
    """One reading of the GPU: None if it did not answer. `free`: nobody uses it."""

    reading: GpuReading | None
    free: bool = False


class Reserve(Struct, frozen=True):
    """The operator reserves the GPU for another purpose, until a process ends, or until somebody ends that."""

    purpose: str
    until: AwaitedProcess | None = None


class Probe(Struct, frozen=True):
    """The operator sets the command that explains what a reserved GPU is doing; empty for none."""

    command: tuple[str, ...]


class Unreserve(Struct, frozen=True):
    """The operator ends the reservation, or its process is over; its purpose and its probe are forgotten."""


class Drain(Struct, frozen=True):
    """The operator wants no new engine on the GPU; what runs may end."""

    reason: str


class Undrain(Struct, frozen=True):
    """The operator ends the drain: new engines may start on the GPU again."""


class Quarantine(Struct, frozen=True):
    """The operator, or another part of the daemon, takes the GPU out of use."""

    reason: str
    cause: Cause


class Unquarantine(Struct, frozen=True):
    """The operator ends the quarantine. Present symptoms are known by then, and quarantine only if they go away and
    come again."""


GpuEvent = EngineFailed | GpuMeasured | Reserve | Probe | Unreserve | Drain | Undrain | Quarantine | Unquarantine


def after(record: ConditionRecord, event: GpuEvent, at: float) -> ConditionRecord:
    """Return the record after an event at a time."""
    change = msgspec.structs.replace
    match event:
        case EngineFailed(why):
            return failed(record, why, at)
        case GpuMeasured(reading, free):
            return measured(record, reading, at, free=free)
        case Reserve(purpose, until):
            return change(record, reserved_for=purpose, until=until)
        case Probe(command):
            return change(record, probe=command)
        case Unreserve():
            return change(record, reserved_for="", probe=(), until=None)
        case Drain(reason):
            return change(record, draining=reason)
        case Undrain():
            return change(record, draining="")
        case Quarantine(reason, cause):
            return quarantined(record, reason, cause)
        case Unquarantine():
            return change(
                record, quarantine="", cause="", hold="", hold_why="", hold_ends=0.0, failures=0, free_since=None
            )


def quarantined(record: ConditionRecord, reason: str, cause: Cause) -> ConditionRecord:
    """Return the record with a quarantine. The first reason stays; a cause that ends by itself is replaced by one that
    does not."""
    if record.quarantine and (record.cause != "process" or cause == "process"):
        return record
    return msgspec.structs.replace(record, quarantine=reason, cause=cause, free_since=None)


def failed(record: ConditionRecord, why: str, at: float) -> ConditionRecord:
    """Return the record after an engine failed: one crash says little about its GPU, three in an hour say much."""
    recent = record.failures if at - record.failed_at < FORGET_S else 0
    record = msgspec.structs.replace(record, failures=recent + 1, failed_at=at)
    if record.failures >= MOST_FAILURES:
        reason = f"{record.failures} engines ended abnormally here, the last one: {why}"
        return quarantined(record, reason, "engine")
    if record.failures > 1:
        reason = f"{record.failures} engines ended abnormally here within the hour, the last one: {why}"
        return msgspec.structs.replace(record, hold="suspect", hold_why=reason, hold_ends=at + SUSPECT_S)
    return msgspec.structs.replace(
        record, hold="cooldown", hold_why=f"an engine ended abnormally: {why}", hold_ends=at + COOLDOWN_S
    )


def measured(record: ConditionRecord, reading: GpuReading | None, at: float, *, free: bool) -> ConditionRecord:
    """Return the record after a reading: evidence first, then what has run out."""
    if reading is not None:
        record = suspected(with_evidence(record, reading), reading, at)
    if record.hold and at >= record.hold_ends:
        record = msgspec.structs.replace(record, hold="", hold_why="", hold_ends=0.0)
    if record.failures and at - record.failed_at >= FORGET_S:
        record = msgspec.structs.replace(record, failures=0)
    if record.cause != "process":
        return record
    since = (record.free_since if record.free_since is not None else at) if free else None
    if since is not None and at - since >= CLEAR_S:
        return msgspec.structs.replace(record, quarantine="", cause="", free_since=None)
    return msgspec.structs.replace(record, free_since=since)


def with_evidence(record: ConditionRecord, reading: GpuReading) -> ConditionRecord:
    """Return the record with the evidence of a reading: XIDs, memory errors, and what the driver advises. A symptom
    that stays counts once."""
    for event in reading.xids:
        if xid_rules.blame(event.code) == "gpu":
            record = quarantined(record, xid_rules.sentence(event.code), "hardware")
        elif xid_rules.blame(event.code) == "application":
            record = msgspec.structs.replace(record, application_xids=record.application_xids + 1)
    if reading.ecc_uncorrected is not None:
        new = reading.ecc_uncorrected - (record.ecc_seen if record.ecc_seen is not None else reading.ecc_uncorrected)
        if new > 0:  # fewer than before: the driver was reloaded and counts from zero
            record = quarantined(record, f"{new} uncorrectable memory errors (ECC)", "hardware")
        record = msgspec.structs.replace(record, ecc_seen=reading.ecc_uncorrected)
    present = symptoms(reading, record.symptoms)
    for name, reason in present.items():
        if name not in record.symptoms:
            record = quarantined(record, reason, "hardware")
    return msgspec.structs.replace(record, symptoms=tuple(sorted(present)))


def suspected(record: ConditionRecord, reading: GpuReading, at: float) -> ConditionRecord:
    """Keep new engines away from a GPU that is slowed down or waits for a reset; a longer suspicion stays as it is."""
    seen = [*reading.throttle, *(["remap-pending"] if reading.remap_pending else [])]
    reasons = [SUSPICIOUS[name] for name in seen if name in SUSPICIOUS]
    if not reasons or (record.hold == "suspect" and record.hold_ends - at > CLEAR_S / 2):
        return record
    return msgspec.structs.replace(record, hold="suspect", hold_why="; ".join(reasons), hold_ends=at + CLEAR_S)


def symptoms(reading: GpuReading, before: tuple[str, ...]) -> dict[str, str]:
    """Return the present symptoms, each with a sentence. While a GPU does not answer, its last symptoms count as
    present."""
    if reading.lost:
        return dict.fromkeys(before, "") | {"lost": "it fell off the bus; reset it or reboot the node"}
    if reading.trouble and not reading.mig:
        return dict.fromkeys(before, "")
    found = {}
    if reading.remap_failed:
        found["remap-failed"] = "a bad memory row could not be remapped: it needs replacing"
    if reading.recovery_action:
        found[f"recovery: {reading.recovery_action}"] = f"the driver advises: {reading.recovery_action}"
    return found


def shown(record: ConditionRecord) -> tuple[Condition, str]:
    """Return the condition and its reason: if several apply, the one that lasts longest."""
    if record.quarantine:
        return "quarantined", record.quarantine
    if record.draining:
        return "draining", record.draining
    if record.reserved_for:
        ends = f", until process {record.until.pid} ends" if record.until else ""
        return "reserved", f"for {record.reserved_for}{ends}"
    if record.hold:
        return record.hold, record.hold_why
    return "ok", ""


def lasting(record: ConditionRecord) -> ConditionRecord:
    """Return what is stored of a record: not the times, which are by this daemon's monotonic clock."""
    return msgspec.structs.replace(record, hold_ends=0.0, failed_at=0.0, free_since=None)


def restored(record: ConditionRecord, at: float) -> ConditionRecord:
    """Return a stored record for this daemon, whose monotonic clock is another one: every wait begins anew."""
    length = {"cooldown": COOLDOWN_S, "suspect": SUSPECT_S}.get(record.hold, 0.0)
    return msgspec.structs.replace(
        record, hold_ends=at + length if length else 0.0, failed_at=at if record.failures else 0.0, free_since=None
    )
