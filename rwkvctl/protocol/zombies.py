"""Processes that hold GPUs, on the wire: who they are, why that is said, and what was done about them."""

from typing import Literal

from msgspec import Struct

from rwkvctl.protocol.ranges import Pid, Ticks
from rwkvctl.protocol.replies import Reply


class ZombiesRequest(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`GET /v1/zombies`: every process that holds a GPU. With `pid` that one alone, with every rule."""

    pid: Pid = 0


class ReapRequest(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`POST /v1/reap`: end one process. `start_ticks` is its start, as the list shows it: another process under the
    same pid is refused. Without `yes` nothing is done but to say what would be."""

    pid: Pid
    start_ticks: Ticks = 0
    yes: bool = False
    request_id: str = ""


class RuleView(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One rule: of the class (`holds`: it matches), of the evidence, or of the node; with what was measured."""

    part: Literal["class", "evidence", "node"]
    name: str
    holds: bool
    value: str


class ZombieView(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A process that holds a GPU. `verdict` says who it is and what to do; `command_line` is what would end it, empty
    where nothing may. `still_s` is how long it has given no sign of life; null where nobody watched."""

    gpu: str
    index: str
    pid: int
    cls: str
    start_ticks: int = 0
    user: str = ""
    uid: int = -1
    age_s: float = 0.0
    memory_bytes: int | None = None
    state: str = ""
    parent: int = 0
    command: str = ""
    attempt: str = ""
    container: str = ""
    still_s: float | None = None
    verdict: str = ""
    command_line: str = ""
    rules: tuple[RuleView, ...] = ()


class ReapedView(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What came of ending a process: `freed`, `not-freed`, `still-there`, `not-touched` or `interrupted`."""

    at: str
    pid: int
    outcome: str
    text: str
    by: str = ""
    memory_before_bytes: int | None = None
    memory_after_bytes: int | None = None


class ZombiesReply(Reply, frozen=True, kw_only=True, tag="rwkvctl.zombies/1"):
    """Who holds what. `policy` is the setting `reap`; `observing` says why nothing is ended now, whoever asks."""

    items: tuple[ZombieView, ...]
    policy: str
    observing: str = ""
    reaped: tuple[ReapedView, ...] = ()


class ReapReply(Reply, frozen=True, kw_only=True, tag="rwkvctl.reap/1"):
    """What was done, or would be. `outcome` is `dry-run`, `under-way` (it goes on), or as in ReapedView."""

    items: tuple[ZombieView, ...]
    outcome: str
    text: str
    plan: tuple[str, ...] = ()
