"""Who may ask for what: the least role of each request, and what is said to who has less.

A process may be gone and its pid another's by the time it is read, so a pid never gives a right: it is only
written into the audit trail.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

import msgspec

from rwkvctl.protocol import messages as m
from rwkvctl.protocol.errors import Exit, RefusedError


class Role(IntEnum):
    """What a client may do; each may do what the ones before it may."""

    VIEWER = 1
    OPERATOR = 2
    ADMIN = 3

    @property
    def word(self) -> str:
        return self.name.lower()


@dataclass(frozen=True, slots=True)
class Actor:
    """Who caused a change: the other end of a connection, or the daemon itself."""

    uid: int
    gid: int
    pid: int
    name: str


VIEWER, OPERATOR, ADMIN = Role

LEAST: Final[Mapping[type[msgspec.Struct], Role]] = {
    m.InfoRequest: VIEWER,
    m.StatusRequest: VIEWER,
    m.PlanRequest: VIEWER,
    m.JobsRequest: VIEWER,
    m.JobRequest: VIEWER,
    m.NowRequest: VIEWER,
    m.SoFarRequest: VIEWER,
    m.SamplesRequest: VIEWER,
    m.OutlineRequest: VIEWER,
    m.SameRequest: VIEWER,
    m.ExchangeRequest: VIEWER,
    m.ScoresRequest: VIEWER,
    m.ModelsRequest: VIEWER,
    m.BenchmarksRequest: VIEWER,
    m.CompareRequest: VIEWER,
    m.JudgeRequest: VIEWER,
    m.ReviewRequest: VIEWER,
    m.SearchRequest: VIEWER,
    m.LogsRequest: VIEWER,
    m.EventsRequest: VIEWER,
    m.ZombiesRequest: VIEWER,
    m.GpusRequest: VIEWER,
    m.GpuHistoryRequest: VIEWER,
    m.GpuChange: OPERATOR,
    m.GpuProbe: ADMIN,
    m.AuditRequest: OPERATOR,
    m.NotifyRequest: VIEWER,
    m.MetricsRequest: VIEWER,
    m.ConfigRequest: VIEWER,
    m.JobLogRequest: VIEWER,
    m.ReproRequest: VIEWER,
    m.NotifyTest: OPERATOR,
    m.ReloadRequest: ADMIN,
    m.DispatchRequest: OPERATOR,
    m.StopRequest: OPERATOR,
    m.ResumeRequest: OPERATOR,
    m.PauseRequest: OPERATOR,
    m.DrainRequest: OPERATOR,
    m.HoldRequest: OPERATOR,
    m.ReleaseRequest: OPERATOR,
    m.PriorityRequest: OPERATOR,
    m.LossRequest: VIEWER,
    m.DeleteRequest: OPERATOR,
    m.UndeleteRequest: OPERATOR,
    m.PruneRequest: OPERATOR,
    m.RegradeRequest: OPERATOR,
    m.JudgeRetry: OPERATOR,
    m.ReviewMark: OPERATOR,
    m.SearchSelect: OPERATOR,
    m.ImportRequest: OPERATOR,
    m.ReapRequest: OPERATOR,
}
"""The least role for each request. What is not here needs an admin; a test finds it."""

READS: Final = frozenset({m.PlanRequest, m.CompareRequest, m.LossRequest})
"""Requests that come with a body and yet change nothing."""


def least(request: type[msgspec.Struct]) -> Role:
    """Return the least role that may send requests of this type; ADMIN where none is listed."""
    return LEAST.get(request, Role.ADMIN)


def changes(request: type[msgspec.Struct]) -> bool:
    """Whether a request changes something, and so belongs into the audit trail."""
    return m.ROUTES[request][0] != "GET" and request not in READS


def names_files(request: msgspec.Struct) -> bool:
    """Whether it is a plan of checkpoints by path, which tells of files that whoever asks names."""
    return isinstance(request, m.PlanRequest) and bool(request.selection.checkpoints or request.selection.files)


def needed(request: msgspec.Struct) -> Role:
    """The role that this very request needs."""
    return OPERATOR if names_files(request) else least(type(request))


def refuse(request: msgspec.Struct, has: Role, actor: Actor) -> None:
    """Raises RefusedError unless that role suffices for the request."""
    needs = needed(request)
    if has >= needs:
        return
    where = f"[roles] {needs.word} in config.toml" if actor.uid >= 0 else "its tokens_file"
    verb = f"`{verb_of(type(request))}`"
    if names_files(request):
        verb = "`queue` of checkpoints by path"
    raise RefusedError(
        "role",
        f"{actor.name} is {article(has)} here, and {verb} needs {article(needs)}: nothing was changed.",
        f"Who runs the daemon can grant it: {where}.",
        Exit.REFUSED,
    )


def verb_of(request: type[msgspec.Struct]) -> str:
    """Return the verb of a request from its route, such as `judge retry` for `/v1/judge/retry`; path parameters are
    left out."""
    words = m.ROUTES[request][1].removeprefix("/v1/").split("/")
    return " ".join(word for word in words if not word.startswith("{"))


def article(role: Role) -> str:
    """Return the role's name with its indefinite article, such as `an operator`."""
    return f"{'a' if role is Role.VIEWER else 'an'} {role.word}"
