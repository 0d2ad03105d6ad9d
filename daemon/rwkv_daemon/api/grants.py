"""The role of each user: the table [roles] of the configuration, by uid and group."""

import contextlib
import grp
import os
import pwd
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from rwkv_daemon.rules.roles import Role
from rwkvctl.http.peer_credentials import Peer
from rwkvctl.protocol.errors import ConfigError
from rwkvctl.settings import config

GROUP: Final = "rwkvctl"
"""Members of this group are operators, unless the configuration says otherwise."""


@dataclass(frozen=True, slots=True)
class Grants:
    """Roles by uid and by gid. Root and the daemon's user (`own`) are admins; users without an entry are viewers."""

    users: Mapping[int, Role] = field(default_factory=dict)
    groups: Mapping[int, Role] = field(default_factory=dict)
    own: int = field(default_factory=os.geteuid)

    def role(self, peer: Peer) -> Role:
        """Return the highest role that a peer's uid or one of its groups has."""
        if peer.uid in {0, self.own}:
            return Role.ADMIN
        by_group = (self.groups[gid] for gid in {peer.gid, *peer.groups} if gid in self.groups)
        return max(self.users.get(peer.uid, Role.VIEWER), Role.VIEWER, *by_group)


class Names:
    """Looks up users and groups of this machine. Each method returns None for an unknown name or number."""

    def uid(self, name: str) -> int | None:
        with contextlib.suppress(KeyError):
            return pwd.getpwnam(name).pw_uid
        return None

    def gid(self, name: str) -> int | None:
        with contextlib.suppress(KeyError):
            return grp.getgrnam(name).gr_gid
        return None


def granted(table: Mapping[str, object], origin: str, names: Names) -> tuple[Grants, tuple[str, ...]]:
    """Return the rights that a table [roles] gives, and a sentence for each name that is unknown on this machine and so
    gives no right. Raises ConfigError if the table is malformed."""
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
                strange.append(
                    f"{origin}: [roles] {word}: this machine has no user or group '{entry}'; the entry has no effect"
                )
    return Grants(users, groups), tuple(strange)


def load() -> tuple[Grants, tuple[str, ...]]:
    """Return the rights by the configuration's table [roles]; without one, members of the group rwkvctl are operators.
    Raises ConfigError."""
    table, origin = config.table("roles")
    if table is not None and not isinstance(table, dict):
        raise ConfigError(f"{origin}: roles must be a table, [roles].")
    return granted(table or {}, origin, Names())


def role_of(word: str, origin: str) -> Role:
    """Return a role by its name. Raises ConfigError if there is none."""
    if word.upper() not in Role.__members__:
        raise ConfigError(f"{origin}: a role is viewer, operator or admin, not '{word}'.")
    return Role[word.upper()]


def listed(entries: object, word: str, origin: str) -> Sequence[str]:
    """Return the entries of a role as words. Raises ConfigError if they are no list of names and numbers."""
    fits = isinstance(entries, list) and all(type(entry) in {str, int} for entry in entries)
    if not fits or not isinstance(entries, list):
        raise ConfigError(f'{origin}: [roles] {word} must list users and groups, like ["alice", "@wheel", 1000].')
    return [str(entry) for entry in entries]


def numbered(text: str, number: Callable[[str], int | None]) -> int | None:
    """Return the number of a user or group that is given by name or number; None if there is no such name."""
    return int(text) if text.isdecimal() and text.isascii() else number(text)


KNOWN: Final[dict[int, str]] = {}
"""User names that were looked up already."""


def user_name(uid: int) -> str:
    """Return a user's name, or the number if it has none. May ask the network (LDAP), so it must not run on the event
    loop."""
    name = str(uid)
    with contextlib.suppress(KeyError, OverflowError):
        name = pwd.getpwuid(uid).pw_name
    return KNOWN.setdefault(uid, name)
