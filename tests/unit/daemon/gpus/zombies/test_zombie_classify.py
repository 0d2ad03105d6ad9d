"""The class of a process is a table: one case for each class, and one for everything that must never be touched."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from rwkv_daemon.gpus.zombies import wording
from rwkv_daemon.gpus.zombies.classify import (
    REAPABLE,
    STUCK_S,
    MarkedAttempt,
    Protection,
    Situation,
    classify,
    neighbour,
    rules,
)
from rwkv_daemon.gpus.zombies.kill_act import NotTouchedError, permit
from rwkv_daemon.gpus.zombies.phrases import span
from rwkv_daemon.gpus.zombies.process_tracker import with_their_units
from rwkv_daemon.gpus.zombies.procfs import INIT_PID_NAMESPACE, KERNEL_THREAD, ProcessSnapshot, ProcessStat

OURS, BOB = 1001, 1002
MARKERS = {
    "runs": MarkedAttempt(name="e1", state="runs"),
    "ended": MarkedAttempt(name="e2", state="ended", ended_s=3600),
    "new": MarkedAttempt(name="an attempt", state="unknown"),
    "theirs": MarkedAttempt(name="", state="not ours"),
}
HERE = Situation(
    pid=900,
    uid=OURS,
    cgroups=frozenset({"/system.slice/rwkvctl.service"}),
    attempts=MARKERS,
    protection=Protection(
        users=("carol",), commands=("Xorg", "*jupyter*", "gdb"), cgroups=("/system.slice/*.service*",)
    ),
)


def stat(**values: Any) -> ProcessStat:
    usual = {"comm": "python", "state": "S", "parent": 1, "session": 5, "tty": 0, "flags": 0}
    return ProcessStat(**usual | {"cpu_ticks": 100, "start_ticks": 777} | values)  # type: ignore[arg-type]


def process(marker: str = "", uid: int = OURS, **values: Any) -> ProcessSnapshot:
    usual: dict[str, Any] = {
        "pid": 4711, "stat": stat(), "boot_id": "b", "uids": (uid,) * 3, "user": "bob" if uid == BOB else "rwkv",
        "exe": "/usr/bin/python3", "exe_id": (1, 2), "command": "python train.py --lr 1", "age_s": 10800.0,
        "pid_namespace": INIT_PID_NAMESPACE, "cgroups": ("/user.slice/session-3.scope",), "marker": marker,
    }  # fmt: skip
    return ProcessSnapshot(**usual | values)


CASES = {
    "a live engine": (process("runs"), "ours"),
    "a marker nobody has looked up yet": (process("new"), "ours"),
    "a marker of no entry at all": (process("never seen"), "ours"),
    "a warm engine that computes nothing": (process("runs", stat=stat(cpu_ticks=0)), "ours"),
    "an engine whose attempt has ended": (process("ended"), "orphan"),
    "an orphan that is stopped": (process("ended", stat=stat(state="T")), "orphan"),
    "an orphan whose first thread is dead": (process("ended", stat=stat(state="Z"), tasks=("Z", "S")), "orphan"),
    "an orphan below our own unit": (process("ended", cgroups=("/system.slice/rwkvctl.service/e2",)), "orphan"),
    "a marker that another store gave": (process("theirs"), "foreign"),
    "a training of our user": (process(), "foreign"),
    "a notebook without a terminal": (process(stat=stat(tty=0)), "foreign"),
    "another user's process": (process(uid=BOB), "other-user"),
    "another user with our marker": (process("ended", uid=BOB), "other-user"),
    "root's training": (process(uid=0), "other-user"),
    "a program that gained another user's rights": (process("ended", uids=(OURS, 0, 0)), "other-user"),
    "one whose owner cannot be read": (process("ended", uids=()), "other-user"),
    "a container by its cgroup": (process(cgroups=(f"/docker/{'ab' * 32}",)), "container"),
    "a pod": (process(cgroups=("/kubepods.slice/pod1/crio-" + "c" * 64,)), "container"),
    "a Slurm job": (process(cgroups=("/system.slice/slurmstepd.scope/job_123",)), "container"),
    "another PID namespace": (process(pid_namespace=5), "container"),
    "a namespace below ours, seen by its pids": (process(pid_namespace=None, nested=True), "container"),
    "an orphan in another PID namespace": (process("ended", pid_namespace=5), "container"),
    "an orphan with a pid of its own inside": (process("ended", nested=True), "container"),
    "another user's container": (process(uid=BOB, nested=True), "container"),
    "process 1": (process(pid=1), "protected"),
    "a thread of the kernel": (process(stat=stat(flags=KERNEL_THREAD)), "protected"),
    "a child of kthreadd": (process(stat=stat(parent=2)), "protected"),
    "the daemon": (process(pid=900), "protected"),
    "the sampler": (process(stat=stat(parent=900)), "protected"),
    "a system account": (process(uid=105), "protected"),
    "a display server of our user": (process(exe="/usr/lib/Xorg", stat=stat(comm="Xorg")), "protected"),
    "a program behind options of the interpreter": (process(command="python -P -X dev -m jupyter-lab"), "protected"),
    "a notebook server": (process(command="/opt/py/bin/python -m jupyter-lab --port 1"), "protected"),
    "an orphan under a debugger": (process("ended", tracer=12), "protected"),
    "an orphan of a protected user": (process("ended", user="carol"), "protected"),
    "another system service": (process(cgroups=("/system.slice/cron.service",)), "protected"),
    "a dead process": (process(stat=stat(state="Z"), tasks=("Z",)), "defunct"),
    "a dead process of another user": (process(uid=BOB, stat=stat(state="Z"), tasks=()), "defunct"),
    "an orphan in the kernel for a moment": (process("ended", stat=stat(state="D"), tasks=("D",)), "orphan"),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_class(name: str) -> None:
    found, expected = CASES[name]
    assert classify(found, HERE).name == expected


@pytest.mark.parametrize("name", CASES)
def test_exactly_the_last_rule_asked_matches(name: str) -> None:
    """What an operator is shown: every rule up to the one that decided, each with a measured value."""
    asked = list(rules(CASES[name][0], HERE))
    first = next(index for index, rule in enumerate(asked) if rule.matches)
    assert asked[first] == classify(CASES[name][0], HERE)
    assert all(rule.value for rule in asked)


@pytest.mark.parametrize("name", CASES)
def test_only_orphans_and_foreign_processes_may_be_ended(name: str) -> None:
    found, cls = CASES[name]
    if cls in REAPABLE:
        permit(found, cls, HERE)
        return
    with pytest.raises(NotTouchedError):
        permit(found, cls, HERE)
    with pytest.raises(NotTouchedError):
        permit(found, "orphan", HERE)


@pytest.mark.parametrize("name", CASES)
def test_a_verdict_is_a_sentence_that_names_the_process(name: str) -> None:
    found, cls = CASES[name]
    text = wording.verdict(found, classify(found, HERE), HERE)
    assert f"pid {found.pid} (" in text
    assert found.command.rpartition("/")[2] in text
    assert "\n" not in text
    words = {"other-user": "belongs to another user; ask ", "container": "container", "protected": "never touched"}
    assert words.get(cls, "") in text


def blocked(seconds: float) -> Situation:
    return replace(HERE, blocked_s=seconds)


def test_stuck_takes_a_minute_and_every_living_thread() -> None:
    stuck = process("ended", stat=stat(state="D"), tasks=("D", "D"))
    dying = process("ended", stat=stat(state="Z"), tasks=("Z", "D"))
    reading = process("ended", stat=stat(state="D"), tasks=("D", "S"))
    assert classify(stuck, blocked(STUCK_S - 1)).name == "orphan"
    assert classify(stuck, blocked(STUCK_S)).name == "stuck"
    assert classify(dying, blocked(STUCK_S)).name == "stuck"
    assert classify(reading, blocked(STUCK_S)).name == "orphan"
    assert classify(process(uid=BOB, stat=stat(state="D"), tasks=("D",)), blocked(STUCK_S)).name == "stuck"
    assert classify(process("runs", stat=stat(state="D"), tasks=("D",)), blocked(STUCK_S)).name == "ours"
    with pytest.raises(NotTouchedError, match="takes no signal"):
        permit(stuck, "stuck", blocked(STUCK_S))


def test_a_class_that_changed_is_not_ended() -> None:
    """Between SIGTERM and SIGKILL somebody may have attached a debugger, or the store may say that it runs."""
    with pytest.raises(NotTouchedError, match="debugger"):
        permit(process("ended", tracer=4), "orphan", HERE)
    with pytest.raises(NotTouchedError, match="belongs to e1, which runs"):
        permit(process("runs"), "orphan", HERE)
    with pytest.raises(NotTouchedError):
        permit(process("ended"), "foreign", HERE)


def test_a_neighbour_in_the_same_cgroup_is_not_endangered() -> None:
    found = process("ended", cgroups=("/rwkvctl/shared",))
    shared = replace(HERE, neighbours={"/rwkvctl/shared": frozenset({"runs"})})
    alone = replace(HERE, neighbours={"/rwkvctl/shared": frozenset({"ended"})})
    assert neighbour(found, shared) == "runs"
    with pytest.raises(NotTouchedError, match="shares its cgroup with e1"):
        permit(found, "orphan", shared)
    permit(found, "orphan", alone)


def test_a_cgroup_that_the_daemon_shares_says_nothing() -> None:
    """Without cgroups of their own all workers are in the daemon's: that endangers nobody, as processes are signalled
    one by one; and a daemon that itself runs in a container does not take its own workers for strangers."""
    found = process("ended", cgroups=("/docker/" + "e" * 64,))
    inside = replace(HERE, cgroups=frozenset(found.cgroups), neighbours={found.cgroups[0]: frozenset({"runs"})})
    assert classify(found, inside).name == "orphan"
    permit(found, "orphan", inside)


def test_workers_beside_the_daemons_leaf_of_its_unit_are_no_foreign_service() -> None:
    unit = "/system.slice/rwkvctl.service"
    inside = replace(HERE, cgroups=with_their_units([f"{unit}/daemon", "/"]))
    assert classify(process("ended", cgroups=(f"{unit}/workers/e2",)), inside).name == "orphan"
    assert classify(process("ended", cgroups=("/system.slice/rwkvctl2.service/x",)), inside).name == "protected"
    assert with_their_units(["/docker/x/daemon"]) == {"/docker/x/daemon"}


def test_nothing_is_ended_from_within_a_container() -> None:
    with pytest.raises(NotTouchedError, match="only observes"):
        permit(process("ended"), "orphan", replace(HERE, contained=True))


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0, "0 s"), (45.4, "45 s"), (119, "119 s"), (150, "2 min"), (3600, "1 h"), (5400, "90 min"), (9000, "2 h"),
     (10800, "3 h"), (200_000, "2 d")],
)  # fmt: skip
def test_spans(seconds: float, words: str) -> None:
    assert span(seconds) == words


def test_the_sentences_of_pids_without_a_process() -> None:
    said: Mapping[str, str] = {cls: wording.absent(7, cls, 400) for cls in ("ghost", "container", "other-user")}  # type: ignore[arg-type]
    assert "there is no such process" in said["ghost"]
    assert "cannot know whose it is" in said["container"]
    assert "hidden" in said["other-user"]
