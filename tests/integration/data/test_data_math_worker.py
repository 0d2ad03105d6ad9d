"""The maths grader's process: verdicts, and everything that can go wrong in it."""

import os
import sys
import threading
import time
from itertools import pairwise
from pathlib import Path

import pytest

from rwkv_data import registry
from rwkv_data.benchmark import Answer
from rwkv_data.graders.math import MathWorker

HALF = {"question": "Q", "answer": "\\frac{1}{2}"}
FIVE = {"question": "Q", "answer": "5"}
DIES = "import sys; print('{\"ready\": {}}', flush=True); sys.stdin.readline()"
ECHO = """
import json, os, sys
print('{"ready": {}}', flush=True)
for line in sys.stdin:
    print(json.dumps({"equal": True, "read": True, "pid": os.getpid(), "environment": dict(os.environ)}), flush=True)
"""


@pytest.fixture(scope="module")
def worker():
    with MathWorker(task_s=20) as opened:
        yield opened


@pytest.mark.parametrize(
    ("gold", "answer", "value"),
    [
        ("\\frac{1}{2}", "0.5", 1),
        ("\\frac{1}{2}", "\\dfrac{2}{4}", 1),
        ("\\frac{1}{2}", "\\frac{1}{2", 1),
        ("\\frac{1}{2}", "2", 0),
        ("6-5i", "5", 0),
        ("\\sqrt{7}", "7", 0),
        ("10{,}000", "10000", 1),
        ("x^2", "y^2", 0),
        ("(1,2)", "(2,1)", 0),
        ("\\text{Evelyn}", "Evelyn", 1),
        ("\\text{(C)}", "C", 1),
        ("\\begin{pmatrix} 1 \\\\ 2 \\end{pmatrix}", "\\begin{pmatrix}1\\\\2\\end{pmatrix}", 1),
        ("50\\%", "50", 1),
        ("5", "__import__('os').system('false')", 0),
        ("5", "\x00", 0),
    ],
)
def test_verdicts(worker, gold: str, answer: str, value: int) -> None:
    grade = worker.grade({"question": "Q", "answer": gold}, Answer(answer))
    assert (grade.value, grade.expected) == (value, gold), grade


def test_nothing_in_the_box_needs_no_process() -> None:
    with MathWorker(argv=("/does/not/exist",)) as worker:
        assert worker.grade(HALF, Answer("}\\)")).reason == "no_answer"


@pytest.mark.slow
@pytest.mark.parametrize("bomb", ["3^{3*10^8}", "\\binom{10^7}{5*10^6}", "10^{10^{10}}", "(" * 5000])
def test_a_hang_is_killed_and_is_no_wrong_answer(bomb: str) -> None:
    with MathWorker(task_s=1.0) as worker:
        worker.compare("1", "1")
        began = time.monotonic()
        grade = worker.grade(FIVE, Answer(bomb))
        assert (grade.value, grade.reason) in {(None, "timeout"), (None, "error")}
        assert time.monotonic() - began < 4
        assert worker.grade(FIVE, Answer("\\frac{10}{2}")).value in {1.0, None}


def test_a_crash_is_no_wrong_answer_and_the_next_one_is_served() -> None:
    with MathWorker(argv=(sys.executable, "-c", DIES)) as worker:
        for _ in range(2):
            grade = worker.grade(FIVE, Answer("5"))
            assert (grade.value, grade.reason, grade.detail) == (None, "error", "the maths grader died on this answer")


@pytest.mark.parametrize("argv", [(sys.executable, "-c", "raise SystemExit(1)"), ("/does/not/exist",)])
def test_a_child_that_cannot_start_is_no_wrong_answer(argv: tuple[str, ...]) -> None:
    with MathWorker(argv=argv) as worker:
        grade = worker.grade(FIVE, Answer("5"))
        assert (grade.value, grade.reason) == (None, "error")


@pytest.mark.slow
def test_memory_and_files_are_limited() -> None:
    with MathWorker() as worker:
        worker.compare("1", "1")
        limits = {line[:25].strip(): line[26:].split() for line in _limits_of(worker)}
    assert limits["Max address space"][0] == str(2 * 1024**3)
    assert limits["Max file size"][0] == "0"
    assert limits["Max core file size"][0] == "0"
    assert int(limits["Max cpu time"][0]) < 60
    assert set(worker.versions) == {"math-verify", "latex2sympy2_extended", "sympy"}


def _limits_of(worker: MathWorker) -> list[str]:
    return Path(f"/proc/{worker._child.pid}/limits").read_text().splitlines()[1:]


def test_the_child_is_renewed_and_sees_no_secrets(monkeypatch) -> None:
    monkeypatch.setenv("JUDGE_API_KEY", "secret")
    with MathWorker(argv=(sys.executable, "-c", ECHO), recycle_after=2) as worker:
        replies = [worker.compare("1", "1") for _ in range(5)]
    pids = [reply["pid"] for reply in replies]
    assert [a == b for a, b in pairwise(pids)] == [True, False, True, False]
    assert "JUDGE_API_KEY" not in replies[0]["environment"]


def test_several_threads_share_one_child(worker) -> None:
    grades = []
    threads = [
        threading.Thread(target=lambda n=n: grades.append((n, worker.grade(FIVE, Answer(str(n))).value)))
        for n in range(4, 8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(grades) == [(4, 0.0), (5, 1.0), (6, 0.0), (7, 0.0)]


def test_closing_ends_the_child() -> None:
    with MathWorker(argv=(sys.executable, "-c", ECHO)) as worker:
        pid = worker.compare("1", "1")["pid"]
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_a_kind_opens_and_closes_its_grader() -> None:
    kind = registry.load("math_500").default_kind
    with kind.grading() as grade:
        assert grade(HALF, Answer("0.5", ("stop_token", "stop_token"))).value == 1.0
        assert grade(HALF, Answer("0.5", ("error",))).reason == "error"
