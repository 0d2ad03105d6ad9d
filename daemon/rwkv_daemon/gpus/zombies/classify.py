"""What kind of process holds a GPU: a decision procedure over one snapshot. Pure; the first match wins.

The rules are ordered by harm: a process that is gone or dead cannot be hurt, so that comes first; then everything that
must never be touched; then the one class that is ours to end. Computing nothing does not make a process a zombie: a
warm engine, a notebook and a training that waits for its judge look the same from outside.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Final, Literal

from rwkv_daemon.gpus.zombies.phrases import span
from rwkv_daemon.gpus.zombies.procfs import INIT_PID_NAMESPACE, ProcessSnapshot
from rwkv_daemon.rules.gpu_facts import HolderClass

Lookup = Literal["unknown", "runs", "ended", "not ours"]
"""What the store knows of a marker: not asked yet, the attempt runs, it has ended, or there is no such attempt."""

REAPABLE: Final[frozenset[HolderClass]] = frozenset({"orphan", "foreign"})
"""Classes that may be ended: an orphan automatically or on request, a foreign process on request only."""

CONTAINERS: Final = re.compile(r"docker|containerd|libpod|kubepods|lxc|machine\.slice|slurm")
CONTAINER_ID: Final = re.compile(r"[0-9a-f]{12,64}|job_\d+|machine-[^/]+|lxc/[^/]+")
SYSTEM_UIDS: Final = range(1, 1000)


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkedAttempt:
    """An engine or runner of ours, as the store knows it. `ended_s` is how long ago it ended."""

    name: str
    state: Lookup
    ended_s: float = 0.0
    log: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Protection:
    """The operator's protection lists: names of users, and patterns for commands (name or executable) and cgroups."""

    users: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()
    cgroups: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """This daemon: its pid, namespace and attempts, and what it must leave alone.

    `contained`: it is in a PID namespace of its own. `attempts` maps markers to what is known of them; `neighbours`
    maps a cgroup to the markers of live workers in it; `blocked_s` is how long the process has been uninterruptible.
    """

    pid: int
    uid: int
    pid_namespace: int = INIT_PID_NAMESPACE
    contained: bool = False
    cgroups: frozenset[str] = frozenset()
    attempts: Mapping[str, MarkedAttempt] = field(default_factory=dict)
    neighbours: Mapping[str, frozenset[str]] = field(default_factory=dict)
    protection: Protection = Protection()
    blocked_s: float = 0.0


@dataclass(frozen=True, slots=True)
class ClassRule:
    """One step of the procedure: what was measured, and whether it means that the process is of this class."""

    name: HolderClass
    matches: bool
    value: str


STUCK_S: Final = 60.0
"""How long every living thread must have been uninterruptible, at every observation."""


def classify(process: ProcessSnapshot, situation: Situation) -> ClassRule:
    """Return the first rule that matches. One always does: the last matches everything."""
    return next(rule for rule in rules(process, situation) if rule.matches)


def rules(process: ProcessSnapshot, situation: Situation) -> Iterator[ClassRule]:
    """Yield every rule in order, each with what it measured."""
    tasks = f"state {process.stat.state}" + (f", threads {''.join(sorted(process.tasks))}" if process.tasks else "")
    yield ClassRule("defunct", process.defunct, tasks)
    protected = protected_by(process, situation)
    yield ClassRule("protected", bool(protected), protected or "no system service, not on a list, no debugger")
    attempt = attempt_of(process, situation)
    yield ClassRule(
        "ours", attempt is not None and attempt.state in {"runs", "unknown"}, marker_value(process, attempt)
    )
    blocked = f"uninterruptible for {span(situation.blocked_s)}" if process.blocked else tasks
    yield ClassRule("stuck", process.blocked and situation.blocked_s >= STUCK_S, blocked)
    elsewhere = elsewhere_value(process, situation)
    orphan = attempt is not None and attempt.state == "ended" and not elsewhere
    yield ClassRule("orphan", orphan, marker_value(process, attempt))
    contained = elsewhere or container_of(process, situation)
    yield ClassRule("container", bool(contained), contained or "our PID namespace, no container's cgroup")
    owner = f"user {process.user} ({', '.join(map(str, process.uids))}), ours is {situation.uid}"
    yield ClassRule("other-user", not is_ours(process, situation), owner)
    yield ClassRule("foreign", True, f"user {process.user}, no attempt of ours")


def attempt_of(process: ProcessSnapshot, situation: Situation) -> MarkedAttempt | None:
    """Return the attempt that the process's marker names, if the store confirms it; None if it is not ours. A process
    of another user that carries a copied marker is not."""
    if not process.marker or not is_ours(process, situation):
        return None
    found = situation.attempts.get(process.marker, MarkedAttempt(name="an attempt", state="unknown"))
    return None if found.state == "not ours" else found


def marker_value(process: ProcessSnapshot, attempt: MarkedAttempt | None) -> str:
    """Describe what is known of the process's marker: the attempt it names, and whether that runs."""
    if not process.marker:
        return "no marker"
    if attempt is None:
        return f"marker {process.marker[:8]}, which this store does not know"
    if attempt.state == "unknown":
        return f"marker {process.marker[:8]}, not looked up yet"
    return f"{attempt.name}, which " + ("runs" if attempt.state == "runs" else f"ended {span(attempt.ended_s)} ago")


def is_ours(process: ProcessSnapshot, situation: Situation) -> bool:
    """Whether it runs as our user: real, effective and saved uid. If that cannot be read, it is not ours."""
    return bool(process.uids) and all(uid == situation.uid for uid in process.uids)


def protected_by(process: ProcessSnapshot, situation: Situation) -> str:
    """Return why it must never be touched; empty if it may be."""
    if process.kernel or process.pid <= 1:
        return "part of the system itself"
    if process.pid == situation.pid or (process.stat.parent == situation.pid and not process.marker):
        return "this daemon or its GPU sampler"
    if process.tracer:
        return f"under a debugger (pid {process.tracer})"
    lists = situation.protection
    if process.user in lists.users:
        return f"user {process.user} is on the list protect_users"
    if any(uid in SYSTEM_UIDS and uid != situation.uid for uid in process.uids):
        return f"system account {process.user}"
    names = (process.stat.comm, process.exe.rpartition("/")[2], process.exe, *interpreted(process.command))
    if pattern := first_match(names, lists.commands):
        return f"its command is on the list protect_commands ({pattern})"
    groups = tuple(group for group in process.cgroups if not within(group, situation.cgroups))
    if pattern := first_match(groups, lists.cgroups):
        return f"its cgroup is on the list protect_cgroups ({pattern})"
    return ""


def interpreted(command: str) -> tuple[str, ...]:
    """Return the names of the first words of a command line, without options: `python -P -m jupyter lab` is jupyter,
    whatever interpreter runs it."""
    words = [word for word in command.split() if not word.startswith("-")]
    return tuple(word.rpartition("/")[2] for word in words[:3])


def first_match(texts: tuple[str, ...], patterns: tuple[str, ...]) -> str:
    return next((pattern for pattern in patterns for text in texts if text and fnmatchcase(text, pattern)), "")


def within(group: str, groups: frozenset[str]) -> bool:
    """Whether a cgroup is one of these or below one: our own unit's workers are no foreign system service."""
    return any(group == one or group.startswith(f"{one}/") for one in groups)


def elsewhere_value(process: ProcessSnapshot, situation: Situation) -> str:
    """Return why it is not in our PID namespace; empty if it is."""
    if process.nested:
        return f"another PID namespace, {container_id(process)}"
    if process.pid_namespace not in {None, situation.pid_namespace}:
        return f"PID namespace {process.pid_namespace}, {container_id(process)}"
    return ""


def container_of(process: ProcessSnapshot, situation: Situation) -> str:
    """Return the container that its cgroup names; empty if it names none. A cgroup that this daemon shares does not
    count."""
    named = [g for g in process.cgroups if CONTAINERS.search(g) and not within(g, situation.cgroups)]
    return container_id(process) if named else ""


def container_id(process: ProcessSnapshot) -> str:
    """Return its container's id as the cgroup names it: what `docker ps` and `squeue` show."""
    for group in process.cgroups:
        if CONTAINERS.search(group) and (ids := CONTAINER_ID.findall(group)):
            last = str(ids[-1])
            return f"container {last[:12] if re.fullmatch('[0-9a-f]+', last) else last}"
    return f"container of {process.cgroups[-1]}" if process.cgroups else "container unknown"


def neighbour(process: ProcessSnapshot, situation: Situation) -> str:
    """Return the marker of a live worker in the same cgroup, unless that is the daemon's own: ending one of two
    processes that a cgroup holds together may end both."""
    for group in process.cgroups:
        others = situation.neighbours.get(group, frozenset()) - {process.marker}
        if others and group not in situation.cgroups:
            return min(others)
    return ""
