"""Which role each user has: the table [roles] of the configuration, by uid and group."""

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
"""Whose members operate, unless the configuration says otherwise."""


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


def granted(table: Mapping[str, object], origin: str, names: Names) -> tuple[Grants, tuple[str, ...]]:
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
    return granted(table or {}, origin, Names())


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
