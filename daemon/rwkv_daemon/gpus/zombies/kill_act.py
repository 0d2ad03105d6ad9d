"""One act: the end of one process, as it was decided, and what an act may find when it looks again.

Everything that is checked here is checked at the last moment, on a process that a pidfd holds: its number may be
another's by then, but the pidfd is not.
"""

import asyncio
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from rwkv_daemon.gpus.zombies import gpu_holders, wording
from rwkv_daemon.gpus.zombies.classify import REAPABLE, Situation, classify, neighbour
from rwkv_daemon.gpus.zombies.evidence import Finding
from rwkv_daemon.gpus.zombies.procfs import Process
from rwkv_daemon.node import Node
from rwkv_daemon.rules.gpu_facts import HolderClass
from rwkv_daemon.rules.roles import Actor
from rwkv_daemon.store.interface import Row


class NotTouchedError(Exception):
    """A last look says no; the message is the reason. No signal was sent after it."""


class GoneError(NotTouchedError):
    """There is no such process any more."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How an act ended: `freed`, `not-freed` (ended, and NVML still counts the memory), `still-there`, `not-touched`,
    or `interrupted` (the daemon died)."""

    word: str
    text: str


@dataclass(frozen=True, slots=True)
class Act:
    """A process to end, as it was when that was decided, and who decided it. `gpus` says what it held of each;
    `before`, of an act that is taken up again, what was in use on them together when it began."""

    id: str
    process: Process
    cls: HolderClass
    gpus: dict[str, int | None]
    automatic: bool
    actor: Actor
    findings: tuple[Finding, ...] = ()
    before: int | None = None
    done: asyncio.Future[Outcome] = field(default_factory=lambda: asyncio.get_running_loop().create_future())

    @property
    def key(self) -> tuple[int, int]:
        return self.process.pid, self.process.stat.start_ticks

    def columns(self) -> dict[str, Any]:
        """As every row of it is stored."""
        return {
            "act": self.id,
            "automatic": int(self.automatic),
            "uid": self.actor.uid,
            "asker_pid": self.actor.pid,
            "asker": self.actor.name,
            "pid": self.process.pid,
            "start_ticks": self.process.stat.start_ticks,
            "boot_id": self.process.boot_id,
            "class": self.cls,
            "gpus": text(self.gpus),
            "snapshot": text(self.process),
            "rules": text(self.findings),
        }

    @classmethod
    def of(cls, row: Row) -> "Act":
        """One that an earlier daemon began."""
        return cls(
            id=row["act"],
            process=msgspec.json.decode(row["snapshot"], type=Process),
            cls=row["class"],
            gpus=msgspec.json.decode(row["gpus"], type=dict[str, int | None]),
            automatic=bool(row["automatic"]),
            actor=Actor(row["uid"], -1, row["asker_pid"], row["asker"]),
            findings=tuple(msgspec.json.decode(row["rules"], type=list[Finding])),
            before=row["memory_bytes"],
        )


def text(value: object) -> str:
    return msgspec.json.encode(value).decode()


def seize(node: Node, act: Act) -> int:
    """A pidfd of the process, opened before it is looked at again. Raises NotTouchedError."""
    if act.process.pid <= 1:
        raise NotTouchedError(f"pid {act.process.pid} is never signalled")
    try:
        pidfd = os.pidfd_open(act.process.pid)
    except OSError as error:
        raise GoneError(f"pid {act.process.pid} has ended by itself") from error
    try:
        check(node, act)
    except BaseException:
        os.close(pidfd)
        raise
    return pidfd


def check(node: Node, act: Act) -> None:
    """Raises NotTouchedError unless it is the same process, of the same class, holds a GPU now, and nobody else can be
    hit."""
    process = node.zombies.machine.snapshot(act.process.pid)
    if process is None or process.defunct:
        raise GoneError(f"pid {act.process.pid} has ended by itself")
    if process.identity != act.process.identity:
        changed = differences(process, act.process)
        raise NotTouchedError(f"pid {process.pid} is not the process that was judged: its {changed} changed")
    with node.zombies.lock:
        situation = gpu_holders.situation_of(node, with_neighbours=True)
    permit(process, act.cls, situation)
    wanted = {f"nvidia{minor}" for minor in minors(node, act.gpus)}
    devices = node.zombies.machine.devices(process.pid) or frozenset()
    if not (devices & wanted if wanted else devices):
        raise NotTouchedError(f"{wording.name(process)} has no device file of a GPU open now")


def permit(process: Process, cls: HolderClass, situation: Situation) -> None:
    """The rules of who may be ended, on a fresh snapshot. Pure. Raises NotTouchedError."""
    rule = classify(process, situation)
    if situation.contained:
        raise NotTouchedError("this daemon is in a PID namespace of its own, where it only observes")
    if rule.name != cls or rule.name not in REAPABLE:
        raise NotTouchedError(wording.verdict(process, rule, situation))
    if other := neighbour(process, situation):
        name = situation.attempts[other].name
        raise NotTouchedError(f"{wording.name(process)} shares its cgroup with {name}, which runs")


def differences(one: Process, other: Process) -> str:
    """What is not as it was."""
    names = ("boot_id", "start_ticks", "uids", "exe", "pid_namespace", "cgroups")
    changed = [name for name in names if getattr(one.identity, name) != getattr(other.identity, name)]
    return " and ".join(changed).replace("_", " ")


def minors(node: Node, gpus: Sequence[str] | dict[str, int | None]) -> list[int]:
    """The device numbers of these GPUs, where they are known."""
    found = (node.gpus[gpu].reading.minor for gpu in gpus if gpu in node.gpus)
    return [minor for minor in found if minor is not None]
