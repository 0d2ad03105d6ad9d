"""What a worker process gives up before it reads a model's text: `seclude`, then `give_up`, in the child.

Nothing here is needed for a verdict to be right, so a step that the system does not offer is left out: the layers that
matter wherever it runs are the limits and, for Python, `no_evaluation`. Of a child of root: it becomes `nobody` if the
interpreter can still be read then, else it keeps its number without any of its powers, in a name space of its own.
"""

import contextlib
import ctypes
import os
import resource
import signal

_NO_NEW_PRIVILEGES = 38  # PR_SET_NO_NEW_PRIVS
_DIE_WITH_PARENT = 1  # PR_SET_PDEATHSIG
_NEW_USER, _NEW_NET, _NEW_IPC = 0x10000000, 0x40000000, 0x08000000  # CLONE_NEWUSER, CLONE_NEWNET, CLONE_NEWIPC
_NOBODY = 65534


def seclude(must_read: list[str]) -> bool:
    """Give up the network and, if it cannot become `nobody`, the user's privileges. Returns whether that succeeded.

    To be called before libraries are loaded, because a process with several threads is not allowed to. `must_read` are
    files that later imports need.
    """
    libc = _libc()
    libc.prctl(_DIE_WITH_PARENT, signal.SIGKILL, 0, 0, 0)
    libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0)
    spaces = _NEW_NET | _NEW_IPC | (0 if _can_be_nobody(must_read) else _NEW_USER)
    return int(libc.unshare(spaces)) == 0


def give_up(memory_bytes: int, must_read: list[str]) -> None:
    """Give up the user, the environment, files to write, and memory beyond a limit."""
    if _can_be_nobody(must_read):
        os.setgroups([])
        os.setresgid(_NOBODY, _NOBODY, _NOBODY)
        os.setresuid(_NOBODY, _NOBODY, _NOBODY)
        _libc().prctl(_DIE_WITH_PARENT, signal.SIGKILL, 0, 0, 0)  # forgotten when the user changes
    os.environ.clear()
    os.chdir("/")
    _limit(memory_bytes)


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _can_be_nobody(must_read: list[str]) -> bool:
    """Whether this is root in full, and the files can be read by anyone."""
    try:
        return os.geteuid() == 0 and _readable_as_nobody(must_read)
    except OSError:
        return False  # root of a namespace that has no other user


def _readable_as_nobody(paths: list[str]) -> bool:
    os.seteuid(_NOBODY)
    try:
        for path in paths:
            os.close(os.open(path, os.O_RDONLY))
    except OSError:
        return False
    finally:
        os.seteuid(0)
    return True


def _limit(memory_bytes: int) -> None:
    limits = {
        resource.RLIMIT_AS: memory_bytes,
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_FSIZE: 0,
        resource.RLIMIT_NPROC: 0,
        resource.RLIMIT_NOFILE: 64,
    }
    for kind, limit in limits.items():
        with contextlib.suppress(ValueError, OSError):  # a lower hard limit stands already
            resource.setrlimit(kind, (limit, limit))
