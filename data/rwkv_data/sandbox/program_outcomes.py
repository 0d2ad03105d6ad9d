"""Derive the outcome of a program from the zygote's reply and the files that guests wrote."""

import json
import os
from typing import Any

from rwkv_data.sandbox import driver
from rwkv_data.sandbox.program import Limits, ProgramOutcome, Status

_MEGABYTE = 1 << 20
_TAIL = 2000
_LOST = {
    driver.KILLED_OUTSIDE: "killed from outside the sandbox",
    driver.STARVED: "the machine gave it hardly any processor time",
}


def script_outcome(reply: dict[str, Any], limits: Limits, output: bytes, errors: bytes) -> ProgramOutcome:
    """Return the outcome of a script from the zygote's reply and what the script printed."""
    if "trouble" in reply:
        return ProgramOutcome(status="lost", detail=reply["trouble"])
    (program,) = reply["guests"]
    said = errors.decode(errors="replace")[-_TAIL:].strip()
    text, cpu_s, asleep_s = output.decode(errors="replace"), program["cpu_s"], program["asleep_s"]
    out_of_time = _out_of_time(program)
    if out_of_time:
        starved = program["ending"] == driver.OUT_OF_WALL and not program["sure"] and busy()
        return ProgramOutcome(
            status="timeout",
            detail=out_of_time,
            output=text,
            cpu_s=cpu_s,
            asleep_s=asleep_s,
            starved=starved,
        )
    if program["ending"] in _LOST:
        return ProgramOutcome(status="lost", detail=_LOST[program["ending"]], output=text, cpu_s=cpu_s)
    if len(output) >= limits.output_mb * _MEGABYTE:
        return ProgramOutcome(
            status="output", detail=f"more than {limits.output_mb} MB of output", output=text, cpu_s=cpu_s
        )
    if os.WIFSIGNALED(program["status"]):
        return ProgramOutcome(status="killed", detail=_signal(program["status"]), output=text, cpu_s=cpu_s)
    if os.WEXITSTATUS(program["status"]) == 0:
        return ProgramOutcome(status="passed", output=text, cpu_s=cpu_s, asleep_s=asleep_s)
    last = said.rpartition("\n")[2]
    status: Status = "memory" if last.startswith("MemoryError") else "failed"
    detail = last or f"exit status {os.WEXITSTATUS(program['status'])}"
    return ProgramOutcome(status=status, detail=detail, output=text, cpu_s=cpu_s)


def busy() -> bool:
    """Whether the load average of the last minute exceeds the number of processors."""
    return os.getloadavg()[0] > (os.cpu_count() or 1)


def check_outcome(reply: dict[str, Any], result: bytes) -> ProgramOutcome:
    """Return the outcome of a check from the zygote's reply and the driver's report."""
    if "trouble" in reply:
        return ProgramOutcome(status="lost", detail=reply["trouble"])
    program, drives = reply["guests"]
    cpu_s, asleep_s = program["cpu_s"], program["asleep_s"]
    if not drives["done"]:
        return _no_report(drives, cpu_s)
    report = report_in(result)
    if report is None:
        return ProgramOutcome(status="error", detail="the driver's report cannot be read", cpu_s=cpu_s)
    if "trouble" in report:
        return ProgramOutcome(status="error", detail=str(report["trouble"])[:_TAIL], cpu_s=cpu_s)
    starved = bool(report.pop("starved", False)) and not program["sure"] and busy()
    failed = report.get("failed")
    if failed:
        status: Status = failed if failed in ("timeout", "memory", "killed", "lost") else "failed"
        detail = str(report.get("detail", ""))
        return ProgramOutcome(
            status=status, detail=detail, cpu_s=cpu_s, asleep_s=asleep_s, result=report, starved=starved
        )
    return ProgramOutcome(status="passed", cpu_s=cpu_s, asleep_s=asleep_s, result=report, starved=starved)


def report_in(result: bytes) -> dict[str, Any] | None:
    """Return the driver's report, or None if there is no valid one: the driver handles what hostile programs send, so
    it is not trusted."""
    try:
        report = json.loads(result)
    except (ValueError, RecursionError):
        return None
    return report if isinstance(report, dict) else None


def _no_report(drives: dict[str, Any], cpu_s: float) -> ProgramOutcome:
    """Return the outcome of a check whose driver died: of the time or memory that the candidate's data took."""
    if _out_of_time(drives):
        return ProgramOutcome(
            status="timeout", detail=f"while its values were compared: {_out_of_time(drives)}", cpu_s=cpu_s
        )
    if drives["ending"] in _LOST:
        return ProgramOutcome(
            status="lost", detail=f"the process that tests it: {_LOST[drives['ending']]}", cpu_s=cpu_s
        )
    if os.WIFSIGNALED(drives["status"]):
        return ProgramOutcome(
            status="killed", detail=f"while its values were compared: {_signal(drives['status'])}", cpu_s=cpu_s
        )
    return ProgramOutcome(
        status="error", detail=f"the driver left without a report (status {drives['status']})", cpu_s=cpu_s
    )


def _out_of_time(guest: dict[str, Any]) -> str:
    used = f"{guest['cpu_s']:.2f} s of processor time"
    texts = {driver.OUT_OF_CPU: f"out of processor time ({used})", driver.OUT_OF_WALL: f"out of time, asleep ({used})"}
    return texts.get(guest["ending"], "")


def _signal(status: int) -> str:
    return f"killed by signal {os.WTERMSIG(status)}"
