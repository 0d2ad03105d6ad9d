"""The warm process that untrusted programs are forked from. It confines, watches and reaps them; it reads none of them.

Code, input, tests, output and reports pass by it as open files, from the caller to the guest that may have them. So
there is nothing in its memory that a program forked from it could find: neither what is expected nor what others said.
It is process 1 of its namespace: when it goes, every guest goes. It goes when the caller's socket closes.
"""

import gc
import importlib
import json
import os
import select
import signal
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from rwkv_data.sandbox import candidate, driver, guest, kernel, seccomp
from rwkv_data.sandbox.program import wall_for

MOST_FILES = 8
MOST_REQUEST = 1 << 16
LONGEST_NAP_S = 0.25
# What answers import most: imported once here, and not by every program. A longer list makes every fork slower.
WARM = (
    *("bisect", "collections", "copy", "ctypes", "functools", "heapq", "itertools", "math", "operator", "random", "re"),
    *("string", "typing"),
)


class CallerGoneError(Exception):
    """The caller's socket closed."""


@dataclass(slots=True)
class Watch:
    """One guest and its deadlines: processor seconds of its own clock, seconds of the monotonic clock.

    `cpu_limit` is for the whole of it, `cpu_end` at most that: where the present call has to be done.
    """

    pid: int
    cpu_limit: float
    wall_end: float
    ending: int = driver.ALIVE
    status: int = 0
    cpu_s: float = 0.0
    cpu_end: float = field(init=False)
    handle: int = field(init=False)

    def __post_init__(self) -> None:
        self.cpu_end = self.cpu_limit
        self.handle = os.pidfd_open(self.pid)

    def used(self) -> float:
        """Processor seconds so far."""
        if self.ending == driver.ALIVE:
            with suppress(OSError):
                self.cpu_s = kernel.cpu_seconds(self.pid)
        return self.cpu_s

    def look(self) -> float:
        """Kill it if it is over a deadline; seconds until it can be."""
        cpu_left, wall_left = self.cpu_end - self.used(), self.wall_end - time.monotonic()
        if cpu_left <= 0 or wall_left <= 0:
            self.kill(driver.OUT_OF_CPU if cpu_left <= 0 else driver.OUT_OF_WALL)
            return 0.0
        return min(cpu_left, wall_left, LONGEST_NAP_S)

    def kill(self, ending: int) -> None:
        """End it, and every process in its namespace, now."""
        if self.ending == driver.ALIVE:
            self.used()
            self.ending = ending
            signal.pidfd_send_signal(self.handle, signal.SIGKILL)
            self._reap()

    def ended(self) -> None:
        """It ended by itself."""
        if self.ending == driver.ALIVE:
            self.ending = driver.DIED
            self._reap()

    def _reap(self) -> None:
        _, self.status, usage = os.wait4(self.pid, 0)
        self.cpu_s = max(self.cpu_s, usage.ru_utime + usage.ru_stime)
        os.close(self.handle)

    def report(self) -> dict[str, Any]:
        """For the caller. The kernel's own processor limit counts as ours."""
        if self.ending == driver.DIED and os.WIFSIGNALED(self.status) and self.cpu_s >= self.cpu_limit:
            self.ending = driver.OUT_OF_CPU
        return {"ending": self.ending, "status": self.status, "cpu_s": self.cpu_s}


class Zygote:
    """Serves one caller, one program at a time."""

    def __init__(self, control: socket.socket, confinement: guest.Confinement) -> None:
        self._control = control
        self._confinement = confinement
        self._null = os.open("/dev/null", os.O_RDWR)

    def serve(self) -> None:
        """Answer requests until the caller goes away."""
        for may_fork in (False, True):
            seccomp.compiled(guest.FIRST, may_fork=may_fork)
        gc.collect()
        gc.freeze()  # pages shared with the children stay shared
        while True:
            request, files = self._receive()
            try:
                reply = self._run(request, files)
            except (OSError, guest.SetupError) as error:
                reply = {"trouble": str(error)}
            finally:
                for descriptor in files:
                    os.close(descriptor)
            self._control.send(json.dumps(reply).encode())

    def _receive(self) -> tuple[dict[str, Any], list[int]]:
        text, files, _, _ = socket.recv_fds(self._control, MOST_REQUEST, MOST_FILES)
        if not text:
            raise CallerGoneError
        return json.loads(text), files

    def _run(self, request: dict[str, Any], files: list[int]) -> dict[str, Any]:
        run = self._script if request["kind"] == "script" else self._check
        if self._confinement.isolated:
            return run(request, files)
        import tempfile

        with tempfile.TemporaryDirectory(prefix="rwkvctl-unsafe-", ignore_cleanup_errors=True) as folder:
            request["limits"]["folder"] = folder
            return run(request, files)

    def _script(self, request: dict[str, Any], files: list[int]) -> dict[str, Any]:
        """One guest: code, input, output, errors."""
        code, standard_input, output, errors = files
        names = candidate.preamble(request["preamble"])
        program = self._start(lambda: candidate.run_script(names), [standard_input, output, errors, code], request)
        self._watch([program])
        return {"guests": [program.report()]}

    def _check(self, request: dict[str, Any], files: list[int]) -> dict[str, Any]:
        """Two guests: the candidate, and the driver that calls it. Each gets its own files only."""
        code, data, result = files
        drive, names = driver.find(request["driver"]), candidate.preamble(request["preamble"])
        (calls, call), (reply, replies) = os.pipe(), os.pipe()
        clock, driver_clock = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        null = [self._null] * 3
        watches = []
        try:
            watches.append(self._start(lambda: candidate.serve_calls(names), [*null, calls, replies, code], request))
            own = [*null, reply, call, driver_clock.fileno(), data, result]
            watches.append(self._start(lambda: driver.main(drive), own, request, drives=True))
        except BaseException:
            for watch in watches:
                watch.kill(driver.DIED)
            raise
        finally:
            for descriptor in (calls, call, reply, replies):
                os.close(descriptor)
            driver_clock.close()
        with clock:
            self._watch(watches, clock)
        return {"guests": [watch.report() for watch in watches]}

    def _start(
        self, main: Callable[[], None], descriptors: list[int], request: dict[str, Any], *, drives: bool = False
    ) -> Watch:
        limits = dict(request["limits"])
        if drives:
            limits |= {"cpu_s": request["driver_cpu_s"], "processes": 1}
        pid = guest.start(main, descriptors, limits, self._confinement, workspace=not drives)
        wall_s = request["driver_wall_s"] if drives else limits["wall_s"]
        return Watch(pid, limits["cpu_s"], time.monotonic() + wall_s)

    def _watch(self, watches: list[Watch], clock: socket.socket | None = None) -> None:
        """Until the last guest has ended; then none of them is left. Raises CallerGoneError."""
        try:
            while watches[-1].ending == driver.ALIVE:
                clock = self._look(watches, clock)
        finally:
            for watch in watches:
                watch.kill(driver.DIED)

    def _look(self, watches: list[Watch], clock: socket.socket | None) -> socket.socket | None:
        """Wait for the next event or deadline; the driver's clock, unless the driver has closed it."""
        nap = min((watch.look() for watch in watches if watch.ending == driver.ALIVE), default=0.0)
        living = {watch.handle: watch for watch in watches if watch.ending == driver.ALIVE}
        asking = [clock.fileno()] if clock else []
        ready, _, _ = select.select([self._control.fileno(), *asking, *living], [], [], nap)
        if self._control.fileno() in ready:
            raise CallerGoneError
        if clock and clock.fileno() in ready and not _keep_time(clock, watches[0]):
            clock = None
        for handle in living.keys() & set(ready):
            living[handle].ended()
        return clock


def _keep_time(clock: socket.socket, watch: Watch) -> bool:
    """Do what the driver asks about the candidate's time; False once it has nothing more to ask."""
    message = clock.recv(driver.ALLOW.size)
    if len(message) < driver.ALLOW.size:
        return False
    (seconds,) = driver.ALLOW.unpack(message)
    if seconds == driver.LOST:
        _settle(watch)
        clock.send(driver.ENDING.pack(watch.ending))
    else:
        watch.cpu_end = min(watch.used() + seconds, watch.cpu_limit)
        watch.wall_end = time.monotonic() + wall_for(seconds)
    return True


def _settle(watch: Watch) -> None:
    """The driver lost the candidate: it is ending by itself, or else it closed its pipe and is made to end."""
    ended, _, _ = select.select([watch.handle], [], [], 0.5) if watch.ending == driver.ALIVE else ([], [], [])
    if ended:
        watch.ended()
    watch.kill(driver.DIED)


def main(control: socket.socket, confinement: guest.Confinement, preload: list[str]) -> None:
    """Get warm, report for duty, serve."""
    for name in [*WARM, *preload]:
        importlib.import_module(name)
    zygote = Zygote(control, confinement)
    control.send(json.dumps({"ready": confinement.isolated}).encode())
    with suppress(CallerGoneError, BrokenPipeError, ConnectionResetError):
        zygote.serve()
