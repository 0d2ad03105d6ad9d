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
import struct
import traceback
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

from rwkv_data.sandbox.codec import UnreadableError, decode, encode
from rwkv_data.sandbox.frames import BrokenFrameError, read_all, read_exactly, read_frame, write_frame

REPLIES, CALLS, CLOCK, DATA, RESULT = 3, 4, 5, 6, 7
MOST_REPLY_BYTES = 1 << 26

# To the zygote: begin a call of so many processor seconds, or one of these. From it: seconds used, and an ENDING.
BEGIN = struct.Struct("d")
END, LOST = -1.0, -2.0
SPENT = struct.Struct("dB")
ALIVE, OUT_OF_CPU, OUT_OF_WALL, DIED = range(4)
_ENDINGS = {OUT_OF_CPU: "timeout", OUT_OF_WALL: "timeout", DIED: "killed"}

Driver = Callable[["Candidate", Any], Mapping[str, Any]]


class CallFailedError(BaseException):
    """A call gave no value: `kind` is `raised`, `timeout`, `memory` or `killed`.

    No Exception: a test that catches Exception must not take a dead candidate for one that raised.
    """

    def __init__(self, kind: str, name: str, text: str) -> None:
        super().__init__(f"{name}: {text}" if text else name)
        self.kind, self.name, self.text = kind, name, text


class Candidate:
    """The answer, in its own process. `budget_s`: what is left of its processor time; `cpu_s`: what the last call took.

    `failure` is the first reason that ended it for good; from then on every call fails with it.
    """

    def __init__(self, budget_s: float) -> None:
        self.budget_s = budget_s
        self.cpu_s = 0.0
        self.failure: CallFailedError | None = None
        self.starved = False

    def load(self, cpu_s: float | None = None) -> None:
        """Wait until its code has been executed. Raises CallFailedError."""
        self._value(self._timed(None, cpu_s))

    def call(self, name: str, arguments: Sequence[object], keywords: Mapping[str, object]) -> Any:
        """The value of one call, within what is left of the budget. Raises CallFailedError."""
        return decode_reply(self.call_encoded(name, encode((tuple(arguments), dict(keywords)))))

    def call_encoded(self, name: str, arguments: str, cpu_s: float | None = None) -> bytes:
        """The same, within a limit of processor seconds, for text of the codec; returns the value's text."""
        return self._value(self._timed(f"{name}\n{arguments}".encode(), cpu_s))

    def _timed(self, request: bytes | None, cpu_s: float | None) -> bytes:
        """One exchange, under the zygote's watch."""
        if self.failure:
            raise self.failure
        os.write(CLOCK, BEGIN.pack(max(0.0, min(cpu_s or self.budget_s, self.budget_s))))
        try:
            if request is not None:
                write_frame(CALLS, request)
            reply = read_frame(REPLIES, MOST_REPLY_BYTES)
        except BrokenFrameError as error:
            raise self._lost(str(error)) from None
        self._spend(END)
        return reply

    def _spend(self, message: float) -> int:
        os.write(CLOCK, BEGIN.pack(message))
        self.cpu_s, ending = SPENT.unpack(read_exactly(CLOCK, SPENT.size))
        self.budget_s -= self.cpu_s
        return int(ending)

    def _lost(self, text: str) -> CallFailedError:
        ending = self._spend(LOST)
        self.starved = ending == OUT_OF_WALL
        texts = {OUT_OF_CPU: "out of processor time", OUT_OF_WALL: "out of time, asleep", DIED: "the process ended"}
        self.failure = CallFailedError(_ENDINGS.get(ending, "killed"), texts.get(ending, text), "")
        return self.failure

    def _value(self, reply: bytes) -> bytes:
        if reply[:1] == b"+":
            return reply[1:]
        name, _, text = reply[1:].decode(errors="replace").partition("\n")
        raise CallFailedError("memory" if name == "MemoryError" else "raised", name or "nothing", text)


def decode_reply(text: bytes) -> Any:
    """The value of a reply. Raises CallFailedError."""
    try:
        return decode(text)
    except (UnreadableError, MemoryError) as error:
        raise CallFailedError("raised", "unreadable value", str(error)) from None


def find(name: str) -> Driver:
    """The driver that `module:function` names."""
    module, _, function = name.partition(":")
    found: Driver = getattr(importlib.import_module(module), function)
    return found


def main(driver: Driver, budget_s: float) -> NoReturn:
    """Run a driver and write its report."""
    candidate = Candidate(budget_s)
    try:
        data = decode(read_all(DATA))
        candidate.load()
        report = dict(driver(candidate, data))
    except CallFailedError as failed:
        report = {"failed": failed.kind, "detail": str(failed)}
    except Exception:  # noqa: BLE001  # a fault of the test or of ours, told to the caller
        report = {"trouble": traceback.format_exc(limit=-4)[-2000:]}
    report["starved"] = candidate.starved
    os.pwrite(RESULT, json.dumps(report).encode(), 0)
    os._exit(0)
