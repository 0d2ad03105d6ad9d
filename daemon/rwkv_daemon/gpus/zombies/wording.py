"""Sentences about a process for the operator: what it is, what that means, and what to do."""

from typing import Final

from rwkv_daemon.gpus.zombies.classify import ClassRule, Situation, attempt_of, container_id, protected_by
from rwkv_daemon.gpus.zombies.phrases import span
from rwkv_daemon.gpus.zombies.procfs import ProcessSnapshot
from rwkv_daemon.rules.gpu_facts import HolderClass

LONGEST_COMMAND: Final = 60


def name(process: ProcessSnapshot) -> str:
    """Return a process in words, such as `pid 4711 (python train.py, bob, 3 h)`."""
    program, _, words = process.command.partition(" ")
    command = f"{program.rpartition('/')[2]} {words}".strip()
    if len(command) > LONGEST_COMMAND:
        command = f"{command[: LONGEST_COMMAND - 1]}…"
    return f"pid {process.pid} ({command}, {process.user or 'user unknown'}, {span(process.age_s)})"


def verdict(process: ProcessSnapshot, rule: ClassRule, situation: Situation) -> str:
    """Return the sentence that tells an operator what the process is and why it has its class."""
    who = name(process)
    attempt = attempt_of(process, situation)
    match rule.name:
        case "defunct":
            parent = f"pid {process.stat.parent}" + (f" ({process.parent_name})" if process.parent_name else "")
            return f"{who} has ended, and nothing is left to kill; the rest goes when {parent}, its parent, ends"
        case "protected":
            return f"{who} is never touched: {protected_by(process, situation)}"
        case "ours" if attempt is not None and attempt.state == "runs":
            return f"{who} belongs to {attempt.name}, which runs"
        case "ours":
            return f"{who} carries the mark of an attempt that is still being looked up"
        case "stuck":
            return (
                f"{who} has been stuck in the kernel for {span(situation.blocked_s)} and takes no signal; "
                "a reset of the GPU or a reboot frees it"
            )
        case "orphan":
            assert attempt is not None
            return f"{who} was left behind by {attempt.name}, which ended {span(attempt.ended_s)} ago"
        case "container":
            return f"{who} runs in a {container_id(process)}; end it through what started it"
        case "other-user":
            return f"{who} belongs to another user; ask {process.user or 'its owner'}"
        case _:
            return f"{who} runs as our user, and this daemon did not start it; ask whoever did"


def absent(pid: int, cls: HolderClass, lasts_s: float) -> str:
    """Return the sentence about a pid that NVML lists and /proc does not show."""
    match cls:
        case "container":
            return f"pid {pid} is NVML's, and this daemon, in a PID namespace of its own, cannot know whose it is"
        case "other-user":
            return f"pid {pid} is hidden from this daemon (hidepid); it belongs to another user"
        case _:
            return (
                f"NVML lists pid {pid} since {span(lasts_s)}, and there is no such process: "
                "the driver holds memory for nobody; a reset of the GPU frees it"
            )
