r"""math-verify-v1: mathematical equality of the content of the final box and the reference.

Both are wrapped as `$\boxed{...}$`, because math-verify reads nothing from bare LaTeX. The answer ends where its box
closes; groups whose closing brace the stop token `}\` swallowed are closed again, so `\frac{1}{4` is a quarter.
Comparison is math-verify's strict one: variables keep their names, tuples are no sets. It happens in a child process
(see math_worker): a hang or a crash there is `timeout` or `error`, without a verdict, never a wrong answer.
"""

import contextlib
import json
import os
import selectors
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any, Self

from rwkv_data.benchmark import Answer, Grade, GradeFunction, Grader, Row
from rwkv_data.graders.boxed import inside_box, open_groups

TASK_S = 8.0
START_S = 120.0
RECYCLE_AFTER = 1000


class WorkerGone(Exception):  # noqa: N818  # an event, not a mistake of the caller
    """The child gave no answer: it died or, with `late`, was killed."""

    def __init__(self, message: str, *, late: bool) -> None:
        super().__init__(message)
        self.late = late


class MathWorker:
    """One child process that compares, one task at a time; killed when late, started again, renewed now and then.

    Usable from any thread; calls wait for each other. `versions` names the child's libraries once it has run.
    """

    def __init__(
        self, *, task_s: float = TASK_S, recycle_after: int = RECYCLE_AFTER, argv: tuple[str, ...] | None = None
    ) -> None:
        self.versions: dict[str, str] = {}
        self._task_s = task_s
        self._recycle_after = recycle_after
        self._argv = argv or (sys.executable, "-m", "rwkv_data.graders.math_worker")
        self._lock = threading.Lock()
        self._child: subprocess.Popen[bytes] | None = None
        self._done = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the child."""
        with self._lock:
            self._kill()

    def grade(self, row: Row, answer: Answer) -> Grade:
        """math-verify-v1 on the content of the final box."""
        expected, text = str(row["answer"]), inside_box(answer.text)
        if not text:
            return Grade(0.0, None, expected, "no_answer")
        missing = open_groups(text)
        closed = text + "}" * missing
        detail = f"closed {missing} open group(s)" if missing else ""
        try:
            reply = self.compare(expected, closed)
        except WorkerGone as error:
            return Grade(None, closed, expected, "timeout" if error.late else "error", str(error))
        return _verdict(reply, closed, expected, detail)

    def compare(self, gold: str, answer: str) -> dict[str, Any]:
        r"""Ask the child whether two contents of boxes are equal. Raises WorkerGone."""
        with self._lock:
            if self._done >= self._recycle_after:
                self._kill()
            child = self._child or self._start()
            self._done += 1
            return self._ask(child, [f"\\boxed{{{gold}}}", f"\\boxed{{{answer}}}"])

    def _start(self) -> subprocess.Popen[bytes]:
        # An own session: an interrupt at the terminal is the caller's to handle. A bare environment: no secrets there.
        environment = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "PYTHONHASHSEED": "0"}
        pipe, null = subprocess.PIPE, subprocess.DEVNULL
        try:
            self._child = subprocess.Popen(
                self._argv, stdin=pipe, stdout=pipe, stderr=null, env=environment, start_new_session=True
            )
        except OSError as error:
            raise WorkerGone(f"the maths grader cannot start: {error}", late=False) from error
        self._done = 0
        self.versions = self._read(self._child, START_S).get("ready", {})
        return self._child

    def _ask(self, child: subprocess.Popen[bytes], task: list[str]) -> dict[str, Any]:
        assert child.stdin is not None
        try:
            child.stdin.write(json.dumps(task).encode() + b"\n")
            child.stdin.flush()
        except BrokenPipeError:
            raise self._gone("the maths grader had died", late=False) from None
        return self._read(child, self._task_s)

    def _read(self, child: subprocess.Popen[bytes], limit_s: float) -> dict[str, Any]:
        """The child's next line, or WorkerGone after a hard kill."""
        assert child.stdout is not None
        deadline, line = time.monotonic() + limit_s, b""
        with selectors.DefaultSelector() as selector:
            selector.register(child.stdout, selectors.EVENT_READ)
            while not line.endswith(b"\n"):
                if not selector.select(max(0.0, deadline - time.monotonic())):
                    raise self._gone(f"no verdict within {limit_s:g} s", late=True)
                chunk = os.read(child.stdout.fileno(), 65536)
                if not chunk:
                    raise self._gone("the maths grader died on this answer", late=False)
                line += chunk
        reply: dict[str, Any] = json.loads(line)
        return reply

    def _gone(self, message: str, *, late: bool) -> WorkerGone:
        self._kill()
        return WorkerGone(message, late=late)

    def _kill(self) -> None:
        child, self._child = self._child, None
        if child is None:
            return
        child.kill()
        child.wait()
        for pipe in (child.stdin, child.stdout):
            with contextlib.suppress(BrokenPipeError):  # what was never flushed to a dead child
                if pipe:
                    pipe.close()


def _verdict(reply: dict[str, Any], extracted: str, expected: str, detail: str) -> Grade:
    if "error" in reply:
        return Grade(None, extracted, expected, "error", str(reply["error"]))
    if reply["equal"]:
        return Grade(1.0, extracted, expected, "right", detail)
    return Grade(0.0, extracted, expected, "wrong", detail if reply["read"] else "math-verify reads nothing in it")


@contextlib.contextmanager
def _open() -> Iterator[GradeFunction]:
    with MathWorker() as worker:
        yield worker.grade


# The version names the library's too: other releases give other verdicts (pyproject pins 0.9.*).
GRADER = Grader(name="math-verify-v1", version="1+math-verify-0.9", open=_open)
