"""No answer delays others: one that sleeps, is rerun, or fails test after test uses its own time only."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from waiting import wait_for

from rwkv_data.definition.answer import Answer, Grade
from rwkv_data.definition.grader import Grader, SandboxPlace
from rwkv_data.graders.code import graders
from rwkv_data.sandbox import Limits, ProgramOutcome, Sandbox, processor_slots
from rwkv_data.sandbox.processor_slots import ProcessorSlots, SlotClaim

Children = Callable[[int], list[int]]
PATIENT = Limits(cpu_s=5.0, wall_s=900.0)
SLEEPS = "import time\ntime.sleep(3600)"


@contextlib.contextmanager
def running(sandbox: Sandbox, program: str, children: Children) -> Iterator[list[ProgramOutcome]]:
    """Run a program until the end of the block; then kill it, in its second run too. Yields a list for its outcome."""
    assert sandbox._process is not None
    (zygote,) = children(sandbox._process.pid)
    outcomes: list[ProgramOutcome] = []
    thread = threading.Thread(target=lambda: outcomes.append(sandbox.script(program, limits=PATIENT)))
    thread.start()

    def gone() -> bool:
        for pid in children(zygote):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return not thread.is_alive()

    try:
        wait_for(lambda: children(zygote), "the program runs")
        yield outcomes
    finally:
        wait_for(gone, "the program has ended")
        thread.join()


def test_who_sleeps_gives_its_slot_to_others(process_children: Children, tmp_path: Path) -> None:
    with Sandbox(slots=ProcessorSlots(tmp_path, 1)) as one, Sandbox(slots=ProcessorSlots(tmp_path, 1)) as other:
        with running(one, SLEEPS, process_children) as asleep:
            assert [other.script(f"print({n})").output for n in range(5)] == [f"{n}\n" for n in range(5)]
            assert asleep == [], "the sleeper sleeps on"
        assert one.script("print('slept')").output == "slept\n"


def test_who_works_keeps_its_slot(process_children: Children, tmp_path: Path) -> None:
    pool = ProcessorSlots(tmp_path, 1)
    got = threading.Event()

    def take() -> None:
        with ProcessorSlots(tmp_path, 1).one():
            got.set()

    waiting = threading.Thread(target=take)
    with Sandbox(slots=pool) as sandbox:
        waiting_outcome: list[ProgramOutcome] = []
        busy = "import time\nwhile time.process_time() < 1: pass"
        worker = threading.Thread(target=lambda: waiting_outcome.append(sandbox.script(busy)))
        worker.start()
        wait_for(lambda: pool._held == 1, "the program holds the slot")
        waiting.start()
        wait_for(got.is_set, "the slot is free again")
        wait_for(lambda: waiting_outcome, "the program has ended")
        worker.join()
    waiting.join()
    assert waiting_outcome[0].status == "passed"
    assert waiting_outcome[0].asleep_s < 0.5, "it gave its slot back because it had ended"


def test_a_program_run_again_stops_no_other(process_children: Children) -> None:
    with Sandbox() as one, Sandbox() as other:
        assert one._process is not None
        (zygote,) = process_children(one._process.pid)
        with running(one, SLEEPS, process_children) as disturbed:
            (first,) = process_children(zygote)
            os.kill(first, signal.SIGKILL)
            wait_for(lambda: set(process_children(zygote)) - {first}, "it is run again")
            assert [other.script(f"print({n})").output for n in range(3)] == ["0\n", "1\n", "2\n"]
            assert disturbed == [], "it still runs"
        assert [outcome.status for outcome in disturbed] == ["lost"]


class Holder:
    """A thread that takes one slot and holds it until it is released."""

    def __init__(self, pool: ProcessorSlots) -> None:
        self.holds, self.end = threading.Event(), threading.Event()
        self.thread = threading.Thread(target=self._hold, args=(pool,))
        self.thread.start()

    def _hold(self, pool: ProcessorSlots) -> None:
        with pool.one():
            self.holds.set()
            self.end.wait()

    def give_back(self) -> None:
        self.end.set()
        self.thread.join()


def waits(folder: Path, times: int) -> None:
    wait_for(lambda: len(list(folder.glob("waits-*"))) == times, f"{times} wait")


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a thread keep its claim although the machine makes it wait for seconds."""
    monkeypatch.setattr(processor_slots, "_FRESH_S", 60.0)


@pytest.mark.usefixtures("patient")
def test_a_free_slot_goes_to_the_job_that_holds_fewest(tmp_path: Path) -> None:
    greedy, modest = ProcessorSlots(tmp_path, 2), ProcessorSlots(tmp_path, 2)
    held = [Holder(greedy), Holder(greedy)]
    for holder in held:
        wait_for(holder.holds.is_set, "the greedy job has both slots")
    more = Holder(greedy)
    waits(tmp_path, 1)
    late = Holder(modest)
    waits(tmp_path, 2)
    held[0].give_back()
    wait_for(late.holds.is_set, "the late one has the slot that became free")
    assert not more.holds.is_set()
    late.give_back()
    wait_for(more.holds.is_set, "nobody else waits any more")
    more.give_back()
    held[1].give_back()


def test_who_has_waited_longest_is_first_and_who_is_gone_is_passed_over(tmp_path: Path) -> None:
    assert SlotClaim(0, 5.0) < SlotClaim(1, 1.0)
    assert SlotClaim(1, 1.0) < SlotClaim(1, 2.0)
    now = processor_slots.time.monotonic()
    (tmp_path / "waits-1-a").write_text(f"0 1.0 {now - 10}\n")  # has not renewed its note
    (tmp_path / "waits-2-b").write_text(f"0 1.0 {now - 100}\n")  # long ago
    (tmp_path / "waits-3-c").write_text(f"0 1.0 {now + 1000}\n")  # before the machine was started again
    (tmp_path / "waits-4-d").write_text("")  # says nothing
    with ProcessorSlots(tmp_path, 1).one():
        assert sorted(path.name for path in tmp_path.glob("waits-*")) == ["waits-1-a", "waits-4-d"]


JOB_OF_SLEEPERS = """
import sys, threading
from pathlib import Path
from rwkv_data.definition.answer import Answer
from rwkv_data.definition.grader import SandboxPlace
from rwkv_data.graders.code import graders
row = {"test_list": ["assert f() == 1"], "code": "def f(): pass"}
grader = graders.mbpp(cpu_s=300.0)
def grade():
    with grader.opened(SandboxPlace(slots_dir=Path(sys.argv[1]), slots=1)) as one:
        print("starts", flush=True)
        one(row, Answer("```\\nimport time\\ndef f():\\n    time.sleep(3600)\\n```"))
        print("ends", flush=True)
threads = [threading.Thread(target=grade) for _ in range(grader.workers)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
"""


def test_a_job_of_sleepers_does_not_keep_the_pool_from_another(tmp_path: Path) -> None:
    """As many sleepers as a job has workers, on a node for one program at a time."""
    paths = os.pathsep.join(str(Path(path).absolute()) for path in sys.path if path)
    command = [sys.executable, "-c", JOB_OF_SLEEPERS, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={"PYTHONPATH": paths}) as job:
        assert job.stdout is not None
        assert [job.stdout.readline() for _ in range(graders.WORKERS)] == ["starts\n"] * graders.WORKERS
        row = {"test_list": ["assert f() == 1"], "code": "def f(): pass"}
        with graders.mbpp().opened(SandboxPlace(slots_dir=tmp_path, slots=1)) as grade:
            found = [grade(row, Answer(f"```\ndef f():\n    return {n}\n```")).value for n in (1, 2, 1, 1)]
        job.kill()
        assert found == [1.0, 0.0, 1.0, 1.0]
        assert job.stdout.read() == "", "no sleeper has ended"


TESTS = {"inputs": [str(n) for n in range(100)], "outputs": [f"{n}\n" for n in range(100)]}


def graded(grader: Grader, row: dict[str, object], program: str, **options: float) -> Grade:
    with replace(grader, options=grader.options | options).opened(SandboxPlace()) as grade:
        return grade(row, Answer(f"```python\n{program}\n```"))


@pytest.mark.parametrize("kind", ["sleeps", "works"])
@pytest.mark.parametrize("called", [True, False], ids=["function", "program"])
def test_all_tests_of_an_answer_have_limits_together(kind: str, called: bool) -> None:
    """Each test would be within its own limits, a hundred of them hold no slot for a hundred times as long."""
    works = "end = time.process_time() + .3\n    while time.process_time() < end: pass"
    function = f"import time\ndef f(n):\n    {'time.sleep(.8)' if kind == 'sleeps' else works}\n    return n\n"
    row: dict[str, object] = {"input_output": TESTS}
    if called:
        row = {"input_output": {"inputs": [[n] for n in range(100)], "outputs": list(range(100)), "fn_name": "f"}}
    program = function if called else f"{function}print(f(input()))"
    grade = graded(graders.apps(), row, program, test_cpu_s=0.5, all_cpu_s=1.5)
    assert (grade.value, grade.reason) == (0.0, "timeout"), grade
    first, _, _ = grade.detail.partition(":")
    number = int(first.split()[1]) if first.startswith("test ") else int(grade.detail.split("after ")[1].split()[0])
    assert 2 <= number <= 10, grade


def test_tests_that_take_little_have_it_each(tmp_path: Path) -> None:
    grade = graded(graders.apps(), {"input_output": TESTS}, "print(int(input()))", test_cpu_s=0.5, all_cpu_s=30.0)
    assert grade.reason == "right", grade
