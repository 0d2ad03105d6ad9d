"""The limits of a program in the sandbox, and its outcome."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from rwkv_data.sandbox.budgets import sleep_for

Status = Literal["passed", "failed", "timeout", "memory", "output", "killed", "lost", "error"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits of one program. They protect the node; whether the program is right is for the test to say.

    `cpu_s`: processor seconds of the whole program, whatever else the machine does. `wall_s`: seconds that it may be
    asleep in all (0: twice the processor limit and three seconds more); waiting for a processor is not sleep.
    `memory_mb`: address space of a process. `workspace_mb`: its folder. `output_mb`: what it prints, and the largest
    file it writes. `processes`: 1 forbids it to start any, which also makes `memory_mb` the limit of the whole program;
    with more, each of them may use as much. `threads`: of all its processes together.
    """

    cpu_s: float = 10.0
    wall_s: float = 0.0
    memory_mb: int = 2048
    workspace_mb: int = 64
    output_mb: int = 32
    processes: int = 1
    threads: int = 64

    @property
    def wall_limit_s(self) -> float:
        """Seconds that the program may be asleep: `wall_s`, or the default that follows from `cpu_s`."""
        return self.wall_s or sleep_for(self.cpu_s)

    def as_json(self) -> dict[str, float]:
        """Return the limits as the zygote's request carries them."""
        return asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramOutcome:
    """The outcome of a program.

    `passed`: it ended by itself, without an error (a script: exit status 0; a check: the driver reported).
    `failed`: it raised or left with another status. `timeout`: out of processor time, or asleep for too long.
    `memory`, `output`: over that limit. `killed`: by a signal, such as a crash. `lost`: twice killed from outside (as
    when the machine has no memory left), starved, or not started. `error`: the sandbox or the test broke. `lost` and
    `error` say nothing about the program. `result` is the driver's report, `output` what a script printed.
    `asleep_s`: how long it slept. `starved`: it seemed asleep, on a busy machine that does not say who waits for a
    processor.
    """

    status: Status
    detail: str = ""
    output: str = ""
    cpu_s: float = 0.0
    result: Mapping[str, Any] | None = None
    asleep_s: float = 0.0
    starved: bool = False
