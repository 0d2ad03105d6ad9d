"""The filter of kernel calls, run by a small interpreter of classic BPF for every call number."""

import errno

import pytest

from rwkv_data.sandbox import seccomp

ALLOW, KILL = 0x7FFF_0000, 0x8000_0000
EPERM, ENOSYS = 0x0005_0000 | errno.EPERM, 0x0005_0000 | errno.ENOSYS
ARCH = (0xC000_003E, 0xC000_00B7)
CLONE, KILL_CALL, SOCKET = (56, 220), (62, 129), (41, 198)


def answer(column: int, number: int, *arguments: int, arch: int | None = None, may_fork: bool = False) -> int:
    program = seccomp.assemble(column, 1, may_fork=may_fork)
    words = {0: number, 4: ARCH[column] if arch is None else arch}
    for place, argument in enumerate(arguments):
        words[16 + 8 * place], words[20 + 8 * place] = argument & 0xFFFF_FFFF, argument >> 32
    place = register = 0
    while True:
        code, if_true, if_false, constant = program[place]
        match code:
            case 0x20:
                register = words.get(constant, 0)
                place += 1
            case 0x15 | 0x35 | 0x45:
                truth = {0x15: register == constant, 0x35: register >= constant, 0x45: bool(register & constant)}[code]
                place += 1 + (if_true if truth else if_false)
            case 0x06:
                return constant


@pytest.mark.parametrize("column", [0, 1])
def test_every_number_is_answered_as_the_table_says(column: int) -> None:
    allowed = {numbers[column] for numbers in seccomp.ALLOWED.values()}
    special = {
        (72, 25)[column],
        (56, 220)[column],
        (16, 29)[column],
        (157, 167)[column],
        (234, 131)[column],
        (302, 261)[column],
        (160, 164)[column],
    }
    for number in range(600):
        expected = ALLOW if number in allowed else ENOSYS
        if number not in special:
            assert answer(column, number) == expected, number
    assert not allowed & special


@pytest.mark.parametrize("column", [0, 1])
def test_other_architectures_and_their_numbers(column: int) -> None:
    assert answer(column, 0, arch=0x4000_0003) == KILL  # i386, whose numbers mean other calls
    assert answer(column, 0, arch=ARCH[1 - column]) == KILL
    for number in (0x4000_0000, 0x4000_0027, 0xFFFF_FFFF):
        assert answer(column, number) == ENOSYS


@pytest.mark.parametrize("column", [0, 1])
def test_processes_threads_and_namespaces(column: int) -> None:
    thread, process, space = 0x0011_0F00, 17, 0x1000_0000
    assert answer(column, CLONE[column], thread) == ALLOW
    assert answer(column, CLONE[column], process) == EPERM
    assert answer(column, CLONE[column], thread | space) == EPERM
    assert answer(column, CLONE[column], process, may_fork=True) == ALLOW
    assert answer(column, CLONE[column], process | space, may_fork=True) == EPERM
    for bit in (0x0002_0000, 0x0200_0000, 0x0400_0000, 0x0800_0000, 0x1000_0000, 0x2000_0000, 0x4000_0000):
        assert answer(column, CLONE[column], thread | bit, may_fork=True) == EPERM


@pytest.mark.parametrize("column", [0, 1])
def test_calls_that_are_looked_at_more_closely(column: int) -> None:
    ioctl, prctl, tgkill, prlimit = ((16, 157, 234, 302), (29, 167, 131, 261))[column]
    fcntl = (72, 25)[column]
    assert [answer(column, fcntl, 3, command) for command in (0, 1, 2, 3, 4, 1030)] == [ALLOW] * 6
    locks_leases_and_signals = (6, 7, 8, 10, 37, 38, 1024, 1026, 1031)
    assert {answer(column, fcntl, 3, command) for command in locks_leases_and_signals} == {EPERM}
    assert answer(column, ioctl, 1, 0x5401) == ALLOW
    assert answer(column, ioctl, 1, 0x5412) == EPERM
    assert answer(column, prctl, 15) == ALLOW
    assert answer(column, prctl, 22) == EPERM
    assert answer(column, tgkill, 1, 1, 6) == ALLOW
    assert answer(column, tgkill, 2, 2, 9) == EPERM
    assert answer(column, prlimit, 0) == ALLOW
    assert answer(column, prlimit, 1) == EPERM


@pytest.mark.parametrize("column", [0, 1])
def test_no_program_can_have_itself_killed_as_from_outside(column: int) -> None:
    """Otherwise a wrong answer could count as `lost`."""
    tgkill, prlimit, setrlimit = ((234, 302, 160), (131, 261, 164))[column]
    assert answer(column, tgkill, 1, 1, 9) == EPERM
    assert answer(column, tgkill, 1, 1, 9 | 1 << 32) == EPERM  # the kernel looks at the low half only
    assert answer(column, setrlimit, 0, 4096) == EPERM
    assert answer(column, setrlimit, 7, 4096) == ALLOW
    assert answer(column, prlimit, 0, 0, 0, 4096) == ALLOW  # asks
    for pointer in (4096, 1 << 32):
        assert answer(column, prlimit, 0, 0, pointer) == EPERM
        assert answer(column, prlimit, 0, 7, pointer) == ALLOW


def test_no_jump_leaves_the_program() -> None:
    for column in (0, 1):
        program = seccomp.assemble(column, 1, may_fork=False)
        for place, (code, if_true, if_false, _) in enumerate(program):
            if code != 0x06:
                assert place + 1 + max(if_true, if_false) < len(program)
        assert len(program) < 4096


def test_the_dangerous_ones_are_not_in_the_table() -> None:
    dangerous = {
        "socket", "socketpair", "connect", "ptrace", "mount", "unshare", "setns",
        "clone3", "execve", "execveat", "fork", "vfork", "bpf", "keyctl",
        "perf_event_open", "flock", "userfaultfd", "io_uring_setup", "memfd_create", "kill", "chroot",
        "process_vm_readv", "process_vm_writev", "pidfd_open", "pidfd_getfd", "setuid", "capset", "shmget", "mknod",
    }  # fmt: skip
    assert not dangerous & set(seccomp.ALLOWED)


@pytest.mark.parametrize("column", [0, 1])
def test_only_the_driver_may_be_handed_files(column: int) -> None:
    receive = (47, 212)[column]
    assert receive not in {numbers[column] for numbers in seccomp.ALLOWED.values()}
    drivers = seccomp.assemble(column, 1, may_fork=False, receives=True)
    others = seccomp.assemble(column, 1, may_fork=False)
    assert (0x15, 0, 1, receive) not in others
    assert drivers != others
