"""A process that is about to run untrusted code: what it gives up first, in which order, and how it reports that.

The zygote clones it into a process namespace of its own, so it sees no other process, and everything it starts dies
with it. It keeps the descriptors it is given, as 0, 1, 2, ..., and no other. Then limits, user, capabilities and the
filter of kernel calls, each of which can only be tightened afterwards. If a step fails the code is never run.
"""

import contextlib
import fcntl
import math
import os
import resource
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, NoReturn

from rwkv_data.sandbox import filesystem, linux, seccomp

USER = 65534  # as it is called inside
FIRST = 1  # the process id of a guest, in its own namespace
DESCRIPTORS = 64
_SPARE = 200  # descriptors are moved out of the way before they get their final numbers
_MEGABYTE = 1 << 20
STACK_BYTES = 64 * _MEGABYTE
WORKSPACE_FILES = 4096


class Confinement(NamedTuple):
    """The isolation on this machine: `isolated` is False only for the operator's unsafe mode."""

    isolated: bool
    other_user: bool  # whether the guest's user is another one than the zygote's


class SetupError(Exception):
    """A guest could not be confined, so it was not started."""


def start(
    main: Callable[[], None],
    descriptors: Sequence[int],
    limits: dict[str, Any],
    confinement: Confinement,
    *,
    workspace: bool = False,
) -> int:
    """Start a guest and return its process id once it is confined. Raises SetupError, OSError."""
    ready, tell = os.pipe()
    flags = linux.CLONE_NEWPID | (linux.CLONE_NEWNS if workspace else 0) if confinement.isolated else 0
    pid = linux.clone(flags)
    if pid == 0:
        os.close(ready)
        _become_guest(main, [*descriptors, tell], limits, confinement, workspace=workspace)
    os.close(tell)
    try:
        told = os.read(ready, 500)
    finally:
        os.close(ready)
    if told != b"ready":
        os.waitpid(pid, 0)
        raise SetupError(told.decode(errors="replace") or "it died before it was confined")
    return pid


def _become_guest(
    main: Callable[[], None],
    descriptors: Sequence[int],
    limits: dict[str, Any],
    confinement: Confinement,
    *,
    workspace: bool,
) -> NoReturn:
    """In the child: confine it, report that on the last descriptor and close it, then run `main`; never return."""
    tell = descriptors[-1]
    try:
        if workspace:
            _own_folder(limits, confinement)
        tell = _keep(descriptors)
        _confine(limits, confinement, drives=not workspace)
    except Exception as error:  # noqa: BLE001  # told to the zygote, which refuses
        os.write(tell, f"{type(error).__name__}: {error}".encode())
        os._exit(1)
    try:
        os.write(tell, b"ready")
        os.close(tell)
        main()
    finally:
        os._exit(1)  # nothing of this process may go on in the zygote's loop


def _own_folder(limits: dict[str, Any], confinement: Confinement) -> None:
    if confinement.isolated:
        filesystem.fresh_workspace(int(limits["workspace_mb"]) * _MEGABYTE, WORKSPACE_FILES, USER)
    else:
        os.chdir(str(limits["folder"]))


def _keep(descriptors: Sequence[int]) -> int:
    """Renumber the descriptors from 0 and close all others; return the number of the last one."""
    spare = [fcntl.fcntl(descriptor, fcntl.F_DUPFD, _SPARE) for descriptor in descriptors]
    for number, descriptor in enumerate(spare):
        os.dup2(descriptor, number)
    os.closerange(len(spare), resource.getrlimit(resource.RLIMIT_NOFILE)[0])
    return len(spare) - 1


def _confine(limits: dict[str, Any], confinement: Confinement, *, drives: bool) -> None:
    os.setsid()
    _limit(limits)
    if confinement.isolated:
        if confinement.other_user:
            os.setgroups([])
            os.setresgid(USER, USER, USER)
            os.setresuid(USER, USER, USER)
        linux.drop_capabilities()
    linux.prctl(linux.PR_SET_NO_NEW_PRIVS, 1)
    with contextlib.nullcontext() if confinement.isolated else contextlib.suppress(OSError):
        # without isolation, which the operator asked for, what there is, is a gift
        pid = FIRST if confinement.isolated else os.getpid()
        seccomp.install(pid=pid, may_fork=limits["processes"] > 1, receives=drives)


def _limit(limits: dict[str, Any]) -> None:
    """Set soft and hard limits to the same value, so that none can be raised again."""
    output = int(limits["output_mb"] * _MEGABYTE)
    wanted = {
        resource.RLIMIT_CPU: math.ceil(limits["cpu_s"])
        + 1,  # above the limit that the zygote itself enforces, more finely
        resource.RLIMIT_AS: int(limits["memory_mb"] * _MEGABYTE),
        resource.RLIMIT_FSIZE: output,
        resource.RLIMIT_NOFILE: DESCRIPTORS,
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_STACK: STACK_BYTES,
        resource.RLIMIT_MEMLOCK: 0,
        resource.RLIMIT_MSGQUEUE: 0,
        resource.RLIMIT_NPROC: int(limits["threads"]),
    }
    for name, most in wanted.items():
        hard = resource.getrlimit(name)[1]
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)  # noqa: PLW2901
        resource.setrlimit(name, (most, most))
