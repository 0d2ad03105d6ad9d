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
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from rwkv_data.sandbox import candidate, driver, guest, seccomp
from rwkv_data.sandbox.budgets import DRIVER_LIMITS, RELEASE_SLOT_S
from rwkv_data.sandbox.driver_process import DriverProcess
from rwkv_data.sandbox.processor_waits import ProcessorWaits
from rwkv_data.sandbox.watched_guest import SleepClock, WatchedGuest

MOST_FILES = 8
MOST_REQUEST = 1 << 16
# What answers import most: imported once here, and not by every program. A longer list makes every fork slower.
WARM = (
    *("bisect", "collections", "copy", "ctypes", "functools", "heapq", "itertools", "math", "operator", "random", "re"),
    *("string", "typing"),
)


class CallerGoneError(Exception):
    """The caller has closed its socket."""


class Zygote:
    """Serves one caller, one program at a time."""

    def __init__(self, control: socket.socket, confinement: guest.Confinement, waits: ProcessorWaits) -> None:
        self._control = control
        self._confinement = confinement
        self._clock = SleepClock(waits)
        self._waits = waits
        self._idle: DriverProcess | None = None  # may serve again

    def serve(self) -> None:
        """Answer requests until the caller goes away."""
        for drives in (False, True):
            seccomp.prepared(guest.FIRST, False, drives)
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
        self._clock = SleepClock(self._waits)
        if self._confinement.isolated:
            return run(request, files)
        import tempfile

        with tempfile.TemporaryDirectory(prefix="rwkvctl-unsafe-", ignore_cleanup_errors=True) as folder:
            request["limits"]["folder"] = folder
            return run(request, files)

    def _script(self, request: dict[str, Any], files: list[int]) -> dict[str, Any]:
        """Run a script as one guest with its code, input, output and error files, and return its report."""
        code, standard_input, output, errors = files
        names = candidate.preamble(request["preamble"])
        program = self._start(lambda: candidate.run_script(names), [standard_input, output, errors, code], request)
        self._watch([program])
        return {"guests": [program.report()]}

    def _check(self, request: dict[str, Any], files: list[int]) -> dict[str, Any]:
        """Run a check as two guests, the candidate and the driver that calls it, each with its own files only; return
        their reports."""
        code, data, result = files
        names = candidate.preamble(request["preamble"])
        (calls, call), (reply, replies) = os.pipe(), os.pipe()
        # Its own open file: flags set on a shared one would be seen by the next program.
        nothing = os.open("/dev/null", os.O_RDWR)
        try:
            null = [nothing] * 3
            program = self._start(lambda: candidate.serve_calls(names), [*null, calls, replies, code], request)
            try:
                drives = self._driver(request)
                drives.begin(request["driver"], [reply, call, data, result])
            except BaseException:
                program.kill(driver.DIED)
                raise
        finally:
            for descriptor in (calls, call, reply, replies, nothing):
                os.close(descriptor)
        self._watch([program, drives.watch], drives)
        if drives is not self._idle:
            drives.end()
        return {"guests": [program.report(), drives.watch.report() | {"done": drives.done}]}

    def _start(self, main: Callable[[], None], descriptors: list[int], request: dict[str, Any]) -> WatchedGuest:
        limits = request["limits"]
        pid = guest.start(main, descriptors, limits, self._confinement, workspace=True)
        watch = WatchedGuest(pid)
        watch.grant(limits["cpu_s"], limits["wall_s"], self._clock)
        return watch

    def _driver(self, request: dict[str, Any]) -> DriverProcess:
        """Return the driver's process: one that has served before, if the driver runs nothing but our own code."""
        drives, self._idle = self._idle, None
        if drives and not (request["reuse_driver"] and drives.usable()):
            drives.end()
            drives = None
        if not drives:
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            nothing = os.open("/dev/null", os.O_RDWR)
            try:
                with theirs:
                    kept = [*[nothing] * 3, theirs.fileno()]
                    pid = guest.start(driver.serve, kept, DRIVER_LIMITS, self._confinement)
            finally:
                os.close(nothing)
            drives = DriverProcess(WatchedGuest(pid), ours)
        if request["reuse_driver"]:
            self._idle = drives
        drives.watch.grant(request["driver_cpu_s"], request["driver_wall_s"], self._clock)
        return drives

    def _watch(self, watches: list[WatchedGuest], drives: DriverProcess | None = None) -> None:
        """Wait until the last guest has ended or is done; what is not kept has then ended. Raises CallerGoneError."""
        told_asleep = False
        try:
            while watches[-1].ending == driver.ALIVE and not (drives and drives.done):
                self._wait_for_event(watches, drives)
                if not told_asleep and self._clock.seconds >= RELEASE_SLOT_S:
                    told_asleep = True
                    self._control.send(json.dumps({"asleep": True}).encode())
        finally:
            for watch in watches[:-1]:
                watch.kill(driver.DIED)
            if drives is None or drives is not self._idle or not drives.done:
                watches[-1].kill(driver.DIED)

    def _wait_for_event(self, watches: list[WatchedGuest], drives: DriverProcess | None) -> None:
        """Wait for the next event or deadline, and handle it."""
        self._clock.update(watches)
        wait_s = min((watch.check_deadlines() for watch in watches if watch.ending == driver.ALIVE), default=0.0)
        living = {watch.handle: watch for watch in watches if watch.ending == driver.ALIVE}
        asking = [drives.clock.fileno()] if drives else []
        ready, _, _ = select.select([self._control.fileno(), *asking, *living], [], [], wait_s)
        if self._control.fileno() in ready:
            raise CallerGoneError
        if drives and drives.clock.fileno() in ready:
            drives.answer(watches[0])
        for handle in living.keys() & set(ready):
            living[handle].ended()


def main(control: socket.socket, confinement: guest.Confinement, preload: list[str], waits: ProcessorWaits) -> None:
    """Import what guests need, tell the caller that the zygote is ready, and serve until the caller goes away."""
    for name in [*WARM, *preload]:
        importlib.import_module(name)
    zygote = Zygote(control, confinement, waits)
    control.send(json.dumps({"ready": confinement.isolated}).encode())
    with suppress(CallerGoneError, BrokenPipeError, ConnectionResetError):
        zygote.serve()
