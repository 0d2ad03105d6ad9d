"""The few kernel calls that Python has no function for: clone into namespaces, mount, pivot_root, capabilities, prctl.

Everything goes through libc with the interpreter lock held (`PyDLL`), so that a clone is as safe as `os.fork`. Every
function raises OSError with the name of the call that failed. Linux on x86-64 and arm64.
"""

import ctypes
import os
import signal
import time

CLONE_NEWNS = 0x0002_0000
CLONE_NEWCGROUP = 0x0200_0000
CLONE_NEWUTS = 0x0400_0000
CLONE_NEWIPC = 0x0800_0000
CLONE_NEWUSER = 0x1000_0000
CLONE_NEWPID = 0x2000_0000
CLONE_NEWNET = 0x4000_0000

MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_BIND, MS_REC, MS_PRIVATE = 2, 4, 8, 4096, 16384, 1 << 18
MNT_DETACH = 2
ATTR_RDONLY, ATTR_NOSUID, ATTR_NODEV = 1, 2, 4

PR_SET_PDEATHSIG, PR_SET_SECCOMP, PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS, PR_CAP_AMBIENT = 1, 22, 24, 38, 47
PR_CAP_AMBIENT_CLEAR_ALL = 4
SECCOMP_MODE_FILTER = 2
AT_FDCWD, AT_RECURSIVE = -100, 0x8000
LAST_CAPABILITY = 63

# name: its number on x86-64, on arm64
_NUMBERS = {"clone": (56, 220), "pivot_root": (155, 41), "capset": (126, 91), "mount_setattr": (442, 442)}
ARCHITECTURES = ("x86_64", "aarch64")

_libc = ctypes.PyDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long
_python = ctypes.pythonapi


def architecture() -> int:
    """Return the column of this machine in tables of call numbers. Raises OSError on any other machine."""
    machine = os.uname().machine
    if machine not in ARCHITECTURES:
        raise OSError(f"no table of kernel calls for {machine}")
    return ARCHITECTURES.index(machine)


def _syscall(name: str, *arguments: object) -> int:
    return _checked(int(_libc.syscall(ctypes.c_long(_NUMBERS[name][architecture()]), *arguments)), name)


def _checked(result: int, name: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")
    return result


def clone(flags: int) -> int:
    """Fork into new namespaces: returns 0 in the child, the child's process id in the parent."""
    if not flags:
        return os.fork()
    zero = ctypes.c_ulong(0)
    _python.PyOS_BeforeFork()
    pid = int(_libc.syscall(_NUMBERS["clone"][architecture()], ctypes.c_ulong(flags | signal.SIGCHLD), *[zero] * 4))
    if pid == 0:
        _python.PyOS_AfterFork_Child()
        return 0
    number = ctypes.get_errno()  # before the hooks of the parent can change it
    _python.PyOS_AfterFork_Parent()
    if pid < 0:
        raise OSError(number, f"clone: {os.strerror(number)}")
    return pid


def mount(source: str, target: str, kind: str = "", flags: int = 0, options: str = "") -> None:
    """Call mount(2). Raises OSError with the target's path."""
    texts = [text.encode() or None for text in (source, target, kind)]
    data = options.encode() or None
    _checked(_libc.mount(*texts, ctypes.c_ulong(flags), data), f"mount {target}")


def unshare(flags: int) -> None:
    """Move this process, which must have one thread only, into new namespaces (CLONE_*)."""
    _checked(_libc.unshare(ctypes.c_int(flags)), "unshare")


def protect(path: str, attributes: int, *, recursive: bool, clear: int = 0) -> None:
    """Set mount attributes (ATTR_*) of one mount, or of a whole tree of them at once, and `clear` others. Linux 5.12
    and newer."""
    wanted = (ctypes.c_uint64 * 4)(attributes, clear, 0, 0)  # struct mount_attr: set, clear, propagation, userns
    flags = ctypes.c_uint(AT_RECURSIVE if recursive else 0)
    size = ctypes.c_size_t(ctypes.sizeof(wanted))
    _syscall("mount_setattr", ctypes.c_int(AT_FDCWD), path.encode(), flags, ctypes.byref(wanted), size)


def enter_root(path: str) -> None:
    """Make a mount the root directory and detach the old one."""
    os.chdir(path)
    _syscall("pivot_root", b".", b".")  # the old root now lies over the new one, at the same place
    _checked(_libc.umount2(b".", MNT_DETACH), "umount of the old root")
    os.chdir("/")


def prctl(option: int, value: int = 0, extra: object = 0) -> None:
    """Call prctl(2). Raises OSError with the option's number."""
    pointer = extra if not isinstance(extra, int) else ctypes.c_ulong(extra)
    zero = ctypes.c_ulong(0)
    _checked(_libc.prctl(ctypes.c_int(option), ctypes.c_ulong(value), pointer, zero, zero), f"prctl {option}")


def forget_capabilities() -> None:
    """Remove every capability from the bounding set, so that no process started from here on can gain one."""
    for capability in range(LAST_CAPABILITY + 1):
        try:
            prctl(PR_CAPBSET_DROP, capability)
        except OSError:
            break  # past the last one that this kernel knows


def drop_capabilities() -> None:
    """Drop every capability of this process, ambient ones included, for good."""
    prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL)
    header = (ctypes.c_uint32 * 2)(0x2008_0522, 0)  # _LINUX_CAPABILITY_VERSION_3, this process
    nothing = (ctypes.c_uint32 * 6)()
    _syscall("capset", ctypes.byref(header), ctypes.byref(nothing))


def cpu_clock(pid: int) -> int:
    """Return the clock that counts a process's processor time, threads included (CPUCLOCK_SCHED of time.h)."""
    return (~pid << 3) | 2


def cpu_seconds(pid: int) -> float:
    """Return the processor time, in seconds, that a process has used. Raises OSError once it is gone."""
    return time.clock_gettime(cpu_clock(pid))
