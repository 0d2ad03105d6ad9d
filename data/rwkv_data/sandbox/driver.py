"""The process that tests an answer without running a line of it: it calls the answer's functions in another process.

A driver is a function of ours (`module:name`, imported by the zygote when it starts) that gets a Candidate and the
data of the test, and returns a report that JSON can hold. What the candidate returns has passed through the codec: it
is plain data, so it cannot pretend to be equal to something, and nothing the answer replaces, patches or leaves behind
is here. The report goes to the caller through a file that only this process has. Were a candidate to send so much or
such data that this process dies, there is no report, and that is no pass.
"""

import importlib
import json
import os
import socket
import struct
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NoReturn

from rwkv_data.sandbox.codec import UnreadableError, decode, encode
from rwkv_data.sandbox.frames import BrokenFrameError, read_all, read_exactly, read_frame, write_frame

CLOCK, REPLIES, CALLS, DATA, RESULT = 3, 14, 15, 16, 17
MOST_NAME = 200
MOST_REPLY_BYTES = 1 << 26

# To the zygote: the next call may take so many processor seconds; or: what has become of the candidate? The answer to
# that is an ENDING. Or: the report is written.
ALLOW = struct.Struct("d")
LOST, DONE = -1.0, -2.0
ENDING = struct.Struct("B")
ALIVE, OUT_OF_CPU, OUT_OF_WALL, DIED, KILLED_OUTSIDE, STARVED = range(6)
_ENDINGS = {
    OUT_OF_CPU: ("timeout", "out of processor time"),
    OUT_OF_WALL: ("timeout", "out of time, asleep"),
    DIED: ("killed", "the process ended"),
    KILLED_OUTSIDE: ("lost", "killed from outside the sandbox"),
    STARVED: ("lost", "the machine gave it hardly any processor time"),
}
# Calls that may be under way at once: as many as surely fit into a pipe, so that writing them never has to wait
_MOST_WAITING, _PIPE_BYTES = 256, 1 << 15
# The zygote hears of the next call at most so often: that much more than its limit a call can take
_TELL_EVERY_S = 0.02

Driver = Callable[["Candidate", Any], Mapping[str, Any]]


class CallFailedError(BaseException):
    """A call gave no value: `kind` is `raised`, `timeout`, `memory`, `killed` or `lost`.

    No Exception: a test that catches Exception must not take a dead candidate for one that raised.
    """

    def __init__(self, kind: str, name: str, text: str) -> None:
        super().__init__(f"{name}: {text}" if text else name)
        self.kind, self.name, self.text = kind, name, text


class Candidate:
    """The answer under test, which runs in its own process.

    `failure` is what ended it for good; from then on every call fails with it. `seconds` is the processor time that the
    last call took, by its own account: good for a reference solution, worth nothing from an answer.
    """

    def __init__(self) -> None:
        self.seconds = 0.0
        self.failure: CallFailedError | None = None
        self.starved = False
        self._limit_s, self._told = 0.0, 0.0

    def load(self) -> None:
        """Wait until the candidate's code has been executed. Raises CallFailedError if it fails."""
        self._value(self._reply())

    def call(self, name: str, arguments: Sequence[object], keywords: Mapping[str, object]) -> Any:
        """Return the value of one call. Raises CallFailedError if there is none."""
        self._send(f"{name}\n{encode((tuple(arguments), dict(keywords)))}".encode())
        return decode_reply(self._value(self._reply()))

    def calls(self, name: str, arguments: Sequence[str], limits_s: Sequence[float] = ()) -> Iterator[bytes]:
        """The values (text of the codec) of many calls of one function, each within a limit of processor seconds.

        The next ones are on their way while a value is looked at. Before the name, `#` lets a huge value come as its
        digest. Raises CallFailedError for the call that failed.
        """
        waiting: deque[int] = deque()
        sent = 0
        for number in range(len(arguments)):
            if limits_s:
                self._allow(limits_s[number])
            while sent < len(arguments) and _fits(waiting, len(name) + len(arguments[sent])):
                request = f"{name}\n{arguments[sent]}".encode()
                self._send(request)
                waiting.append(len(request))
                sent += 1
            waiting.popleft()
            yield self._value(self._reply())

    def _allow(self, limit_s: float) -> None:
        """Tell the zygote the time limit of the next call."""
        now = time.monotonic()
        if limit_s != self._limit_s or now - self._told > _TELL_EVERY_S:
            self._limit_s, self._told = limit_s, now
            os.write(CLOCK, ALLOW.pack(limit_s))

    def _send(self, request: bytes) -> None:
        if self.failure:
            raise self.failure
        try:
            write_frame(CALLS, request)
        except BrokenFrameError as error:
            raise self._lost(str(error)) from None

    def _reply(self) -> bytes:
        try:
            return read_frame(REPLIES, MOST_REPLY_BYTES)
        except BrokenFrameError as error:
            raise self._lost(str(error)) from None

    def _lost(self, text: str) -> CallFailedError:
        os.write(CLOCK, ALLOW.pack(LOST))
        (ending,) = ENDING.unpack(read_exactly(CLOCK, ENDING.size))
        self.starved = ending == OUT_OF_WALL
        kind, why = _ENDINGS.get(ending, ("killed", text))
        self.failure = CallFailedError(kind, why, "")
        return self.failure

    def _value(self, reply: bytes) -> bytes:
        head, _, text = reply.partition(b"\n")
        if reply[:1] == b"+":
            self.seconds = _seconds(head[1:])
            return text
        name = head[1:].decode(errors="replace") or "nothing"
        raise CallFailedError("memory" if name == "MemoryError" else "raised", name, text.decode(errors="replace"))


def _fits(waiting: deque[int], size: int) -> bool:
    """Whether one more request can be written without waiting for the candidate; one alone always may."""
    return not waiting or (len(waiting) < _MOST_WAITING and sum(waiting) + len(waiting) * 4 + size < _PIPE_BYTES)


def _seconds(text: bytes) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0


def decode_reply(text: bytes) -> Any:
    """Return the value of a reply. Raises CallFailedError if it says that the call failed."""
    try:
        return decode(text)
    except (UnreadableError, MemoryError) as error:
        raise CallFailedError("raised", "unreadable value", str(error)) from None


def find(name: str) -> Driver:
    """Import and return the driver that `module:function` names."""
    module, _, function = name.partition(":")
    found: Driver = getattr(importlib.import_module(module), function)
    return found


def serve() -> NoReturn:
    """Drive one candidate after the other until the zygote sends no more."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET, 0, fileno=CLOCK) as clock:
        while True:
            name, files, _, _ = socket.recv_fds(clock, MOST_NAME, 4)
            if not name:
                os._exit(0)
            for place, descriptor in zip((REPLIES, CALLS, DATA, RESULT), files, strict=True):
                os.dup2(descriptor, place)
                os.close(descriptor)
            drive(find(name.decode()))
            for place in (REPLIES, CALLS, DATA, RESULT):
                os.close(place)
            os.write(CLOCK, ALLOW.pack(DONE))


def drive(driver: Driver) -> None:
    """Run a driver and write its report."""
    candidate = Candidate()
    try:
        data = decode(read_all(DATA))
        candidate.load()
        report = dict(driver(candidate, data))
    except CallFailedError as failed:
        report = {"failed": failed.kind, "detail": str(failed)}
    except MemoryError:  # only a candidate's value can be so large
        report = {"failed": "memory", "detail": "its value is too large to compare"}
    except Exception:  # noqa: BLE001  # a fault of the test or of ours, told to the caller
        import traceback

        report = {"trouble": traceback.format_exc(limit=-4)[-2000:]}
    report["starved"] = candidate.starved
    text = json.dumps(report).encode()
    while text:
        text = text[os.write(RESULT, text) :]
