"""Who may ask for what: the roles of the daemon's clients, by the uid and groups that the kernel vouches for.

Pure but for the look-up of names. A process may be gone and its pid another's by the time it is read, so a pid never
gives a right: it is only written into the audit trail.
"""

import contextlib
import grp
import os
import pwd
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final

import msgspec

from rwkvctl.http.peer_credentials import Peer
from rwkvctl.protocol import messages as m
from rwkvctl.protocol.errors import ConfigError, Exit, RefusedError
from rwkvctl.settings import config

GROUP: Final = "rwkvctl"
"""Whose members operate, unless the configuration says otherwise."""


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
    """The role that a request needs."""
    return LEAST.get(request, Role.ADMIN)


def changes(request: type[msgspec.Struct]) -> bool:
    """Whether a request changes something, and so belongs into the audit trail."""
    return m.ROUTES[request][0] != "GET" and request not in READS


@dataclass(frozen=True, slots=True)
class Grants:
    """Roles by uid and by gid. Root and `own`, the daemon's user, are admins; who is not named is a viewer."""

    users: Mapping[int, Role] = field(default_factory=dict)
    groups: Mapping[int, Role] = field(default_factory=dict)
    own: int = field(default_factory=os.geteuid)

    def role(self, peer: Peer) -> Role:
        """The highest role that a peer's uid or one of its groups has."""
        if peer.uid in {0, self.own}:
            return Role.ADMIN
        by_group = (self.groups[gid] for gid in {peer.gid, *peer.groups} if gid in self.groups)
        return max(self.users.get(peer.uid, Role.VIEWER), Role.VIEWER, *by_group)


class Names:
    """Users and groups of this machine. Each answers None for a name or number that nobody has."""

    def uid(self, name: str) -> int | None:
        with contextlib.suppress(KeyError):
            return pwd.getpwnam(name).pw_uid
        return None

    def gid(self, name: str) -> int | None:
        with contextlib.suppress(KeyError):
            return grp.getgrnam(name).gr_gid
        return None


def grants(table: Mapping[str, object], origin: str, names: Names) -> tuple[Grants, tuple[str, ...]]:
    """The table [roles] as rights, and a sentence for each name that nobody on this machine has (and so gives no
    right). Raises ConfigError for what is no such table."""
    users: dict[int, Role] = {}
    groups: dict[int, Role] = {}
    strange: list[str] = []
    for word, entries in ({"operator": [f"@{GROUP}"]} | dict(table)).items():
        role = role_of(word, origin)
        for entry in listed(entries, word, origin):
            whom, number = (groups, names.gid) if entry.startswith("@") else (users, names.uid)
            found = numbered(entry.removeprefix("@"), number)
            if found is not None:
                whom[found] = max(role, whom.get(found, role))
            elif word in table:
                strange.append(f"{origin}: [roles] {word}: nobody here is called '{entry}'; it gives no right")
    return Grants(users, groups), tuple(strange)


def load() -> tuple[Grants, tuple[str, ...]]:
    """The table [roles] of the configuration; without one, the group rwkvctl operates. Raises ConfigError."""
    table, origin = config.table("roles")
    if table is not None and not isinstance(table, dict):
        raise ConfigError(f"{origin}: roles must be a table, [roles].")
    return grants(table or {}, origin, Names())


def role_of(word: str, origin: str) -> Role:
    """A role by its name. Raises ConfigError."""
    if word.upper() not in Role.__members__:
        raise ConfigError(f"{origin}: [roles] knows viewer, operator and admin, not '{word}'.")
    return Role[word.upper()]


def listed(entries: object, word: str, origin: str) -> Sequence[str]:
    """The entries of a role as words. Raises ConfigError."""
    fits = isinstance(entries, list) and all(type(entry) in {str, int} for entry in entries)
    if not fits or not isinstance(entries, list):
        raise ConfigError(f'{origin}: [roles] {word} must list users and groups, like ["alice", "@wheel", 1000].')
    return [str(entry) for entry in entries]


def numbered(text: str, number: Callable[[str], int | None]) -> int | None:
    """A name or a number as a number."""
    return int(text) if text.isdecimal() and text.isascii() else number(text)


KNOWN: Final[dict[int, str]] = {}
"""Names of users that were looked up already."""


def user_name(uid: int) -> str:
    """A user's name, or the number. May ask the network (LDAP): not for the event loop."""
    name = str(uid)
    with contextlib.suppress(KeyError, OverflowError):
        name = pwd.getpwuid(uid).pw_name
    return KNOWN.setdefault(uid, name)


def the_daemon() -> Actor:
    """The actor of what the daemon does by itself."""
    return Actor(os.geteuid(), os.getegid(), os.getpid(), "daemon")


CALLER: Final[ContextVar[Actor | None]] = ContextVar("caller", default=None)


def caller() -> Actor:
    """Who asked for what is being done; the daemon itself, where nobody did."""
    return CALLER.get() or the_daemon()


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
    """`judge retry` for `/v1/judge/retry`."""
    words = m.ROUTES[request][1].removeprefix("/v1/").split("/")
    return " ".join(word for word in words if not word.startswith("{"))


def article(role: Role) -> str:
    """`an operator`."""
    return f"{'a' if role is Role.VIEWER else 'an'} {role.word}"
