"""One reap: the end of one process, as it was decided and as it is stored."""

import asyncio
from dataclasses import dataclass, field
from typing import Any

import msgspec

from rwkv_daemon.gpus.zombies.evidence import Evidence
from rwkv_daemon.gpus.zombies.procfs import ProcessSnapshot
from rwkv_daemon.rules.gpu_facts import HolderClass
from rwkv_daemon.rules.roles import Actor
from rwkv_daemon.store.interface import StoreRow


@dataclass(frozen=True, slots=True)
class ReapOutcome:
    """How a reap ended: `freed`, `not-freed` (the process ended, and NVML still counts the memory), `still-there`,
    `not-touched`, or `interrupted` (the daemon died)."""

    word: str
    text: str


@dataclass(frozen=True, slots=True)
class ReapAct:
    """A process to end, as it was when that was decided, and who decided it. `gpus` says how many bytes it held of
    each; `before` is the memory in use on them when a resumed reap began."""

    id: str
    process: ProcessSnapshot
    cls: HolderClass
    gpus: dict[str, int | None]
    automatic: bool
    actor: Actor
    findings: tuple[Evidence, ...] = ()
    before: int | None = None
    done: asyncio.Future[ReapOutcome] = field(default_factory=lambda: asyncio.get_running_loop().create_future())

    @property
    def key(self) -> tuple[int, int]:
        return self.process.pid, self.process.stat.start_ticks

    def columns(self) -> dict[str, Any]:
        """Return the columns that every stored row of the act has."""
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
    def of(cls, row: StoreRow) -> "ReapAct":
        """Restore an act that an earlier daemon began from its stored row."""
        return cls(
            id=row["act"],
            process=msgspec.json.decode(row["snapshot"], type=ProcessSnapshot),
            cls=row["class"],
            gpus=msgspec.json.decode(row["gpus"], type=dict[str, int | None]),
            automatic=bool(row["automatic"]),
            actor=Actor(row["uid"], -1, row["asker_pid"], row["asker"]),
            findings=tuple(msgspec.json.decode(row["rules"], type=list[Evidence])),
            before=row["memory_bytes"],
        )


def text(value: object) -> str:
    return msgspec.json.encode(value).decode()
