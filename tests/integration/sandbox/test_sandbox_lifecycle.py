"""Where the sandbox runs and refuses to run, what it survives, and what running without it means."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from waiting import LIMIT_S, LOOK_S, wait_for

from rwkv_data.graders.code.drivers import call_text
from rwkv_data.graders.code.program_report import reported
from rwkv_data.sandbox import Limits, Sandbox, SandboxUnavailableError, available
from rwkv_data.sandbox.processor_slots import ProcessorSlots

PACKAGE = Path(__file__).resolve().parents[3] / "data"
PROBE = "from rwkv_data.sandbox import available\nprint(available() or 'works')"
SYSTEM_PYTHON = "/usr/bin/python3"


def test_every_layer_works_here() -> None:
    assert available() == ""


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: to become somebody else")
def test_an_ordinary_user_has_it_too(tmp_path_factory: pytest.TempPathFactory) -> None:
    """As a user without a name, with another interpreter, from a copy of the package that this user can read."""
    version = shutil.which(SYSTEM_PYTHON) and subprocess.check_output(
        [SYSTEM_PYTHON, "-c", "import sys; print(sys.version_info >= (3, 11))"], text=True
    )
    if not version or version.strip() != "True":
        pytest.skip(f"needs a Python 3.11 that everybody may run: {SYSTEM_PYTHON}")
    folder = Path("/tmp") / f"rwkvctl-sandbox-{os.getpid()}"
    try:
        shutil.copytree(PACKAGE / "rwkv_data" / "sandbox", folder / "rwkv_data" / "sandbox")
        (folder / "rwkv_data" / "__init__.py").touch()
        subprocess.run(["chmod", "-R", "a+rX", str(folder)], check=True)
        found = subprocess.check_output(
            [SYSTEM_PYTHON, "-B", "-c", PROBE], text=True, cwd=folder, user=65533, group=65533, extra_groups=[], env={}
        )
    finally:
        shutil.rmtree(folder)
    assert found == "works\n"


def test_it_refuses_where_nothing_isolates() -> None:
    """In a user namespace that may have no other in it, and whose only user is root."""
    if not shutil.which("unshare"):
        pytest.skip("needs unshare: not installed")
    closed = 'echo 0 > /proc/sys/user/max_user_namespaces && exec "$@"'
    command = ["unshare", "-Ur", "sh", "-c", closed, "sh", sys.executable, "-B", "-c", PROBE]
    said = subprocess.check_output(command, text=True, env={"PYTHONPATH": str(PACKAGE)})
    assert said.startswith("untrusted code cannot be isolated here: ")
    assert "user.max_user_namespaces" in said


def test_a_launcher_that_cannot_be_run_is_a_refusal() -> None:
    with pytest.raises(SandboxUnavailableError, match=r"did not start.*It needs Linux"):
        Sandbox(launcher=("/bin/false",))


def test_a_killed_zygote_is_replaced(process_children) -> None:
    with Sandbox() as sandbox:
        assert sandbox._process is not None
        (zygote,) = process_children(sandbox._process.pid)
        os.kill(zygote, signal.SIGKILL)
        assert sandbox.script("print(1)").output == "1\n"
        sandbox._process.kill()
        assert sandbox.script("print(2)").output == "2\n"


def go_on(children: Callable[[int], list[int]], sandbox: Sandbox, over: threading.Event) -> None:
    """Let every held program go on until `over` is set. A signal that comes too early is ignored."""
    while not over.wait(LOOK_S):
        process = sandbox._process  # None while it starts anew
        for zygote in children(process.pid) if process else ():
            for guest in children(zygote):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(guest, signal.SIGCONT)


HELD = """import signal
def f():
    signal.signal(signal.SIGCONT, lambda *_: None)
    signal.pause()
    return 5
print(f())"""
"""A program that ends only when the test says so."""
HELD_LONG = Limits(wall_s=LIMIT_S)


def test_a_zygote_killed_under_a_program_is_replaced_and_the_program_run_again(process_children) -> None:
    with Sandbox() as sandbox:
        assert sandbox._process is not None
        (zygote,) = process_children(sandbox._process.pid)
        over = threading.Event()

        def kill() -> None:
            wait_for(lambda: process_children(zygote), "the program runs")
            os.kill(zygote, signal.SIGKILL)
            go_on(process_children, sandbox, over)

        killer = threading.Thread(target=kill)
        killer.start()
        try:
            outcome = sandbox.script(HELD, limits=HELD_LONG)
        finally:
            over.set()
            killer.join()
        assert outcome.output == "5\n", outcome


@contextlib.contextmanager
def killed_guests(sandbox: Sandbox, children, attempts: int, guests: int, killed: int) -> Iterator[None]:
    """Kill one guest of each of so many attempts from outside, as the kernel does where there is no memory left, and
    let later attempts end by themselves."""
    assert sandbox._process is not None
    (zygote,) = children(sandbox._process.pid)
    over = threading.Event()

    def attempt(earlier: set[int]) -> set[int]:
        wait_for(lambda: len(set(children(zygote)) - earlier) == guests, "the program runs")
        found = sorted(set(children(zygote)) - earlier)
        wait_for(lambda: _state(found[0]) != "R", "it is in the midst of it")
        os.kill(found[killed], signal.SIGKILL)
        wait_for(lambda: not set(found) & set(children(zygote)), "the attempt is over")
        return earlier | set(found)

    def kill() -> None:
        earlier: set[int] = set()
        for _ in range(attempts):
            earlier = attempt(earlier)
        go_on(children, sandbox, over)

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        yield
    finally:
        over.set()
        killer.join()


CHECK = ("rwkv_data.graders.code.drivers:assertions", {"before": "", "tests": ["assert f() == 5"], "functions": ["f"]})


def test_a_program_killed_from_outside_runs_again_and_killed_twice_is_no_verdict(process_children) -> None:
    with Sandbox(drivers=("rwkv_data.graders.code.drivers",)) as sandbox:
        with killed_guests(sandbox, process_children, attempts=1, guests=1, killed=0):
            outcome = sandbox.script(HELD, limits=HELD_LONG)
        assert outcome.output == "5\n", outcome
        with killed_guests(sandbox, process_children, attempts=2, guests=1, killed=0):
            outcome = sandbox.script(HELD, limits=HELD_LONG)
        assert (outcome.status, reported(outcome).reason) == ("lost", "error"), outcome
        for killed in (0, 1):  # the candidate comes first, the driver after it
            with killed_guests(sandbox, process_children, attempts=1, guests=2, killed=killed):
                outcome = sandbox.check(HELD, *CHECK, limits=HELD_LONG)
            assert outcome.status == "passed", outcome
            with killed_guests(sandbox, process_children, attempts=2, guests=2, killed=killed):
                outcome = sandbox.check(HELD, *CHECK, limits=HELD_LONG)
            assert (outcome.status, reported(outcome).reason) == ("lost", "error"), outcome


def test_a_driver_killed_while_it_waits_for_work_is_replaced(process_children) -> None:
    with Sandbox(drivers=("rwkv_data.graders.code.drivers",)) as sandbox:
        data = {"entry_point": "f", "calls": [call_text()], "limits_s": [5.0], "expected": [5], "rule": "apps"}
        drive = "rwkv_data.graders.code.drivers:contest"
        assert sandbox.check("def f(): return 5", drive, data, reuse_driver=True).status == "passed"
        assert sandbox._process is not None
        _, idle = sorted(process_children(sandbox._process.pid))
        os.kill(idle, signal.SIGKILL)
        assert sandbox.check("def f(): return 5", drive, data, reuse_driver=True).status == "passed"


def test_a_program_without_a_sandbox_cannot_pass_for_one_killed_from_outside() -> None:
    with Sandbox(run_untrusted_code_unsandboxed=True) as sandbox:
        for code in ("os.kill(os.getpid(), 9)", "signal.raise_signal(9)", "r.setrlimit(r.RLIMIT_CPU, (0, 0))"):
            outcome = sandbox.script(f"import os, signal, resource as r\n{code}\nwhile True: pass")
            assert outcome.status == "failed", outcome


def test_closing_ends_everything(process_children) -> None:
    with Sandbox() as sandbox:
        assert sandbox._process is not None
        pids = [sandbox._process.pid, *process_children(sandbox._process.pid)]
    wait_for(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids), "no process is left")


def test_a_killed_caller_leaves_nothing_running(process_children) -> None:
    code = (
        "from rwkv_data.sandbox import Sandbox\nsandbox = Sandbox()\nprint(sandbox._process.pid, flush=True)\n"
        "sandbox.script('import time\\ntime.sleep(60)')"
    )
    caller = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env={"PYTHONPATH": str(PACKAGE)}
    )
    with caller:
        assert caller.stdout is not None
        launcher = int(caller.stdout.readline())
        wait_for(lambda: len(process_children(launcher)) > 1, "the program runs")
        pids = [launcher, *process_children(launcher)]
        caller.kill()
    wait_for(lambda: not any(map(_lives, pids)), "no process is left")


def _lives(pid: int) -> bool:
    return _state(pid) not in {"Z", ""}


def _state(pid: int) -> str:
    """The state of a process by the kernel's letter; empty if there is none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""


def test_a_thread_that_ends_does_not_take_the_sandbox_with_it() -> None:
    opened: list[Sandbox] = []
    thread = threading.Thread(target=lambda: opened.append(Sandbox()))
    thread.start()
    thread.join()
    with opened[0] as sandbox:
        assert sandbox.script("print(1)").output == "1\n"


def test_threads_take_turns() -> None:
    outputs: list[str] = []
    with Sandbox() as sandbox:
        threads = [
            threading.Thread(target=lambda n=n: outputs.append(sandbox.script(f"print({n})").output)) for n in range(8)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted(outputs) == [f"{n}\n" for n in range(8)]


def test_without_the_sandbox_only_where_the_name_says_so(tmp_path: Path) -> None:
    with Sandbox(run_untrusted_code_unsandboxed=True) as sandbox:
        assert not sandbox.isolated
        outcome = sandbox.script("import os\nopen('x', 'w')\nprint(os.getcwd(), os.path.exists('/etc'), input())", "in")
        folder, sees_host, line = outcome.output.split()
        assert (outcome.status, sees_host, line) == ("passed", "True", "in")
        assert folder.startswith("/tmp/rwkvctl-unsafe-")
        assert not Path(folder).exists()
        quick = Limits(cpu_s=1.0, memory_mb=256)
        assert sandbox.script("while True: pass", limits=quick).status == "timeout"
        assert sandbox.script("x = 'a' * (1 << 30)", limits=quick).status == "memory"


def test_processor_time_is_what_counts() -> None:
    """A program that gets no processor time is not out of time: the limit counts processor time."""
    with Sandbox() as sandbox:
        outcome = sandbox.script("import time\nwhile time.process_time() < .5: pass", limits=Limits(cpu_s=1.0))
        assert outcome.status == "passed"
        assert outcome.cpu_s >= 0.5
        late = sandbox.script("import time\nwhile time.process_time() < 9: pass", limits=Limits(cpu_s=0.3))
        assert late.status == "timeout"
        assert 0.3 <= late.cpu_s < 9


def test_only_sleep_counts_as_asleep() -> None:
    """A program that works, or waits for a processor, may take longer than the limit of sleep."""
    brief = Limits(cpu_s=4.0, wall_s=0.5)
    with Sandbox() as sandbox:
        works = "import time\nwhile time.process_time() < .8: pass\nprint('done')"
        assert sandbox.script(works, limits=brief).output == "done\n"
        assert sandbox.script(THREADS, limits=brief).output == "done\n"
        outcome = sandbox.script("import time\nwhile True: time.sleep(.05)", limits=brief)
        assert (outcome.status, outcome.cpu_s < 0.5) == ("timeout", True)


THREADS = """
import time, threading
def work():
    while time.process_time() < .8: pass
threads = [threading.Thread(target=work) for _ in range(4)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
print("done")
"""
NAPS = """
import time
while True:
    end = time.process_time() + .005
    while time.process_time() < end: pass
    time.sleep(.1)
"""


def test_who_works_a_little_is_asleep_the_rest_of_the_time() -> None:
    """Formerly a sleeping program that used some hundredths of a processor counted as starved."""
    with Sandbox() as sandbox:
        outcome = sandbox.script(NAPS, limits=Limits(cpu_s=60.0, wall_s=1.0))
    assert (outcome.status, outcome.starved) == ("timeout", False), outcome
    assert outcome.asleep_s >= 1.0
    assert outcome.cpu_s < 1.0


def test_slots_are_counted_over_processes(tmp_path: Path) -> None:
    folder = tmp_path / "slots"
    code = (
        "import sys, time\nfrom pathlib import Path\nfrom rwkv_data.sandbox.processor_slots import ProcessorSlots\n"
        "with ProcessorSlots(Path(sys.argv[1]), 2).one():\n    print('held', flush=True)\n    time.sleep(600)"
    )
    holders = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(folder)],
            stdout=subprocess.PIPE,
            text=True,
            env={"PYTHONPATH": str(PACKAGE)},
        )
        for _ in range(2)
    ]
    assert [holder.stdout.readline() for holder in holders if holder.stdout] == ["held\n"] * 2
    got = threading.Event()

    def wait() -> None:
        with ProcessorSlots(folder, 2).one():
            got.set()

    thread = threading.Thread(target=wait)
    thread.start()
    wait_for(lambda: list(folder.glob("waits-*")), "the third one waits")
    assert not got.is_set()
    for holder in holders:  # a process that dies gives its slot back
        holder.kill()
        holder.wait()
        assert holder.stdout
        holder.stdout.close()
    assert got.wait(LIMIT_S)
    thread.join()
    assert not list(folder.glob("waits-*"))
    with ProcessorSlots(None, 2).one(), ProcessorSlots(folder, 0).one() as back:
        back()


def test_it_works_for_a_caller_that_keeps_its_files_to_itself() -> None:
    """A daemon runs with umask 077; its guests, another user, must still see the interpreter's modules."""
    kept = os.umask(0o077)
    try:
        with Sandbox(drivers=("rwkv_data.graders.code.drivers",)) as sandbox:
            data = {"before": "", "tests": ["assert f('3/4') == 0.75", "assert g() is None"], "functions": ["f"]}
            code = "import fractions\ndef f(text):\n    return float(fractions.Fraction(text))\n"
            outcome = sandbox.check(code, "rwkv_data.graders.code.drivers:assertions", data)
    finally:
        os.umask(kept)
    assert (outcome.status, outcome.result["passed"]) == ("failed", 1)
    assert "NameError" in outcome.detail
