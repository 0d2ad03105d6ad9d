"""How long processes have waited for a processor, which tells a sleeping process from a starved one.

Only the host's /proc says that, and the zygote has none. So its parent, which stays outside, reads it: the zygote sends
the pidfds of its guests and gets one number back, never a file or folder of the host.
"""

import os
import socket
import struct
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

NEW = b"new"  # begin anew with other guests
ASK = b"ask"
UNKNOWN = -1.0
_MOST_GUESTS = 4
_ANSWER = struct.Struct("d")
_NANOSECOND = 1e-9


class ProcessorWaits:
    """Sums how long some processes have waited for a processor, in seconds, threads that have ended included."""

    def __init__(self) -> None:
        self._of_thread: dict[int, float] = {}

    def begin(self) -> None:
        """Forget what was counted, to start with other processes."""
        self._of_thread.clear()

    def seconds(self, handles: Iterable[int]) -> float:
        """Return the sum so far; UNKNOWN where this kernel keeps no such account, or does not show it."""
        for handle in handles:
            with suppress(ProcessLookupError, FileNotFoundError):  # it has just ended
                for thread in Path(f"/proc/{_process(handle)}/task").iterdir():
                    with suppress(ProcessLookupError, FileNotFoundError, IndexError):
                        self._of_thread[int(thread.name)] = _waited(thread)
        return sum(self._of_thread.values()) if self._of_thread else UNKNOWN


def _process(handle: int) -> int:
    """Return the process id of a pidfd in this process's namespace; -1 if there is none."""
    lines = Path(f"/proc/self/fdinfo/{handle}").read_text(encoding="ascii").split("\n")
    return next((int(line[4:]) for line in lines if line.startswith("Pid:")), -1)


def _waited(thread: Path) -> float:
    return int((thread / "schedstat").read_bytes().split()[1]) * _NANOSECOND


class RemoteProcessorWaits(ProcessorWaits):
    """`ProcessorWaits` that asks the process outside over a socket."""

    def __init__(self, outside: socket.socket) -> None:
        super().__init__()
        self._outside = outside

    def begin(self) -> None:
        self._outside.send(NEW)

    def seconds(self, handles: Iterable[int]) -> float:
        socket.send_fds(self._outside, [ASK], list(handles))
        (seconds,) = _ANSWER.unpack(self._outside.recv(_ANSWER.size))
        return float(seconds)


def serve(zygote: socket.socket) -> None:
    """Answer the zygote's questions about waiting times until its socket closes."""
    waits = ProcessorWaits()
    while True:
        text, handles, _, _ = socket.recv_fds(zygote, len(ASK), _MOST_GUESTS)
        if not text:
            return
        if text == NEW:
            waits.begin()
            continue
        try:
            seconds = waits.seconds(handles)
        except (OSError, ValueError):
            seconds = UNKNOWN
        finally:
            for handle in handles:
                os.close(handle)
        with suppress(OSError):  # it has just gone
            zygote.send(_ANSWER.pack(seconds))
