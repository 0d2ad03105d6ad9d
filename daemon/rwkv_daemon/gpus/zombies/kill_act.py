"""The checks at the last moment before a signal: the same process, of the same class, still on a GPU.

The process is held by a pidfd: its number may belong to another process by then, the pidfd does not.
"""

import os
from collections.abc import Sequence

from rwkv_daemon.gpus.known_gpus import Gpus
from rwkv_daemon.gpus.zombies import gpu_holders, wording
from rwkv_daemon.gpus.zombies.act_record import ReapAct
from rwkv_daemon.gpus.zombies.classify import REAPABLE, Situation, classify, neighbour
from rwkv_daemon.gpus.zombies.procfs import ProcessSnapshot
from rwkv_daemon.rules.gpu_facts import HolderClass
from rwkv_daemon.scheduling.node_work import NodeWork


class NotTouchedError(Exception):
    """Raised when the last check before a signal fails; the message is the reason, and no signal was sent after it."""


class GoneError(NotTouchedError):
    """The process does not exist any more."""


def seize(work: NodeWork, gpus: Gpus, act: ReapAct) -> int:
    """Open a pidfd of the process, then check it again. Raises NotTouchedError."""
    if act.process.pid <= 1:
        raise NotTouchedError(f"pid {act.process.pid} is never signalled")
    try:
        pidfd = os.pidfd_open(act.process.pid)
    except OSError as error:
        raise GoneError(f"pid {act.process.pid} has ended by itself") from error
    try:
        check(work, gpus, act)
    except BaseException:
        os.close(pidfd)
        raise
    return pidfd


def check(work: NodeWork, gpus: Gpus, act: ReapAct) -> None:
    """Raise NotTouchedError unless it is the same process, of the same class, that holds a GPU now, and no other
    process can be hit."""
    process = gpus.tracker.machine.snapshot(act.process.pid)
    if process is None or process.defunct:
        raise GoneError(f"pid {act.process.pid} has ended by itself")
    if process.identity != act.process.identity:
        changed = differences(process, act.process)
        raise NotTouchedError(f"pid {process.pid} is not the process that was judged: its {changed} changed")
    with gpus.tracker.lock:
        situation = gpu_holders.situation_of(work, gpus, with_neighbours=True)
    permit(process, act.cls, situation)
    wanted = {f"nvidia{minor}" for minor in minors(gpus, act.gpus)}
    devices = gpus.tracker.machine.devices(process.pid) or frozenset()
    if not (devices & wanted if wanted else devices):
        raise NotTouchedError(f"{wording.name(process)} has no device file of a GPU open now")


def permit(process: ProcessSnapshot, cls: HolderClass, situation: Situation) -> None:
    """Raise NotTouchedError unless the rules allow a process of this class to be ended. Pure."""
    rule = classify(process, situation)
    if situation.contained:
        raise NotTouchedError("this daemon is in a PID namespace of its own, where it only observes")
    if rule.name != cls or rule.name not in REAPABLE:
        raise NotTouchedError(wording.verdict(process, rule, situation))
    if other := neighbour(process, situation):
        name = situation.attempts[other].name
        raise NotTouchedError(f"{wording.name(process)} shares its cgroup with {name}, which runs")


def differences(one: ProcessSnapshot, other: ProcessSnapshot) -> str:
    """Return the names of the identity fields in which two snapshots of a process differ, joined by `and`."""
    names = ("boot_id", "start_ticks", "uids", "exe", "pid_namespace", "cgroups")
    changed = [name for name in names if getattr(one.identity, name) != getattr(other.identity, name)]
    return " and ".join(changed).replace("_", " ")


def minors(gpus: Gpus, wanted: Sequence[str] | dict[str, int | None]) -> list[int]:
    """Return the device numbers of these GPUs, as far as they are known."""
    found = (gpus.by_id[gpu].reading.minor for gpu in wanted if gpu in gpus.by_id)
    return [minor for minor in found if minor is not None]
