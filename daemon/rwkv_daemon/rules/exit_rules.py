"""What is to blame when a runner ends early, and what follows. Pure: a table of exits.

Four classes. `infrastructure` (a process killed, memory, disk, a lost machine) is retried. `model` and `benchmark`
would only fail again: the job fails alone, at once, with the reason. `judge` means that everything is generated and
there is no verdict.
"""

import random
import signal
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Literal

from rwkv_daemon.rules import exit_codes
from rwkv_daemon.rules.shim_record import ShimRecord
from rwkvctl.protocol.states import Reason

Failure = Literal["infrastructure", "model", "benchmark", "judge"]
Then = Literal["retry", "hold", "fail", "yield"]


@dataclass(frozen=True, slots=True)
class ExitVerdict:
    """What is to blame, what follows, and for a hold its reason."""

    failure: Failure
    then: Then
    reason: Reason | Literal[""] = ""


AGAIN: Final = ExitVerdict("infrastructure", "retry")
"""For everything that has no rule: killed by a signal, lost with its shim, an undocumented exit code."""

EXITS: Final[Mapping[int, ExitVerdict]] = MappingProxyType(
    {
        exit_codes.STOPPED: ExitVerdict("infrastructure", "yield"),
        exit_codes.PAUSED: ExitVerdict("infrastructure", "yield"),
        exit_codes.BAD_ROWS: ExitVerdict("benchmark", "hold", "data-missing"),
        exit_codes.DISK_FULL: ExitVerdict("infrastructure", "hold", "disk-low"),
        exit_codes.CANNOT_RUN: ExitVerdict("infrastructure", "fail"),
        exit_codes.OUT_OF_TIME: ExitVerdict("benchmark", "fail"),
        exit_codes.NO_SANDBOX: ExitVerdict("infrastructure", "fail"),
        exit_codes.REFUSED: ExitVerdict("benchmark", "fail"),
        exit_codes.BROKEN: ExitVerdict("benchmark", "fail"),
        exit_codes.HARNESS_FAILED: ExitVerdict("benchmark", "fail"),
        exit_codes.TROUBLE: AGAIN,
    }
)
"""By the runner's exit code. A runner that ends as if it had been asked to, though nobody did (the machine shuts down),
goes back to the queue without using up a try."""

Cause = Literal["fault", "memory", "outside"]
"""What ended a process that the daemon did not end: itself (an error, a crash), the kernel for lack of memory, or
somebody else."""

OUTSIDE: Final = frozenset({signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT})
"""Signals that no error of a process sends to it. SIGKILL may be the kernel's, too."""


def cause_of(record: ShimRecord | None) -> Cause:
    """Return the cause by the exit record; there is none if the shim was killed as well, or the machine went down. A
    SIGKILL of which it is unknown whether memory was short counts as if it was: its retries are limited, those of a
    kill from outside are not."""
    if record is None or not record.done:
        return "outside"
    if record.signal not in OUTSIDE:
        return "fault"
    return "memory" if record.signal == signal.SIGKILL and record.oom != "" else "outside"


def engine_cause(record: ShimRecord | None) -> Cause:
    """Return the cause of an engine's end. It ends in order, with code 0, when it is sent SIGTERM."""
    return "outside" if record is not None and record.done and record.code == 0 else cause_of(record)


def how(record: ShimRecord | None) -> str:
    """Return an exit in words for the operator."""
    if record is None or not record.done:
        return "killed together with its shim"
    if record.signal is None:
        return f"exit code {record.code}"
    name = signal.Signals(record.signal).name if record.signal in set(signal.Signals) else f"signal {record.signal}"
    match cause_of(record):
        case "outside":
            return f"{name} from outside"
        case "memory" if record.oom == "machine":
            return f"{name} as the machine ran out of memory"
        case "memory" if record.oom == "cgroup":
            return f"{name} as it reached its memory limit"
        case _:
            return name


ENGINE_TROUBLE: Final = "the engine answered 5"
"""How the runner's last log line begins if the engine, not the request, was at fault."""


def classify(code: int | None, last_words: str) -> ExitVerdict:
    """Return the verdict on an exit code (None: a signal, or lost) and the log's last line."""
    if code is None or (code == exit_codes.REFUSED and last_words.startswith(ENGINE_TROUBLE)):
        return AGAIN
    return EXITS.get(code, AGAIN)


def wait_s(base_s: float, restarts: int, draw: random.Random) -> float:
    """Return how long to wait before the next try: doubled each time, and randomised, so that jobs that failed together
    do not come back together."""
    return base_s * float(2 ** min(restarts, 16)) * draw.uniform(0.5, 1.5)
