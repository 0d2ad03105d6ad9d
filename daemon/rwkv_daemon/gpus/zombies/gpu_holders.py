"""The processes that hold one GPU, each with its class: NVML's list joined with /proc, and with open device files if
the list is in doubt.

NVML's pids cannot be trusted alone: they have named processes that do not exist, missed holders, and mean nothing in
another PID namespace.
"""

import os
import time
from dataclasses import replace
from typing import Final

from rwkv_daemon.gpus.known_gpus import Gpus
from rwkv_daemon.gpus.zombies import wording
from rwkv_daemon.gpus.zombies.classify import ClassRule, MarkedAttempt, Protection, Situation, classify, container_id
from rwkv_daemon.gpus.zombies.evidence import OrphanObservation
from rwkv_daemon.gpus.zombies.process_tracker import ProcessTracker, log_bytes
from rwkv_daemon.gpus.zombies.procfs import Machine, ProcessSnapshot
from rwkv_daemon.rules.gpu_facts import GpuProcess, GpuReading, Holder, HolderClass
from rwkv_daemon.scheduling.live_engines import Engines
from rwkv_daemon.scheduling.node_work import NodeWork
from rwkv_daemon.scheduling.running_jobs import RunningJobs
from rwkvctl.settings.fields import Settings

UNEXPLAINED_BYTES: Final = 256 * 1024 * 1024
"""Memory that may be in use without a holder: the driver's own."""


def look(work: NodeWork, gpus: Gpus, reading: GpuReading) -> tuple[Holder, ...]:
    """Return the holders of a GPU. Reads /proc (some milliseconds), so it is called in a thread, and without the lock,
    as a process that hangs in the driver can block a reader of its files."""
    tracker, clock = gpus.tracker, time.monotonic()
    known = {process.pid: tracker.process(process.pid, clock) for process in reading.processes or ()}
    with tracker.lock:
        counts = tracker.readings.get(reading.id) is not reading
        tracker.readings[reading.id] = reading
        situation = situation_of(work, gpus)
        listed = {process.pid: process for process in reading.processes or ()}
        found = [
            seen(tracker, situation, reading, one, known[pid], clock, counts=counts) for pid, one in listed.items()
        ]
    more = device_holders(tracker, reading, clock) - set(listed) if suspicious(reading, found) else set()
    unlisted = {pid: tracker.process(pid, clock) for pid in sorted(more)}
    with tracker.lock:
        found += [
            seen(tracker, situation, reading, GpuProcess(pid=pid), process, clock, counts=counts)
            for pid, process in unlisted.items()
        ]
        holders = tuple(sorted((h for h in found if h is not None and not own(h)), key=lambda holder: holder.pid))
        tracker.forget(reading.id, {holder.pid for holder in holders} | set(listed), clock)
    return holders


def own(holder: Holder) -> bool:
    """Whether the holder is the daemon or its sampler, which open device files only to measure."""
    return holder.cls == "protected" and os.getpid() in {holder.pid, holder.parent} and holder.bytes is None


def suspicious(reading: GpuReading, found: list[Holder | None]) -> bool:
    """Whether there may be a holder that NVML does not list: memory without a holder, or a list that is not valid. A
    MIG instance has no device file of its own."""
    if reading.parent or reading.trouble or reading.minor is None:
        return False
    if reading.processes is None or any(holder is not None and holder.cls in {"ghost", "defunct"} for holder in found):
        return True
    known = [process.bytes for process in reading.processes]
    if None in known:
        return False
    used = (reading.memory_used_bytes or 0) - sum(bytes_ for bytes_ in known if bytes_ is not None)
    return used > UNEXPLAINED_BYTES


def device_holders(tracker: ProcessTracker, reading: GpuReading, clock: float) -> set[int]:
    """Return the pids that have this GPU's device file open. All processes are scanned without the lock."""
    device = f"nvidia{reading.minor}"
    return {pid for pid, devices in tracker.device_holders(clock).items() if device in devices}


def seen(
    tracker: ProcessTracker,
    situation: Situation,
    reading: GpuReading,
    listed: GpuProcess,
    process: ProcessSnapshot | None,
    clock: float,
    *,
    counts: bool,
) -> Holder | None:
    """Return one process of a GPU as a holder; None if it was found by its open file alone and has ended since."""
    if process is None or (situation.contained and not holds(tracker.machine, process, reading)):
        return missing(tracker, situation, reading, listed, clock)
    if blocked_s := tracker.blocked_s(process, clock):
        situation = replace(situation, blocked_s=blocked_s)
    rule = classify(process, situation)
    holder = holder_of(process, rule, situation, listed.bytes)
    attempt = situation.attempts.get(process.marker)
    utilisation = None if reading.trouble else reading.utilisation
    at = OrphanObservation(clock, utilisation, process.cpu_s, log_bytes(attempt.log) if attempt else 0)
    tracker.keep(process, rule, holder, reading.id, at, counts=counts)
    return holder


def missing(
    tracker: ProcessTracker, situation: Situation, reading: GpuReading, listed: GpuProcess, clock: float
) -> Holder | None:
    """Return the holder for a pid that NVML lists and /proc does not show: hidden, of another namespace, or no
    process."""
    if listed not in (reading.processes or ()):
        return None
    cls: HolderClass = "ghost"
    if situation.contained:
        cls = "container"
    elif tracker.machine.exists(listed.pid):
        cls = "other-user"
    lasts_s = tracker.missing(reading.id, listed.pid, clock) if cls == "ghost" else 0.0
    why = wording.absent(listed.pid, cls, lasts_s)
    return Holder(pid=listed.pid, cls=cls, why=why, bytes=listed.bytes)


def holds(machine: Machine, process: ProcessSnapshot, reading: GpuReading) -> bool:
    """Whether it has a device file of this GPU open now. If its files may not be read, that is unknown and counts as
    no."""
    devices = machine.devices(process.pid) or frozenset()
    if reading.minor is None:
        return bool(devices)
    return f"nvidia{reading.minor}" in devices


def holder_of(process: ProcessSnapshot, rule: ClassRule, situation: Situation, bytes_: int | None) -> Holder:
    """Return a process and its class as a plain value for the GPU's state."""
    attempt = situation.attempts.get(process.marker)
    ours = attempt is not None and attempt.state in {"runs", "ended"} and rule.name in {"ours", "orphan", "stuck"}
    return Holder(
        pid=process.pid,
        start_ticks=process.stat.start_ticks,
        cls=rule.name,
        why=wording.verdict(process, rule, situation),
        bytes=bytes_,
        uid=process.uids[0] if process.uids else -1,
        user=process.user,
        command=process.command,
        state=process.stat.state,
        parent=process.stat.parent,
        age_s=round(process.age_s, 1),
        cpu_s=round(process.cpu_s, 2),
        container=container_id(process) if rule.name == "container" else "",
        attempt=attempt.name if attempt is not None and ours else "",
    )


def situation_of(work: NodeWork, gpus: Gpus, *, with_neighbours: bool = False) -> Situation:
    """Return what classification needs to know of this daemon. `with_neighbours`: also the cgroups of our workers,
    which costs reading a file each."""
    tracker = gpus.tracker
    live = {
        **{h.row.uuid: MarkedAttempt(name=h.row.name, state="runs") for h in tuple(work.engines.live.values())},
        **{h.worker.uuid: MarkedAttempt(name=f"j{h.job}", state="runs") for h in tuple(work.running.runners.values())},
    }
    return Situation(
        pid=os.getpid(),
        uid=os.geteuid(),
        pid_namespace=tracker.namespace,
        contained=tracker.contained,
        cgroups=tracker.cgroups,
        neighbours=neighbours_of(work.running, work.engines, gpus) if with_neighbours else {},
        attempts={marker: stored.now() for marker, stored in tracker.attempts.items()} | live,
        protection=protection_of(work.records.config.settings),
    )


def neighbours_of(running: RunningJobs, engines: Engines, gpus: Gpus) -> dict[str, frozenset[str]]:
    """Return the markers of live workers, by cgroup."""
    found: dict[str, frozenset[str]] = {}
    workers = [h.worker for h in tuple(engines.live.values())] + [h.worker for h in tuple(running.runners.values())]
    for worker in workers:
        for group in gpus.tracker.machine.cgroups(worker.pid):
            found[group] = found.get(group, frozenset()) | {worker.uuid}
    return found


def protection_of(settings: Settings) -> Protection:
    """Return the operator's protection lists, as they are in force now."""
    return Protection(
        users=tuple(settings.protect_users.split()),
        commands=tuple(settings.protect_commands.split()),
        cgroups=tuple(settings.protect_cgroups.split()),
    )
