"""The maths worker: its verdicts, the privileges it gave up, what it refuses, and its failures."""

import json
import os
import subprocess
import sys
import threading
from itertools import pairwise
from pathlib import Path

import pytest
from leftovers import shared
from waiting import LIMIT_S

from rwkv_data.definition import registry
from rwkv_data.definition.answer import Answer
from rwkv_data.graders.extract import of_box
from rwkv_data.graders.maths import grader, minerva_ocw, olympiad
from rwkv_data.graders.maths.grader import MathVerifyGrader, decided
from rwkv_data.graders.maths.maths_worker import MathsWorker, Overrun, WorkerGone

MATRIX = r"\begin{pmatrix}1&2\\3&4\end{pmatrix}X=\begin{pmatrix}5\\6\end{pmatrix}"
HALF = {"question": "Q", "answer": "\\frac{1}{2}"}
FIVE = {"question": "Q", "answer": "x^2+5"}
DIES = "import sys; print('{\"ready\": {}}', flush=True); sys.stdin.readline()"
SPINS = """
import signal, sys
print('{"ready": {}}', flush=True)
sys.stdin.readline()
signal.setitimer(signal.ITIMER_PROF, 0.05)
while True:
    pass
"""
SLEEPS = "import time; print('{\"ready\": {}}', flush=True); time.sleep(600)"
ECHO = """
import json, os, sys
print('{"ready": {}}', flush=True)
for line in sys.stdin:
    reply = {"equal": True, "read": True, "pid": os.getpid(), "environment": dict(os.environ), "task": line}
    print(json.dumps(reply), flush=True)
"""
PAYLOADS = [
    "__import__('os').system('touch MARK')",
    "\\text{__import__('os').system('touch MARK')}",
    "\\mathrm{exec}(\"open('MARK','w')\")",
    "().__class__.__bases__[0].__subclasses__()",
    "\\operatorname{__import__('os').system}('touch MARK')",
    "\\operatorname{open}(MARK)",
    "{__import__('os').system('touch MARK')}",
    "open('MARK', 'w')",
    "\\sum_{n=1}^{\\infty} \\frac{1}{n^2} + __import__('os').system('touch MARK')",
    "x_{__import__('os').system('touch MARK')}",
    "\\operatorname{gcd}(__import__('os'), 2)",
    "f(__import__('os').system('touch MARK'))",
    "\\begin{pmatrix} __import__('os').system('touch MARK') \\end{pmatrix}",
    "\\frac{exec('import os')}{eval('1')}",
    "1+2*__import__('os').getpid()",
    "٣+١",
    "lambda: 1",
    "\\int_{0}^{1} __builtins__ dx",
    "\\lim_{x \\to eval('1')} x",
    "\\variable{__import__('os')}",
    "\\sqrt[__import__('os')]{2}",
    "{'a': 1}.keys()",
    "5\x00; import os",
]


def test_a_module_without_bytecode_can_be_imported_late(tmp_path: Path) -> None:
    """Packages installed by uv and `pip --no-compile` have no bytecode: writing it is refused, which broke the
    import."""
    (tmp_path / "late.py").write_text("said = 'imported'\n")
    code = (
        "from rwkv_data.graders.maths.worker import no_evaluation; no_evaluation.install(); "
        "import late; print(late.said)"
    )
    environment = {name: text for name, text in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    found = subprocess.run(
        [sys.executable, "-c", code], env=environment | {"PYTHONPATH": str(tmp_path)},
        capture_output=True, text=True, check=False, timeout=LIMIT_S,
    )  # fmt: skip
    assert (found.stdout, found.returncode) == ("imported\n", 0), found.stderr
    assert not (tmp_path / "__pycache__").exists()


@pytest.fixture(scope="module")
def worker():
    with shared("rwkv_data.graders.maths.worker"), MathVerifyGrader(cpu_s=20) as opened:
        yield opened


@pytest.mark.parametrize(
    ("gold", "answer", "value"),
    [
        ("\\frac{1}{2}", "0.5", 1),
        ("\\frac{1}{2}", "\\dfrac{2}{4}", 1),
        ("\\frac{1}{2}", "\\frac{1}{2", 1),
        ("\\frac{1}{2}", "2", 0),
        ("6-5i", "5", 0),
        ("6-5i", "-5i+6", 1),
        ("2+2i", "2+2 i", 1),
        ("\\sqrt{7}", "7", 0),
        ("\\sqrt{8}", "2\\sqrt{2}", 1),
        ("10{,}000", "10000", 1),
        ("10,\\!080", "10080", 1),
        ("x^2", "y^2", 0),
        ("x=5", "5", 1),
        ("(1,2)", "(2,1)", 0),
        ("(1,2]", "(1,2)", 0),
        ("[0,\\infty)", "[0, +\\infty)", 1),
        ("1,2,3", "3,2,1", 1),
        ("1,2,3", "1,2", 0),
        ("\\{x|-2\\leq x < 1\\}", "[-2,1)", 1),
        ("\\text{Evelyn}", "Evelyn", 1),
        ("\\text{(C)}", "C", 1),
        ("\\text{east}", "seat", 0),
        ("\\begin{pmatrix} 1 \\\\ 2 \\end{pmatrix}", "\\begin{pmatrix}1\\\\2\\end{pmatrix}", 1),
        ("\\begin{pmatrix} 1 \\\\ 2 \\end{pmatrix}", "\\begin{pmatrix}2\\\\1\\end{pmatrix}", 0),
        ("50\\%", "50", 1),
        ("90^\\circ", "90", 1),
        ("5", "5.", 1),
        (".5", "\\frac12", 1),
        ("5", "6 \\foo 5", 0),
        ("\\sum_{n=1}^{\\infty} \\frac{1}{n^2}", "\\frac{\\pi^2}{6}", 1),
        ("x^5-x-1=0", "x^5=x+1", 1),
        ("5", "\x00", 0),
    ],
)
def test_verdicts(worker, gold: str, answer: str, value: int) -> None:
    grade = worker.grade({"question": "Q", "answer": gold}, Answer(answer))
    assert (grade.value, grade.expected) == (value, gold), grade


@pytest.mark.parametrize(
    ("gold", "answer", "value"),
    [
        ("I=3t", "I=4t", 0),
        ("I=3t", "I = 3 t", 1),
        ("x^2+3x+2=0", "x^2+4x+2=0", 0),
        ("x^2+3x+2=0", "2x^2+6x+4=0", 1),
        ("12_3", "12_4", 0),
        ("12_3", "12_{3}", 1),
        ("12_3", "12", 1),
        ("50\\%", "0.5\\%", 0),
        ("50\\%", "0.5", 1),
        ("50\\%", "5000\\%", 0),
        ("0.5", "0.5\\%", 0),
        ("5\\text{ cm}", "5\\text{ m}", 0),
        ("5\\text{ cm}", "5\\text{ kg}", 0),
        ("3\\sqrt{2}\\text{ cm}", "3\\sqrt{2}\\text{ m}", 0),
        ("0.0000001", "0.0000002", 0),
        ("[2,5)", "2 \\le x < 5", 1),
        ("[2,5)", "2 < x < 5", 0),
        ("[2,5)", "2 \\leq x \\leq 5", 0),
        ("2 \\le x < 5", "[2,5)", 1),
        ("(2,\\infty)", "x>2", 1),
        ("(2,\\infty)", "x \\ge 2", 0),
        ("(-\\infty,1)\\cup(3,\\infty)", "x<1 \\text{ or } x>3", 1),
        ("(-\\infty,1)\\cup(3,\\infty)", "x<1 \\text{ or } x>4", 0),
        ("3", "2 \\text{ or } 3", 0),
        ("3", "x=2 \\text{ or } x=3", 0),
        ("3", "2, 3", 0),
        ("3", "x=2, x=3", 0),
        ("3", "\\{2,3\\}", 0),
        ("3", "\\text{all real numbers except } 3", 0),
        ("10", "\\text{not } 10", 0),
        ("x+1", "x+1 \\text{ or } x-1", 0),
        ("x+1", "x-1 \\text{ or } x+1", 0),
        ("x+1", "x+1, x-1", 0),
        ("\\frac{1}{2}", "\\frac{1}{3} \\text{ or } \\frac{1}{2}", 0),
        ("\\frac{1}{2}", "\\text{not } \\frac12", 0),
        ("\\frac{1}{2}", "\\neq \\frac12", 0),
        ("(1,2)", "[1,2]", 0),
        ("(1,2)", "\\{1,2\\}", 0),
        ("\\{1,2\\}", "(1,2)", 0),
        ("\\{1,2\\}", "1,2", 1),
        ("(1,2)", "1,2", 1),
        ("(1,2,3)", "(3,2,1)", 0),
        ("(1,2,3)", "[1,2,3]", 1),
        ("(1,2,3)", "\\{1,2,3\\}", 0),
        ("1,234,567", "1\\,234\\,567", 1),
        ("3.5", "3.5 \\text{ pints}", 1),
        ("6.6", "6.6 centimeters", 1),
        ("3.50", "3.50 \\text{ dollars}", 1),
        ("12.5", "12.5\\%", 1),
        ("0.67", "\\frac{2}{3}", 1),
        ("1.414", "\\sqrt{2}", 1),
        ("\\pm 3", "3", 0),
        ("\\pm 3", "3,-3", 1),
        ("3", "\\pm 3", 0),
        ("\\frac{1}{2}", "\\pm\\frac12", 0),
        ("3x+4y=5", "3x+4y=6", 0),
        ("3x+4y=5", "6x+8y=10", 1),
        ("y=2x+1", "2x-y+1=0", 1),
        ("120^\\circ", "120 \\text{ radians}", 0),
        ("5 \\text{ hours}", "5 \\text{ minutes}", 0),
        ("0.\\overline{3}", "0.3", 0),
        ("0.\\overline{3}", "\\frac13", 1),
        ("x^2+x+1=0", "x^2+2x+5=0", 0),
        ("I=3t", "I=3", 0),
        ("5am", "5pm", 0),
        ("6,6,7", "6,7,7", 0),
        ("6,6,7", "7,6,6", 1),
        ("(5,\\infty)", "(5,\\infty]", 0),
        ("T_{\\text{eff}}+3", "T_{\\text{eff}}+4", 0),
        ("T_{\\text{eff}}+3", "3+T_{eff}", 1),
        ("\\lambda_{\\text{red}}/\\sqrt{2}", "\\lambda_{\\text{red}}/\\sqrt{3}", 0),
        ("\\frac{4^{2024}}{\\binom{4048}{2024}}-2", "\\frac{5^{2024}}{\\binom{4048}{2024}}-2", 0),
        ("5\\text{ cm}", "0.05\\text{ m}", 1),
        ("5\\text{ cm}", "5 centimeters", 1),
        ("5\\text{ cm}", "5", 1),
        ("5\\text{ cm}^2", "5\\text{ cm}^3", 0),
        ("300\\text{ minutes}", "5 hours", 1),
        ("35\\%", "\\frac{7}{20}", 1),
        ("m\\frac{dv}{dt}+bv=f", "k\\frac{dv}{dt}+bv=f", 0),
        ("2\\pi\\text{ cm}", "2\\pi\\text{ m}", 0),
        ("3", "3 \\text{ or more}", 0),
        ("25^\\circ\\text{C}", "25^\\circ", 1),
        ("25^\\circ", "25^\\circ\\text{C}", 1),
        ("25^\\circ\\text{C}", "25 \\text{ degrees Celsius}", 1),
        ("25^\\circ\\text{C}", "25^\\circ\\text{F}", 0),
        ("\\frac{270}7\\text{ degrees}", "\\frac{371}7\\text{ degrees}", 0),
        ("45\\text{ units}^2", "45\\text{ units}^3", 0),
        ("144\\mbox{ m}^3", "144\\mbox{ m}^4", 0),
        ("37^\\circ C", "37 C", 1),
        ("37 C", "37^\\circ C", 1),
        ("6m^4", "2m^2 \\cdot 3m^2", 1),
        ("6m^4", "2m^2 \\cdot 3m^3", 0),
        ("\\mathrm{e}^2+\\mathrm{e}^3", "\\mathrm{e}^3+\\mathrm{e}^2", 1),
        ("3", "\\frac123", 0),
        ("5", "\\frac{1}25", 0),
        ("-221_3", "-221_4", 0),
        ("0.0011_2", "0.0011_3", 0),
        ("0.25\\,\\text{ cm}", "0.25\\,\\text{ cm} \\text{ or } 7", 0),
        ("33.33\\%", "\\frac{1}{3}", 1),
        (MATRIX, MATRIX.replace("6", "7"), 0),
        (MATRIX, "\\begin{pmatrix}5\\\\6\\end{pmatrix}=\\begin{pmatrix}1&2\\\\3&4\\end{pmatrix}X", 1),
    ],
)
def test_what_math_verify_alone_gets_wrong(worker, gold: str, answer: str, value: int) -> None:
    grade = worker.grade({"question": "Q", "answer": gold}, Answer(answer))
    assert grade.value == value, grade


def test_a_rounded_reference_is_said(worker) -> None:
    for gold, answer in (
        ("1.414", "\\sqrt{2}"), ("0.6667", "\\frac{2}{3}"), ("0.6667", "0.66667"), ("12.5", "12.49\\%"),
        ("0.6667", "\\text{about } 2/3 \\text{ pints}"), ("2.5\\text{ cm}", "2.49\\text{ cm}"),
    ):  # fmt: skip
        grade = worker.grade({"question": "Q", "answer": gold}, Answer(answer))
        assert (grade.value, grade.route) == (1.0, "boxed, rounded"), grade
    assert worker.grade({"question": "Q", "answer": "0.5"}, Answer("1/2")).route == "boxed"


@pytest.mark.parametrize("payload", PAYLOADS)
def test_nothing_of_a_text_is_evaluated(worker, tmp_path, payload: str) -> None:
    """No payload is right, none leaves a mark, and the worker that read it goes on."""
    mark = tmp_path / "mark"
    tmp_path.chmod(0o777)
    text = payload.replace("MARK", str(mark))
    for gold in ("7", "x^2+5", "\\frac{1}{2}"):
        assert worker.grade({"question": "Q", "answer": gold}, Answer(text)).value == 0.0
    for task in ("minerva_equal", "qwen_equal"):
        assert worker.ask(task, first=text, second="x^2+5")["equal"] is False
    assert worker.ask("verified", gold="$x^2+5$", completion=f"The answer is ${text}$, or {text}")["equal"] is False
    assert not mark.exists()
    assert worker.grade(HALF, Answer("0.5")).value == 1.0


GIVEN_UP = """
import json, os, sys, socket
from rwkv_data.graders.maths.worker.__main__ import confine
secluded = confine()
def attempt(do):
    try:
        do()
    except BaseException as error:
        return type(error).__name__
    return "done"
print(json.dumps({
    "secluded": secluded,
    "eval": attempt(lambda: eval("1+1")),
    "exec": attempt(lambda: exec("x = 1")),
    "compile": attempt(lambda: compile("1", "<text>", "eval")),
    "system": attempt(lambda: os.system("true")),
    "fork": attempt(os.fork),
    "spawn": attempt(lambda: os.posix_spawn("/bin/true", ["true"], {})),
    "write": attempt(lambda: open("/tmp/mark", "w")),
    "socket": attempt(socket.socket),
    "parse": attempt(lambda: __import__("sympy").sympify("1+1")),
    "lambdify": attempt(lambda: __import__("sympy").lambdify([], "1")),
    "read": attempt(lambda: open(os.__file__).close()),
    "status": open("/proc/self/status").read(),
    "net": open("/proc/self/net/dev").read(),
    "environment": dict(os.environ),
    "cwd": os.getcwd(),
}))
"""


def test_what_the_worker_has_given_up() -> None:
    import subprocess  # the test's own child: the worker's steps, then a look around

    paths = os.pathsep.join(str(Path(path).absolute()) for path in sys.path if path)
    ran = subprocess.run(
        [sys.executable, "-c", GIVEN_UP],
        capture_output=True,
        text=True,
        env={"PYTHONPATH": paths},
        check=True,
    )
    left = json.loads(ran.stdout.splitlines()[-1])
    refused = ("eval", "exec", "compile", "system", "fork", "spawn", "write", "socket", "lambdify")
    assert {name: left[name] for name in refused} == dict.fromkeys(refused, "EvaluationRefused")
    assert left["parse"] == "SympifyError"
    assert left["read"] == "done"
    assert left["environment"] == {}
    assert left["cwd"] == "/"
    status = dict(line.split(":", 1) for line in left["status"].splitlines() if ":" in line)
    assert status["NoNewPrivs"].strip() == "1"
    if left["secluded"]:
        loopback_only = {line.split(":")[0].strip() for line in left["net"].splitlines()[2:]}
        assert loopback_only <= {"lo"}


def test_nothing_in_the_box_needs_no_process() -> None:
    with MathVerifyGrader(argv=("/does/not/exist",)) as worker:
        assert worker.grade(HALF, Answer("}\\)")).reason == "no_answer"
        assert worker.grade(HALF, Answer("\\dfrac{1}{2}")).value == 1.0


@pytest.mark.parametrize("bomb", ["3^{3*10^8}", pytest.param("\\binom{10^7}{5*10^6}", marks=pytest.mark.slow("golds"))])
def test_a_hang_is_tried_twice_and_counts_as_wrong(bomb: str) -> None:
    with MathVerifyGrader(cpu_s=0.2) as worker:
        grade = worker.grade(FIVE, Answer(bomb))
        assert (grade.value, grade.reason) == (0.0, "timeout"), grade
        assert "tried twice" in grade.detail
        assert worker.grade(FIVE, Answer("5+x^2")).value == 1.0


@pytest.mark.slow("golds")
def test_a_reference_that_is_too_slow_is_no_wrong_answer() -> None:
    with MathVerifyGrader(cpu_s=0.2) as worker:
        grade = worker.grade({"question": "Q", "answer": "3^{3*10^8}"}, Answer("x^2"))
        assert (grade.value, grade.reason) == (None, "error")
        assert "the reference alone" in grade.detail


@pytest.mark.slow("golds")
@pytest.mark.parametrize("text", ["(" * 5000, "{" * 5000, "9" * 5000, "\\frac{1}{" * 300])
def test_deep_or_long_answers_are_wrong_one_way_or_another(text: str) -> None:
    with MathVerifyGrader(cpu_s=1.0) as worker:
        grade = worker.grade(FIVE, Answer(text))
        assert (grade.value, grade.reason) in {(0.0, "wrong"), (0.0, "timeout")}, grade
        assert worker.grade(FIVE, Answer("5+x^2")).value == 1.0


@pytest.mark.parametrize(("program", "cause"), [(DIES, "died"), (SPINS, "cpu")])
def test_a_child_that_ends_twice_is_the_answers_fault(program: str, cause: str) -> None:
    with MathsWorker(argv=(sys.executable, "-c", program)) as process:
        with pytest.raises(WorkerGone) as gone:
            process.ask("equal")
        assert gone.value.cause == cause
        with pytest.raises(Overrun):
            process.ask_twice("equal")


KILLED = """
import json, os, signal, sys
print('{"ready": {}}', flush=True)
sys.stdin.readline()
marks = sys.argv[2:]
if not marks or not os.path.exists(marks[0]):
    for mark in marks:
        open(mark, "w").close()
    os.kill(os.getpid(), getattr(signal, sys.argv[1]))
print(json.dumps({"equal": True}), flush=True)
"""


@pytest.mark.parametrize("name", ["SIGKILL", "SIGTERM", "SIGHUP"])
def test_a_child_killed_from_outside_is_tried_again_and_is_no_verdict(name: str, tmp_path: Path) -> None:
    once = (sys.executable, "-c", KILLED, name, str(tmp_path / "killed"))
    with MathsWorker(argv=once) as process:
        assert process.ask_twice("equal") == {"equal": True}
    always = (sys.executable, "-c", KILLED, name)
    with MathsWorker(argv=always) as process, pytest.raises(WorkerGone, match="killed from outside") as gone:
        process.ask_twice("equal")
    assert gone.value.cause == "killed"
    with MathVerifyGrader(argv=always) as worker:
        grade = worker.grade(FIVE, Answer("5x"))
    assert (grade.value, grade.reason) == (None, "error"), grade


def test_a_grade_of_a_crash_counts_as_wrong_unless_the_reference_crashes_too() -> None:
    with MathVerifyGrader(argv=(sys.executable, "-c", DIES)) as worker:
        grade = worker.grade(FIVE, Answer("5x"))
        assert (grade.value, grade.reason) == (None, "error")
        assert "the reference alone" in grade.detail

    def crashes(*_: object) -> tuple[bool, str]:
        raise Overrun("tried twice: it died")

    with MathVerifyGrader() as worker:
        grade = decided(crashes, worker, FIVE, of_box("5x"))
    assert (grade.value, grade.reason, grade.extracted) == (0.0, "timeout", "5x")


def test_a_child_that_only_waits_is_the_machines_fault(monkeypatch) -> None:
    monkeypatch.setattr("rwkv_data.graders.maths.maths_worker.STALLED_S", 0.5)
    monkeypatch.setattr("rwkv_data.graders.maths.maths_worker._LOOK_S", 0.1)
    with MathVerifyGrader(argv=(sys.executable, "-c", SLEEPS)) as worker:
        grade = worker.grade(FIVE, Answer("5x"))
        assert (grade.value, grade.reason) == (None, "error")
        assert "no processor time" in grade.detail


@pytest.mark.parametrize("argv", [(sys.executable, "-c", "raise SystemExit(1)"), ("/does/not/exist",)])
def test_a_child_that_cannot_start_is_no_wrong_answer(argv: tuple[str, ...]) -> None:
    with MathVerifyGrader(argv=argv) as worker:
        grade = worker.grade(FIVE, Answer("5x"))
        assert (grade.value, grade.reason) == (None, "error")
        assert "cannot start" in grade.detail


def test_memory_files_and_processes_are_limited(worker) -> None:
    worker.compare("1", "1")
    limits = {line[:25].strip(): line[26:].split() for line in _limits_of(worker)}
    assert limits["Max address space"][0] == str(2 * 1024**3)
    for name in ("Max file size", "Max core file size", "Max processes"):
        assert limits[name][0] == "0"
    assert limits["Max open files"][0] == "64"
    assert set(worker.versions) == {"math-verify", "latex2sympy2_extended", "sympy"}


def _limits_of(worker: MathVerifyGrader) -> list[str]:
    return Path(f"/proc/{worker._child.pid}/limits").read_text().splitlines()[1:]


def test_the_child_is_renewed_and_sees_no_secrets(monkeypatch) -> None:
    monkeypatch.setenv("JUDGE_API_KEY", "secret")
    with MathVerifyGrader(argv=(sys.executable, "-c", ECHO), recycle_after=2, cpu_s=7) as worker:
        replies = [worker.compare("1", "1") for _ in range(5)]
    pids = [reply["pid"] for reply in replies]
    assert [a == b for a, b in pairwise(pids)] == [True, False, True, False]
    assert set(replies[0]["environment"]) - {"LC_CTYPE"} == {"PYTHONPATH", "PYTHONHASHSEED"}
    assert json.loads(replies[0]["task"])["cpu_s"] == 7


def test_several_threads_share_one_child(worker) -> None:
    grades = []
    threads = [
        threading.Thread(target=lambda n=n: grades.append((n, worker.grade(FIVE, Answer(f"{n}+x^2")).value)))
        for n in range(4, 8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(grades) == [(4, 0.0), (5, 1.0), (6, 0.0), (7, 0.0)]


def test_several_functions_are_open_side_by_side() -> None:
    assert grader.GRADER.workers > 1
    with grader.GRADER.open() as one, grader.GRADER.open(cpu_s=9.0) as other:
        assert one(HALF, Answer("0.5")).value == other(HALF, Answer("2/4")).value == 1.0


def test_closing_ends_the_child() -> None:
    with MathVerifyGrader(argv=(sys.executable, "-c", ECHO)) as worker:
        pid = worker.compare("1", "1")["pid"]
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_a_kind_opens_and_closes_its_grader() -> None:
    kind = registry.load("math_500").default_kind
    with kind.grading() as grade:
        assert grade(HALF, Answer("0.5", ("stop_token", "stop_token"))).value == 1.0
        assert grade(HALF, Answer("0.5", ("error",))).reason == "error"


@pytest.mark.parametrize(
    ("row", "answer", "value"),
    [
        ({"answer": "1,3,5", "multiple": True}, "5, 3 and 1", 1),
        ({"answer": "1,3,5", "multiple": True}, "5, 3", 0),
        ({"answer": "1,3,5", "multiple": True}, "1,3,5,7", 0),
        ({"answer": "$\\frac{1}{3},1,\\frac{1}{9}$", "multiple": True}, "1, 1/9, 1/3", 1),
        ({"answer": "$(3,2),(-3,2)$", "multiple": True}, "(-3, 2), (3, 2)", 1),
        ({"answer": "$(3,2),(-3,2)$", "multiple": True}, "(2,-3), (3, 2)", 0),
        ({"answer": "$a=2$, $a=-6-4 \\sqrt{2}$", "multiple": True}, "-6-4\\sqrt{2}, 2", 1),
        ({"answer": "$0, \\pm i \\sqrt{6}$", "multiple": True}, "-i\\sqrt{6}, 0, i\\sqrt{6}", 1),
        ({"answer": "4.2", "tolerance": "1e-1", "unit": "%"}, "4.25\\%", 1),
        ({"answer": "4.2", "tolerance": "1e-1"}, "\\frac{21}{5}", 1),
        ({"answer": "4.2", "tolerance": "1e-1"}, "4.31", 0),
        ({"answer": "$90^{\\circ}$,$60^{\\circ}$", "multiple": True, "unit": None}, "60^\\circ, 90^\\circ", 1),
        ({"answer": "45", "unit": "minute"}, "45 minutes", 1),
        ({"answer": "$f(x)=2 x$"}, "2x", 1),
        ({"answer": "0.5"}, "50", 0),
    ],
)
def test_lists_units_and_tolerances(worker, row: dict[str, object], answer: str, value: int) -> None:
    grade = decided(olympiad.compare, worker, row, of_box(answer))
    assert grade.value == value, grade


@pytest.mark.parametrize(
    ("gold", "answer", "value"),
    [
        ("4.5e33", "4.5 \\times 10^{33} \\text{ erg/s}", 1),
        ("4.5e33", "4.5 \\times 10^{32}", 0),
        ("1.6", "\\frac{8}{5}", 1),
        ("1.6", "1.62", 0),
        ("-1./3", "-\\frac{1}{3}", 1),
        ("np.arcsin(10/13)", "\\arcsin(\\frac{10}{13})", 1),
        ("8", "8.5", 0),
        ("0", "0", 1),
        ("0", "0.001", 0),
        ("e^{t} / 3", "\\frac{e^t}{3}", 1),
        ("1.6", "__import__('os').getpid()", 0),
    ],
)
def test_quantities(worker, gold: str, answer: str, value: int) -> None:
    grade = decided(minerva_ocw.compare, worker, {"answer": gold}, of_box(answer))
    assert grade.value == value, grade
