"""The kernel calls that an untrusted program may make: a list of what an interpreter needs, and nothing else.

A call that is not listed answers ENOSYS, as if the kernel had never heard of it: sockets of every kind, ptrace, mount,
namespaces, key rings, bpf, io_uring, memfd (memory that no limit counts), kill, execve, and whatever a later kernel
brings. Five are looked at more closely: `clone` makes threads only (unless processes were granted), `ioctl` asks about
terminals and sizes, `prctl` names a thread, `tgkill` and `prlimit64` are for the process itself.

No program can make the kernel SIGKILL it: not by `tgkill`, nor by lowering its own limit of processor time (which can
be asked for, not set). So a SIGKILL that the zygote did not send came from outside, and says nothing about the program.
"""

import ctypes
import errno
import functools
import struct
from collections.abc import Mapping

from rwkv_data.sandbox import linux

# name: its number on x86-64, on arm64 (None: no such call there)
ALLOWED: dict[str, tuple[int, int | None]] = {
    "read": (0, 63),
    "write": (1, 64),
    "readv": (19, 65),
    "writev": (20, 66),
    "pread64": (17, 67),
    "pwrite64": (18, 68),
    "preadv": (295, 69),
    "pwritev": (296, 70),
    "open": (2, None),
    "openat": (257, 56),
    "close": (3, 57),
    "close_range": (436, 436),
    "stat": (4, None),
    "fstat": (5, 80),
    "lstat": (6, None),
    "newfstatat": (262, 79),
    "statx": (332, 291),
    "lseek": (8, 62),
    "poll": (7, None),
    "ppoll": (271, 73),
    "select": (23, None),
    "pselect6": (270, 72),
    "epoll_create1": (291, 20),
    "epoll_ctl": (233, 21),
    "epoll_wait": (232, None),
    "epoll_pwait": (281, 22),
    "eventfd2": (290, 19),
    "pipe": (22, None),
    "pipe2": (293, 59),
    "dup": (32, 23),
    "dup2": (33, None),
    "dup3": (292, 24),
    "fsync": (74, 82),
    "fdatasync": (75, 83),
    "truncate": (76, 45),
    "ftruncate": (77, 46),
    "getdents64": (217, 61),
    "getcwd": (79, 17),
    "chdir": (80, 49),
    "fchdir": (81, 50),
    "rename": (82, None),
    "renameat": (264, 38),
    "renameat2": (316, 276),
    "mkdir": (83, None),
    "mkdirat": (258, 34),
    "rmdir": (84, None),
    "unlink": (87, None),
    "unlinkat": (263, 35),
    "link": (86, None),
    "linkat": (265, 37),
    "symlink": (88, None),
    "symlinkat": (266, 36),
    "readlink": (89, None),
    "readlinkat": (267, 78),
    "chmod": (90, None),
    "fchmod": (91, 52),
    "fchmodat": (268, 53),
    "access": (21, None),
    "faccessat": (269, 48),
    "faccessat2": (439, 439),
    "utimensat": (280, 88),
    "umask": (95, 166),
    "statfs": (137, 43),
    "fstatfs": (138, 44),
    "sendfile": (40, 71),
    "mmap": (9, 222),
    "munmap": (11, 215),
    "mremap": (25, 216),
    "mprotect": (10, 226),
    "madvise": (28, 233),
    "brk": (12, 214),
    "msync": (26, 227),
    "rt_sigaction": (13, 134),
    "rt_sigprocmask": (14, 135),
    "rt_sigreturn": (15, 139),
    "rt_sigpending": (127, 136),
    "rt_sigtimedwait": (128, 137),
    "rt_sigsuspend": (130, 133),
    "sigaltstack": (131, 132),
    "pause": (34, None),
    "alarm": (37, None),
    "getitimer": (36, 102),
    "setitimer": (38, 103),
    "nanosleep": (35, 101),
    "clock_nanosleep": (230, 115),
    "clock_gettime": (228, 113),
    "clock_getres": (229, 114),
    "gettimeofday": (96, 169),
    "time": (201, None),
    "times": (100, 153),
    "restart_syscall": (219, 128),
    "getpid": (39, 172),
    "gettid": (186, 178),
    "getppid": (110, 173),
    "getuid": (102, 174),
    "geteuid": (107, 175),
    "getgid": (104, 176),
    "getegid": (108, 177),
    "getresuid": (118, 148),
    "getresgid": (120, 150),
    "getgroups": (115, 158),
    "getpgid": (121, 155),
    "getpgrp": (111, None),
    "getsid": (124, 156),
    "setsid": (112, 157),
    "getrlimit": (97, 163),
    "getrusage": (98, 165),
    "sysinfo": (99, 179),
    "uname": (63, 160),
    "getcpu": (309, 168),
    "sched_yield": (24, 124),
    "sched_getaffinity": (204, 123),
    "futex": (202, 98),
    "set_robust_list": (273, 99),
    "get_robust_list": (274, 100),
    "set_tid_address": (218, 96),
    "rseq": (334, 293),
    "membarrier": (324, 283),
    "arch_prctl": (158, None),
    "exit": (60, 93),
    "exit_group": (231, 94),
    "wait4": (61, 260),
    "waitid": (247, 95),
    "getrandom": (318, 278),
}

_AUDIT_ARCH = (0xC000_003E, 0xC000_00B7)
_CLONE, _IOCTL, _PRCTL, _TGKILL, _PRLIMIT, _RECVMSG = (56, 220), (16, 29), (157, 167), (234, 131), (302, 261), (47, 212)
_SETRLIMIT, _RLIMIT_CPU, _SIGKILL = (160, 164), 0, 9
_CLONE_THREAD = 0x0001_0000
_NEW_NAMESPACE = 0x7E02_0000
_IOCTLS = (0x5401, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451)  # TCGETS, TIOCGWINSZ, FIONREAD, FIONBIO, FIONCLEX, FIOCLEX
# dup, close-on-exec, status flags, pipe size: no locks, signals or leases, which would outlive the program on files
# that others see too
_FCNTL, _FCNTLS = (72, 25), (0, 1, 2, 3, 4, 1030, 1032)
_PRCTLS = (15, 16, 0x5356_4D41)  # PR_SET_NAME, PR_GET_NAME, PR_SET_VMA

# opcodes of classic BPF (linux/filter.h)
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _KILL, _ERRNO = 0x7FFF_0000, 0x8000_0000, 0x0005_0000
_NUMBER, _ARCH, _ARGUMENT = 0, 4, 16  # offsets in struct seccomp_data; arguments are 8 bytes each, low half first

Instruction = tuple[int, int, int, int]  # code, jump if true, jump if false, constant
FilterRule = tuple[Instruction, ...]  # ends in a return on every path


def install(*, pid: int, may_fork: bool, receives: bool) -> None:
    """Filter the kernel calls of this process, whose number is given, from now on. Raises OSError."""
    linux.prctl(linux.PR_SET_SECCOMP, linux.SECCOMP_MODE_FILTER, prepared(pid, may_fork, receives)[0])


@functools.cache
def prepared(pid: int, may_fork: bool, receives: bool) -> tuple[ctypes.Array[ctypes.c_char], object]:
    """Return the filter as the kernel reads it (struct sock_fprog, and what it points to); made before the fork."""
    program = assemble(linux.architecture(), pid, may_fork=may_fork, receives=receives)
    code = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *line) for line in program))
    return ctypes.create_string_buffer(struct.pack("@HP", len(program), ctypes.addressof(code))), code


def assemble(column: int, pid: int, *, may_fork: bool, receives: bool = False) -> list[Instruction]:
    """Return the filter for one architecture and process. The call's number is searched in a tree, because installing a
    filter makes the kernel run it for every number, and that happens for every program."""
    rules: dict[int, FilterRule] = {_CLONE[column]: _clone_rule(may_fork=may_fork)}
    rules |= {_IOCTL[column]: _one_of(1, _IOCTLS), _PRCTL[column]: _one_of(0, _PRCTLS)}
    rules |= {_FCNTL[column]: _one_of(1, _FCNTLS)}
    rules |= {_TGKILL[column]: (*_unless(2, _SIGKILL), *_one_of(0, (pid,)))}
    rules |= {_SETRLIMIT[column]: (*_unless(0, _RLIMIT_CPU), _answer(_ALLOW)), _PRLIMIT[column]: _prlimit_rule()}
    listed = (numbers[column] for numbers in ALLOWED.values())
    rules |= {number: (_answer(_ALLOW),) for number in listed if number is not None}
    if receives:  # the driver is handed its files over a socket that it was started with
        rules[_RECVMSG[column]] = (_answer(_ALLOW),)
    head = [(_LOAD, 0, 0, _ARCH), (_EQUAL, 1, 0, _AUDIT_ARCH[column]), _answer(_KILL), (_LOAD, 0, 0, _NUMBER)]
    return [*head, *_search(_stretches(rules))]


def _stretches(rules: Mapping[int, FilterRule]) -> list[tuple[int, FilterRule]]:
    """Return the ranges of call numbers with their rules. Numbers without a rule (x32 calls too) answer ENOSYS."""
    unknown = (_answer(_ERRNO | errno.ENOSYS),)
    found: list[tuple[int, FilterRule]] = []
    for number in sorted({0, *rules, *(number + 1 for number in rules)}):
        rule = rules.get(number, unknown)
        if not found or found[-1][1] != rule:
            found.append((number, rule))
    return found


def _search(stretches: list[tuple[int, FilterRule]]) -> list[Instruction]:
    """Return a binary search for the range that the number lies in."""
    if len(stretches) == 1:
        return list(stretches[0][1])
    middle = len(stretches) // 2
    lower, upper = _search(stretches[:middle]), _search(stretches[middle:])
    assert len(lower) < 256, "a jump is one byte"
    return [(_AT_LEAST, len(lower), 0, stretches[middle][0]), *lower, *upper]


def _answer(action: int) -> Instruction:
    return (_RETURN, 0, 0, action)


def _one_of(argument: int, values: tuple[int, ...]) -> FilterRule:
    """Return the rule that allows a call if the low half of an argument is one of these, else answers EPERM."""
    rule: list[Instruction] = [(_LOAD, 0, 0, _ARGUMENT + 8 * argument)]
    for value in values:
        rule += [(_EQUAL, 0, 1, value), _answer(_ALLOW)]
    return (*rule, _answer(_ERRNO | errno.EPERM))


def _unless(argument: int, value: int) -> FilterRule:
    """Return the rule that answers EPERM if the low half of an argument is this; else what follows applies."""
    return ((_LOAD, 0, 0, _ARGUMENT + 8 * argument), (_EQUAL, 0, 1, value), _answer(_ERRNO | errno.EPERM))


def _prlimit_rule() -> FilterRule:
    """Return the rule for the process's own limits: any may be read (both halves of the pointer to a new one are zero),
    and all but that of processor time may be set."""
    refuse = _answer(_ERRNO | errno.EPERM)
    return (
        *((_LOAD, 0, 0, _ARGUMENT), (_EQUAL, 1, 0, 0), refuse),
        *((_LOAD, 0, 0, _ARGUMENT + 8), (_EQUAL, 1, 0, _RLIMIT_CPU), _answer(_ALLOW)),
        *((_LOAD, 0, 0, _ARGUMENT + 16), (_EQUAL, 1, 0, 0), refuse),
        *((_LOAD, 0, 0, _ARGUMENT + 20), (_EQUAL, 1, 0, 0), refuse),
        _answer(_ALLOW),
    )


def _clone_rule(*, may_fork: bool) -> FilterRule:
    """Return the rule for clone: never a new namespace; a process only where processes were granted; a thread
    always."""
    refuse = _answer(_ERRNO | errno.EPERM)
    start = ((_LOAD, 0, 0, _ARGUMENT), (_ANY_BIT, 0, 1, _NEW_NAMESPACE), refuse)
    if may_fork:
        return (*start, _answer(_ALLOW))
    return (*start, (_ANY_BIT, 0, 1, _CLONE_THREAD), _answer(_ALLOW), refuse)
