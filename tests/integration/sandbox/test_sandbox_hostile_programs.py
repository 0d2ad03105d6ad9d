"""Programs that try to escape, gain privileges or exhaust resources: their outcome, the host, and the next program."""

import json
import os
import socket
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from rwkv_data.sandbox import Limits

SMALL = Limits(cpu_s=1.0, wall_s=2.0, memory_mb=256, workspace_mb=8, output_mb=4)
BRIEF = replace(SMALL, cpu_s=0.3, wall_s=0.5)
"""For what may be out of time anyway."""

CALLS = """
import ctypes, json
libc = ctypes.CDLL(None, use_errno=True)
def call(number, *arguments):
    ctypes.set_errno(0)
    result = libc.syscall(ctypes.c_long(number), *[ctypes.c_long(a) for a in arguments])
    return [result, ctypes.get_errno()]
"""


def test_no_program_gets_out_or_does_harm(box, hostile: tuple[str, str]) -> None:
    heading, code = hostile
    expected = heading.partition("| ")[2].split()
    outcome = box.script(code, limits=BRIEF if "timeout" in expected else SMALL)
    assert outcome.status in expected, outcome


DEAF = """
import os, signal, time
def deaf():
    for number in range(1, 65):
        try: signal.signal(number, signal.SIG_IGN)
        except (OSError, ValueError): pass
"""
# number on x86-64: a call that would leave the sandbox, reach others, or hold memory that nothing counts
FORBIDDEN = {
    "ptrace": 101, "process_vm_readv": 310, "process_vm_writev": 311, "mount": 165, "umount2": 166, "pivot_root": 155,
    "chroot": 161, "unshare": 272, "setns": 308, "clone3": 435, "bpf": 321, "perf_event_open": 298, "userfaultfd": 323,
    "keyctl": 250, "add_key": 248, "request_key": 249, "kexec_load": 246, "reboot": 169, "io_uring_setup": 425,
    "memfd_create": 319, "memfd_secret": 447, "open_by_handle_at": 304, "name_to_handle_at": 303, "pidfd_open": 434,
    "pidfd_getfd": 438, "init_module": 175, "finit_module": 313, "swapon": 167, "sethostname": 170, "settimeofday": 164,
    "kill": 62, "tkill": 200, "execve": 59, "execveat": 322, "fork": 57, "vfork": 58, "shmget": 29, "msgget": 68,
    "mq_open": 240, "inotify_init": 253, "fanotify_init": 300, "quotactl": 179, "acct": 163, "iopl": 172,
    "personality": 135, "move_mount": 429, "fsopen": 430, "mount_setattr": 442, "seccomp": 317, "landlock": 444,
    "setuid": 105, "setgid": 106, "setresuid": 117, "capset": 126, "socket": 41, "socketpair": 53, "ioperm": 173,
}  # fmt: skip


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="needs x86-64: the numbers are its")
def test_calls_that_are_not_listed_do_not_exist(box) -> None:
    code = f"{CALLS}\nprint(json.dumps({{n: call(v, 0, 0, 0, 0, 0, 0) for n, v in {FORBIDDEN!r}.items()}}))"
    outcome = box.script(code)
    assert outcome.status == "passed", outcome
    answers = json.loads(outcome.output)
    assert {name: answer for name, answer in answers.items() if answer not in ([-1, 38], [-1, 1])} == {}
    assert len(answers) == len(FORBIDDEN)


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="needs x86-64: the numbers are its")
def test_arguments_of_the_calls_that_are_listed(box) -> None:
    x32, new_user, fork = 0x4000_0000, 0x1000_0000, 17
    outcome = box.script(f"""{CALLS}
print(json.dumps({{
    "x32": call({x32} + 39),
    "clone into a user namespace": call(56, {new_user} | {fork}, 0, 0, 0, 0),
    "clone of a process": call(56, {fork}, 0, 0, 0, 0),
    "dumpable": call(157, 4, 1, 0, 0, 0),
    "a filter more": call(157, 22, 2, 0, 0, 0),
    "type into a terminal": call(16, 0, 0x5412, 0, 0, 0),
    "limits of another": call(302, 2, 0, 0, 0, 0),
    "signal to another": call(234, 2, 2, 9, 0, 0),
    "the far half of a number": call(39 | (1 << 32)),
}}))""")
    answers = json.loads(outcome.output)
    assert answers.pop("the far half of a number")[0] in (1, -1)  # the kernel itself looks at the low half only
    assert set(map(tuple, answers.values())) <= {(-1, 1), (-1, 38)}, answers


@pytest.mark.parametrize(
    "code",
    [
        "while True:\n    try: os.fork()\n    except OSError: pass",
        "for _ in range(3):\n    if os.fork() == 0:\n        os.setsid()\n        time.sleep(99)\nprint('gone')",
        "if os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0: time.sleep(99)\n    os._exit(0)\nprint('gone')",
        "if os.fork() == 0:\n    deaf()\n    while True: time.sleep(99)\nprint('gone')",
    ],
)
def test_where_processes_are_granted_all_of_them_end_with_the_first(box, code: str) -> None:
    """The layer below the filter: bombs, orphans and deaf children die with their namespace."""
    granted = Limits(cpu_s=0.3, wall_s=2.0, memory_mb=256, processes=4, threads=4)
    outcome = box.script(f"{DEAF}\n{code}", limits=granted)
    assert outcome.output == "gone\n" or outcome.status == "timeout", outcome


def test_the_number_of_processes_is_limited(box) -> None:
    granted = Limits(cpu_s=2.0, memory_mb=256, processes=16, threads=16)
    code = """import os, time
count = 0
try:
    while count < 100:
        if os.fork() == 0:
            time.sleep(99)
        count += 1
except OSError:
    pass
print(count)"""
    outcome = box.script(code, limits=granted)
    assert outcome.status == "passed"
    assert 8 <= int(outcome.output) <= 16


def test_the_home_and_the_secrets_of_the_host_are_not_there(box, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("the key")
    for path in (
        secret,
        Path.home() / ".bashrc",
        Path(__file__),
        Path("/etc"),
        Path("/var"),
        Path("/run"),
        Path("/home"),
    ):
        outcome = box.script(f"import os\nprint(os.path.lexists({str(path)!r}))")
        assert outcome.output == "False\n", path
    outcome = box.script(f"import os\nprint(os.listdir({str(Path.home())!r}))")
    assert outcome.status == "failed" or len(outcome.output.split()) == 1, "more than the way to the interpreter"


def test_nothing_of_the_callers_environment_comes_along(box, monkeypatch: pytest.MonkeyPatch) -> None:
    outcome = box.script("import os, sys\nprint(sorted(os.environ), sys.argv, os.getuid(), os.getpid())")
    assert outcome.output == "['HOME', 'LANG', 'PATH', 'PYTHONHASHSEED'] ['-c'] 65534 1\n" or "HOME" in outcome.output
    assert "RWKVCTL" not in outcome.output
    assert outcome.output.endswith(" 65534 1\n")


def test_a_daemons_socket_cannot_be_reached(box, tmp_path: Path) -> None:
    path = tmp_path / "daemon.sock"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        server.listen()
        server.settimeout(0.2)
        box.script(f"import socket\ns = socket.socket(socket.AF_UNIX)\ns.connect({str(path)!r})\ns.send(b'stop')")
        for descriptor in range(3, 20):
            box.script(f"import os\nos.write({descriptor}, b'stop')")
        with pytest.raises(TimeoutError):
            server.accept()


def test_descriptors_that_a_program_gets_are_its_own_three(box) -> None:
    outcome = box.script("""import os
found = []
for number in range(64):
    try:
        os.fstat(number)
        found.append(number)
    except OSError:
        pass
print(found)""")
    assert outcome.output == "[0, 1, 2]\n"


def test_the_test_input_cannot_be_changed_for_others(box) -> None:
    code = "import os\ntry: print(os.ftruncate(0, 0))\nexcept OSError: print('sealed')\nprint(input())"
    assert box.script(code, "the input").output == "sealed\nthe input\n"


def test_what_one_program_leaves_the_next_does_not_find(box) -> None:
    leave = """import os, sys, threading
for path in (MARK, '/tmp/' + MARK, '/dev/shm/' + MARK):
    try: open(path, 'w').write(MARK)
    except OSError: pass
os.environ['MARK'] = MARK
sys.path.insert(0, '/tmp')
open('json.py', 'w').write('raise SystemExit(9)')
import builtins
builtins.print = None"""
    assert box.script(leave).status == "passed"
    find = "import os, sys, json\nprint(os.listdir('/tmp'), 'MARK' in os.environ, '/tmp' in sys.path)"
    assert box.script(find).output == "[] False False\n"


def test_sandboxes_side_by_side_do_not_see_each_other(opened) -> None:
    from rwkv_data.sandbox import Sandbox

    see = "import os, time\nopen('here', 'w')\ntime.sleep(.3)\nprint(os.listdir('.'), os.getpid())"
    with Sandbox() as other:
        outcomes = []
        threads = [threading.Thread(target=lambda s=s: outcomes.append(s.script(see))) for s in (opened, other)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert [outcome.output for outcome in outcomes] == ["['here'] 1\n"] * 2
