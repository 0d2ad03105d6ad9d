"""The zygote's side of the driver's process: what it is given, what it asks, and when it is done."""

import select
import socket

from rwkv_data.sandbox import driver
from rwkv_data.sandbox.budgets import sleep_for
from rwkv_data.sandbox.watched_guest import WatchedGuest

MOST_CHECKS = 500  # then a new one takes over, whatever this one has piled up


class DriverProcess:
    """A guest that drives one candidate after the other, or only one."""

    def __init__(self, watch: WatchedGuest, clock: socket.socket) -> None:
        self.watch = watch
        self.clock = clock
        self.done = False
        self._checks = 0

    def usable(self) -> bool:
        """Whether the process finished its last check and may serve another."""
        if self.watch.ending == driver.ALIVE and select.select([self.watch.handle], [], [], 0)[0]:
            self.watch.ended()  # killed while nobody needed it
        return self.done and self.watch.ending == driver.ALIVE and self._checks < MOST_CHECKS

    def begin(self, name: str, files: list[int]) -> None:
        """Send a check: the driver's name, and the files for replies, calls, data and result."""
        self.done = False
        self._checks += 1
        socket.send_fds(self.clock, [name.encode()], files)

    def end(self) -> None:
        """Kill the process and close its socket."""
        self.watch.kill(driver.DIED)
        self.clock.close()

    def answer(self, candidate: WatchedGuest) -> None:
        """Act on its next message: it is done, it lost the candidate, or it sets the time limit of the candidate's next
        call."""
        message = self.clock.recv(driver.ALLOW.size)
        if len(message) < driver.ALLOW.size:
            self.watch.settle()  # it closed its end: nothing of use can come any more
            return
        (seconds,) = driver.ALLOW.unpack(message)
        if seconds == driver.DONE:
            self.done = True
        elif seconds == driver.LOST:
            candidate.settle()
            self.clock.send(driver.ENDING.pack(candidate.ending))
        else:
            candidate.allow(seconds, sleep_for(seconds))
