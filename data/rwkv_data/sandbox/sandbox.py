"""The sandbox as its caller sees it: scripts and checks of untrusted code, run by a zygote in another process.

    with Sandbox() as sandbox:
        outcome = sandbox.script("print(input()[::-1])", "abc")
        outcome = sandbox.check("def f(x): return x + 1", "rwkv_data.graders.code.drivers:assertions", {...})

Usable from any thread; calls wait for each other, so open one for each program that shall run side by side. It fails
closed: where the machine cannot isolate, opening it raises SandboxUnavailableError with a sentence that says what is
missing. `run_untrusted_code_unsandboxed` is the operator's own decision to run without isolation all the same.
"""

import contextlib
import fcntl
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Self

from rwkv_data.sandbox.budgets import DRIVER_LIMITS, STARVED_AFTER, sleep_for
from rwkv_data.sandbox.codec import encode
from rwkv_data.sandbox.frames import read_all
from rwkv_data.sandbox.processor_slots import ProcessorSlots
from rwkv_data.sandbox.program import Limits, ProgramOutcome
from rwkv_data.sandbox.program_outcomes import check_outcome, script_outcome
from rwkv_data.sandbox.rerun_disturbed import rerun_if_disturbed

START_S = 60.0
_GRACE_S = 30.0
_MOST_REPLY = 1 << 16
_MEGABYTE = 1 << 20

_SEALS = fcntl.F_SEAL_WRITE | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_SEAL


class SandboxUnavailableError(RuntimeError):
    """This machine cannot isolate untrusted code. The message says what is missing and what helps."""


class _ZygoteGoneError(Exception):
    """The zygote died, or did not answer in time."""


class Sandbox:
    """The caller's side of one zygote, which is started at once and again if it dies."""

    def __init__(
        self,
        limits: Limits | None = None,
        *,
        drivers: Sequence[str] = (),
        slots: ProcessorSlots | None = None,
        run_untrusted_code_unsandboxed: bool = False,
        launcher: tuple[str, ...] = (),
    ) -> None:
        """`drivers`: modules that checks name, imported once. `slots`: the node's pool, of which each program holds one
        while it is at work. Raises SandboxUnavailableError.
        """
        self.limits = limits or Limits()
        self.isolated = not run_untrusted_code_unsandboxed
        self._drivers = tuple(drivers)
        self._slots = slots or ProcessorSlots()
        self._launcher = launcher or _launcher()
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        with self._lock:
            self._start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the zygote and everything in it."""
        with self._lock:
            self._stop()

    def script(
        self, code: str, standard_input: str = "", *, limits: Limits | None = None, preamble: str = ""
    ) -> ProgramOutcome:
        """Run code as a program with an input; the outcome holds its output."""
        limits = limits or self.limits
        request = {"kind": "script", "preamble": preamble}
        most = int(limits.output_mb * _MEGABYTE)

        def once() -> ProgramOutcome:
            with contextlib.ExitStack() as files:
                sealed = [files.enter_context(_sealed(text)) for text in (code, standard_input)]
                output, errors = (files.enter_context(_memory_file()) for _ in range(2))
                reply = self._ask(request, [*sealed, output, errors], limits)
                return script_outcome(reply, limits, read_all(output, most), read_all(errors, most))

        return _surely(once)

    def check(
        self,
        code: str | Sequence[str],
        drive: str,
        data: object,
        *,
        limits: Limits | None = None,
        preamble: str = "",
        driver_cpu_s: float = 30.0,
        reuse_driver: bool = False,
    ) -> ProgramOutcome:
        """Let a driver (`module:function`) test functions of the code. Only the driver's process sees the data.

        Pieces of code are executed one after the other in the same namespace. `reuse_driver`: the driver executes
        nothing that the data holds, so its process may serve the next check too, which is faster.
        """
        limits = limits or self.limits
        wall_s = limits.wall_limit_s + sleep_for(driver_cpu_s)
        request: dict[str, Any] = {"kind": "check", "preamble": preamble, "driver": drive}
        request |= {"driver_cpu_s": driver_cpu_s, "driver_wall_s": wall_s, "reuse_driver": reuse_driver}
        pieces = [code] if isinstance(code, str) else list(code)
        source, encoded = "\0".join(piece.replace("\0", "\\0") for piece in pieces), encode(data)

        def once() -> ProgramOutcome:
            with _sealed(source) as program, _sealed(encoded) as tests, _memory_file() as result:
                reply = self._ask(request, [program, tests, result], limits, driver_s=driver_cpu_s + wall_s)
                return check_outcome(reply, read_all(result, int(DRIVER_LIMITS["output_mb"]) * _MEGABYTE))

        return _surely(once)

    def _ask(
        self, request: dict[str, Any], files: list[int], limits: Limits, *, driver_s: float = 0.0
    ) -> dict[str, Any]:
        """Return the zygote's reply. Raises _ZygoteGoneError; the next request then starts another one."""
        text = json.dumps(request | {"limits": limits.as_json() | {"wall_s": limits.wall_limit_s}}).encode()
        most_s = STARVED_AFTER * (limits.cpu_s + limits.wall_limit_s + driver_s) + _GRACE_S
        with self._lock, self._slots.one() as sleeps:
            try:
                return self._exchange(text, files, most_s, sleeps)
            except (OSError, _ZygoteGoneError) as error:
                self._stop()
                raise _ZygoteGoneError(str(error)) from error

    def _exchange(self, text: bytes, files: list[int], limit_s: float, sleeps: Callable[[], None]) -> dict[str, Any]:
        if self._control is None:
            self._start()
        assert self._control is not None
        self._control.settimeout(limit_s)
        socket.send_fds(self._control, [text], files)
        while "asleep" in (reply := self._receive()):
            sleeps()
        return reply

    def _receive(self) -> dict[str, Any]:
        assert self._control is not None
        text = self._control.recv(_MOST_REPLY)
        if not text:
            raise _ZygoteGoneError("its process ended")
        try:
            reply = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise _ZygoteGoneError("its process says nothing that can be read") from error
        if not isinstance(reply, dict):
            raise _ZygoteGoneError("its process says nothing that can be read")
        return reply

    def _start(self) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            mode = "isolated" if self.isolated else "unsafe"
            null = subprocess.DEVNULL
            # An own session: an interrupt at the terminal is the caller's to handle. A bare environment: no secrets
            # there. Hashes of strings without a seed of their own: the same answer gives the same verdict.
            self._process = subprocess.Popen(
                [*self._launcher, str(theirs.fileno()), mode, *self._drivers],
                stdin=null, stdout=null, stderr=null, pass_fds=[theirs.fileno()], start_new_session=True, cwd="/",
                env={"LANG": "C.UTF-8", "PATH": "/usr/bin:/bin", "HOME": "/tmp", "PYTHONHASHSEED": "0"},  # noqa: S108
            )  # fmt: skip
        ours.settimeout(START_S)
        self._control = ours
        try:
            trouble = self._receive().get("trouble")
        except (OSError, _ZygoteGoneError) as error:
            trouble = f"its process did not start: {error}"
        if trouble:
            self._stop()
            raise SandboxUnavailableError(remedy(trouble))

    def _stop(self) -> None:
        control, self._control = self._control, None
        process, self._process = self._process, None
        if control:
            control.close()
        if process:
            process.kill()
            process.wait()


def _launcher() -> tuple[str, ...]:
    """Return the command of the bare interpreter, without site-packages and the caller's PYTHON* variables."""
    python: str = getattr(sys, "_base_executable", "") or sys.executable
    return (python, "-P", "-s", "-S", "-B", str(Path(__file__).with_name("launcher.py")))


def remedy(trouble: str) -> str:
    """Return the sentence that tells the operator why code cannot be isolated here and which settings help."""
    return (
        f"untrusted code cannot be isolated here: {trouble}. It needs Linux 5.12 or newer on x86-64 or arm64, and "
        "namespaces: run as root with CAP_SYS_ADMIN, or allow user namespaces (sysctl user.max_user_namespaces "
        "above 0, kernel.unprivileged_userns_clone=1, kernel.apparmor_restrict_unprivileged_userns=0); "
        "in a container allow the calls clone, mount and pivot_root (docker: --security-opt seccomp=unconfined "
        "--cap-add SYS_ADMIN)"
    )


@contextlib.contextmanager
def _memory_file(content: bytes = b"") -> Iterator[int]:
    """Yield a file without a name, which is gone when the last process closes it."""
    descriptor = os.memfd_create("rwkvctl", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        with open(descriptor, "wb", closefd=False) as file:  # a descriptor has no path
            file.write(content)
        os.lseek(descriptor, 0, os.SEEK_SET)
        yield descriptor
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _sealed(text: str) -> Iterator[int]:
    """Yield a memory file that nobody can change any more."""
    with _memory_file(text.encode(errors="replace")) as descriptor:
        fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, _SEALS)
        yield descriptor


def _surely(once: Callable[[], ProgramOutcome]) -> ProgramOutcome:
    """Return the outcome of a program. If the zygote dies under it, which may have other causes, the program is run
    once more."""
    try:
        return rerun_if_disturbed(once)
    except _ZygoteGoneError:
        pass
    try:
        return rerun_if_disturbed(once)
    except _ZygoteGoneError as error:
        return ProgramOutcome(status="error", detail=f"the sandbox broke twice: {error}")
