"""Outside harnesses: what the node has, and their tasks."""

from typing import Final, Literal

from msgspec import Struct

from rwkvctl.protocol.ranges import Count
from rwkvctl.protocol.replies import Reply

HarnessState = Literal["ready", "building", "broken", "not built"]
KIND: Final = "harness."
"""How the kind of a job begins that a harness does: before `lm-eval@0.4.13`."""


def is_harness(kind: str) -> bool:
    """Whether a job of this kind is done by an outside harness."""
    return kind.startswith(KIND)


class HarnessesRequest(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`GET /v1/harnesses`: the outside harnesses of the node."""


class HarnessView(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One harness. `detail`: of one that is being built or is broken, the last line of its log, `log`. `tasks`: how
    many it has; `own`: the folder for the operator's own ones, and `outdated`: these have changed since it was built.
    `settings`: what `--set` may change. `problem`: why its manifest cannot be read."""

    name: str
    version: str = ""
    state: HarnessState = "not built"
    detail: str = ""
    log: str = ""
    tasks: int = 0
    own: str = ""
    outdated: bool = False
    network: bool = False
    settings: tuple[str, ...] = ()
    problem: str = ""


class HarnessesReply(Reply, frozen=True, kw_only=True, tag="rwkvctl.harnesses/1"):
    """The harnesses of the node, those that come with rwkvctl and the operator's, by name."""

    items: tuple[HarnessView, ...] = ()


class HarnessTasksRequest(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`GET /v1/harness-tasks`: the tasks of a harness that is built, in whose names each of the `words` is."""

    name: str
    words: str = ""
    limit: Count = 100


class HarnessTasksReply(Reply, frozen=True, kw_only=True, tag="rwkvctl.harness-tasks/1"):
    """Names of tasks; `total` is how many match."""

    harness: str
    tasks: tuple[str, ...] = ()
    total: int = 0
