"""The parent's side of the maths worker: start it, send it tasks, see how it died, and try once more.

An answer that takes more than `cpu_s` seconds of processor time, or makes its worker crash, is tried once more in a
fresh worker with twice the time; if that fails too, the answer is at fault (`Overrun`). A fault of the machine is
`WorkerGone`: a worker that cannot start, that gets no processor time, or that is killed from outside twice (as when the
machine has no memory left). `lanes` decides which worker is asked.
"""

import contextlib
import json
import os
import selectors
import signal
import subprocess
import sys
import threading
import time
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Final, Literal, Protocol, Self

CPU_S = 5.0
STALLED_S = 60.0
RECYCLE_AFTER = 1000
_LOOK_S = 2.0
LEAST_URGENT: Final = 19

# Signals of a crash or of the process's own limits; every other signal comes from outside
_OWN_SIGNALS = {
    *(signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGABRT),
    *(signal.SIGTRAP, signal.SIGSYS, signal.SIGPIPE, signal.SIGXFSZ, signal.SIGPROF, signal.SIGXCPU),
}

Cause = Literal["cpu", "died", "killed", "machine"]


class WorkerGone(Exception):  # noqa: N818  # an event, not a mistake of the caller
    """The child gave no answer.

    `cause`: it had used up its time, it died, it was killed from outside, or the machine is at fault otherwise.
    """

    def __init__(self, message: str, cause: Cause) -> None:
        super().__init__(message)
        self.cause = cause


class Overrun(Exception):  # noqa: N818  # an event, not a mistake of the caller
    """A comparison used too much time or memory twice: the answer (or the reference) is at fault."""


class MathsClient(Protocol):
    """A client of the maths worker: a MathsWorker itself, or the AnswerClient of one answer."""

    def ask(self, do: str, **arguments: Any) -> dict[str, Any]:
        """Return the reply to one task. Raises WorkerGone."""

    def ask_twice(self, do: str, **arguments: Any) -> dict[str, Any]:
        """Return the reply, if need be of a fresh child with more time. Raises Overrun or WorkerGone."""


class MathsWorker:
    """One child process with one task at a time. It is killed when it is too slow, and replaced from time to time.

    Usable from any thread; calls wait for each other. `versions` names the child's libraries once it has run.
    """

    def __init__(
        self,
        *,
        cpu_s: float = CPU_S,
        recycle_after: int = RECYCLE_AFTER,
        argv: tuple[str, ...] | None = None,
        niceness: int = 0,
    ) -> None:
        self.versions: dict[str, str] = {}
        self._cpu_s = cpu_s
        self._niceness = niceness
        self._recycle_after = recycle_after
        self._argv = argv or (sys.executable, "-P", "-s", "-m", "rwkv_data.graders.maths.worker")
        self._lock = threading.Lock()
        self._child: subprocess.Popen[bytes] | None = None
        self._done = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Kill the child process, if there is one; the next task starts another."""
        with self._lock:
            self._kill()

    def start(self) -> None:
        """Start the child process, if there is none. Raises WorkerGone."""
        with self._lock:
            _ = self._child or self._start()

    def ask(self, do: str, *, cpu_s: float = 0.0, fresh: bool = False, **arguments: Any) -> dict[str, Any]:
        """Return the child's reply to one task, with `took_s` processor seconds. `fresh`: in a new child. Raises
        WorkerGone."""
        with self._lock:
            if self._done >= self._recycle_after or (fresh and self._done):
                self._kill()
            child = self._child or self._start()
            self._done += 1
            return self._ask(child, {"do": do, "cpu_s": cpu_s or self._cpu_s, **arguments})

    def ask_twice(self, do: str, **arguments: Any) -> dict[str, Any]:
        """Return the reply, if need be of a fresh child with twice the time. Raises Overrun or WorkerGone."""
        me = contextlib.nullcontext(self)
        return tried_twice((me, self._cpu_s), (me, 2 * self._cpu_s), do, arguments)

    def _start(self) -> subprocess.Popen[bytes]:
        # A session of its own: an interrupt at the terminal is the caller's to handle. A bare environment: no secrets.
        # The hash seed is fixed so that sympy, which walks sets, takes the same path every time.
        paths = os.pathsep.join(str(Path(path).absolute()) for path in sys.path if path)
        environment = {"PYTHONPATH": paths, "PYTHONHASHSEED": "0"}
        pipe, null = subprocess.PIPE, subprocess.DEVNULL
        try:
            self._child = subprocess.Popen(
                self._argv, stdin=pipe, stdout=pipe, stderr=null, env=environment, cwd="/", start_new_session=True
            )
        except OSError as error:
            raise WorkerGone(f"the maths worker cannot start: {error}", "machine") from error
        self._done = 0
        if self._niceness:
            with contextlib.suppress(OSError):  # it has just died
                ours = os.getpriority(os.PRIO_PROCESS, 0)  # a service may be niced as a whole
                os.setpriority(os.PRIO_PROCESS, self._child.pid, min(ours + self._niceness, LEAST_URGENT))
        try:
            self.versions = self._read(self._child).get("ready", {})
        except WorkerGone as error:
            cause: Cause = "killed" if error.cause == "killed" else "machine"
            raise WorkerGone(f"the maths worker cannot start: {error}", cause) from None
        return self._child

    def _ask(self, child: subprocess.Popen[bytes], task: dict[str, Any]) -> dict[str, Any]:
        assert child.stdin is not None
        try:
            child.stdin.write(json.dumps(task).encode() + b"\n")
            child.stdin.flush()
        except BrokenPipeError:
            raise self._gone() from None
        return self._read(child)

    def _read(self, child: subprocess.Popen[bytes]) -> dict[str, Any]:
        """Return the child's next line. While the child gets processor time there is no other limit. Raises
        WorkerGone."""
        assert child.stdout is not None
        line, clock = b"", _Progress(child.pid)
        with selectors.DefaultSelector() as selector:
            selector.register(child.stdout, selectors.EVENT_READ)
            while not line.endswith(b"\n"):
                if not selector.select(_LOOK_S):
                    if clock.stalled():
                        self._kill()
                        raise WorkerGone(f"the maths worker got no processor time for {STALLED_S:g} s", "machine")
                    continue
                chunk = os.read(child.stdout.fileno(), 65536)
                if not chunk:
                    raise self._gone()
                line += chunk
        reply: dict[str, Any] = json.loads(line)
        return reply

    def _gone(self) -> WorkerGone:
        """Return how the child died that has closed its pipe, as an error."""
        child = self._child
        assert child is not None
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(STALLED_S)
        code = child.returncode
        self._kill()
        if code in {-signal.SIGPROF, -signal.SIGXCPU}:
            return WorkerGone("it took more processor time than a comparison may", "cpu")
        if code is not None and code < 0 and -code not in _OWN_SIGNALS:
            return WorkerGone(f"the maths worker was killed from outside (signal {-code})", "killed")
        return WorkerGone(f"the maths worker died on this answer (exit {code})", "died")

    def _kill(self) -> None:
        child, self._child = self._child, None
        if child is None:
            return
        child.kill()
        child.wait()
        for pipe in (child.stdin, child.stdout):
            with contextlib.suppress(BrokenPipeError):  # unflushed data for a dead child
                if pipe:
                    pipe.close()


def tried_twice(
    first: tuple[AbstractContextManager[MathsWorker], float],
    again: tuple[AbstractContextManager[MathsWorker], float],
    do: str,
    arguments: dict[str, Any],
) -> dict[str, Any]:
    """Return the reply of a worker within its seconds, else of a fresh child of another. Raises Overrun or
    WorkerGone."""
    try:
        with first[0] as process:
            return _in_full(process.ask(do, cpu_s=first[1], **arguments))
    except WorkerGone as gone:
        if gone.cause == "machine":
            raise
    with again[0] as process:
        try:
            return _in_full(process.ask(do, cpu_s=again[1], fresh=True, **arguments))
        except WorkerGone as gone:
            if gone.cause in {"killed", "machine"}:
                raise
            raise Overrun(f"tried twice: {gone}") from None


def _in_full(reply: dict[str, Any]) -> dict[str, Any]:
    if "gave_up" in reply:
        raise WorkerGone(f"the maths worker gave up: {reply['gave_up']}", "died")
    return reply


class _Progress:
    """Whether a process still gets processor time."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._used = -1
        self._since = time.monotonic()

    def stalled(self) -> bool:
        """Whether the process has used no processor time for STALLED_S seconds."""
        used = self._ticks()
        if used != self._used:
            self._used, self._since = used, time.monotonic()
        return time.monotonic() - self._since >= STALLED_S

    def _ticks(self) -> int:
        try:
            fields = Path(f"/proc/{self._pid}/stat").read_bytes().rpartition(b")")[2].split()
        except OSError:
            return self._used
        return int(fields[11]) + int(fields[12])
