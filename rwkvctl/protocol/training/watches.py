"""Watched folders of training runs: adding one, changing it, and what became of the checkpoints in it."""

from typing import Final, Literal

from msgspec import Struct

from rwkvctl.protocol.ranges import Count, Number, Rank, Seconds
from rwkvctl.protocol.replies import Reply
from rwkvctl.protocol.requests import Selection
from rwkvctl.protocol.states import LeftOut, WatchedState, WatchPolicy, WatchState

FINAL_STEP: Final = 10**15
"""The step of a checkpoint whose name says that it is the last; no name says a larger one."""


class WatchRules(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Which files of a folder are checkpoints, when one is ready, and which are measured.

    `match`: patterns of names, all where there is none. A file is ready if it stood still for `settle_s`; if there is a
    `marker`, as soon as a file of that name is beside it, and not before, with `{}` for the checkpoint's name. `step`:
    what stands around the step in a name, `{}` for the step. `every`: only steps that are multiples of it.
    `most_waiting`: nothing more is queued while so many of the watch's jobs wait (0: no limit). `priority`: of the
    jobs; as it is, work that is dispatched by hand comes first."""

    match: tuple[str, ...] = ()
    settle_s: Seconds = 30
    marker: str = ""
    step: str = ""
    policy: WatchPolicy = "newest"
    every: Count = 0
    most_waiting: Count = 0
    priority: Rank = -10


class WatchAdd(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`POST /v1/watches`: watch a folder, and measure its checkpoints as the selection says, which names no models.
    `name`: the models' names begin with it; without one it is the folder's. `baseline`: a model with scores, which is
    pinned as that of the checkpoints. `check`: only say what is there."""

    root: str
    name: str = ""
    baseline: str = ""
    rules: WatchRules = WatchRules()
    selection: Selection = Selection()
    check: bool = False
    request_id: str = ""


class WatchesRequest(Struct, frozen=True, kw_only=True):
    """`GET /v1/watches`: every watched folder."""


class WatchRequest(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`GET /v1/watches/{watch}`: one folder with a page of its checkpoints, the last step first. `state`, `checkpoint`
    and `step` (-1: any): only those in this state, of this name, of this step; `after`: how many are left out before
    the page (`next` of the page before it)."""

    watch: str
    state: WatchedState | Literal[""] = ""
    checkpoint: str = ""
    step: Number = -1
    limit: Count = 100
    after: Count = 0


class WatchChange(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`POST /v1/watches/change`: pause a watch, take it up again with its folder as it is now, or remove it (its jobs
    and scores stay); measure checkpoints that were parked or left out after all, or leave some out. `checkpoints`:
    their names; none with `retry`: all that are parked."""

    watch: str
    action: Literal["pause", "resume", "remove", "retry", "skip"]
    checkpoints: tuple[str, ...] = ()
    request_id: str = ""


class WatchedView(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A checkpoint of a watched folder. `name`: of its file below the folder; `model`: under which it is measured;
    `left_out`: why it is superseded."""

    id: int
    name: str
    state: WatchedState
    left_out: LeftOut = ""
    reason: str = ""
    step: int | None = None
    sha256: str = ""
    model: str = ""
    session: str = ""
    jobs: tuple[str, ...] = ()
    seen: str = ""
    ready: str = ""
    dispatched: str = ""
    finished: str = ""


class WatchView(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A watched folder. `counts`: how many checkpoints are in each state; `detail`: why it cannot be read."""

    watch: str
    name: str
    root: str
    state: WatchState
    detail: str = ""
    counts: dict[str, int] = {}
    rules: WatchRules = WatchRules()
    selection: Selection = Selection()
    who: str = ""
    created: str = ""


class WatchesReply(Reply, frozen=True, kw_only=True, tag="rwkvctl.watches/1"):
    """The watched folders, the oldest first."""

    items: tuple[WatchView, ...]


class WatchReply(Reply, frozen=True, kw_only=True, tag="rwkvctl.watch/1"):
    """One watched folder, and a page of its checkpoints; `next` is `after` of the page that follows, 0 at the end.
    `notes`: sentences on what was added."""

    watch: WatchView
    items: tuple[WatchedView, ...] = ()
    next: int = 0
    notes: tuple[str, ...] = ()
