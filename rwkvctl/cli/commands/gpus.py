"""`rwkvctl gpus`: what holds each GPU, and who may use it."""

import shlex
import time

from rwkvctl.cli.client import Answer, Record
from rwkvctl.cli.context import Context
from rwkvctl.cli.parser import UsageError
from rwkvctl.cli.registry import verb
from rwkvctl.cli.tables import gpu_tables
from rwkvctl.protocol.errors import Exit

PAST_S, STEP_S = 600, 30
"""What the table draws of the past: ten minutes in as many steps as it has room for."""

UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


@verb
def gpus(context: Context) -> int:
    """Every GPU: who uses it, whether it takes new engines, and why not.

    USE is its use now: free; leased (to an engine of this daemon); busy (another program computes); waiting (another
    program holds memory and computes nothing); zombie (only dead or orphaned processes hold it); unknown (the driver
    does not say). CONDITION says whether it may be used: only ok takes new engines. `-o wide` shows everything.

    $ rwkvctl gpus
    $ rwkvctl gpus -o wide
    $ rwkvctl gpus reserve 0-5 --for training --probe "tail -1 /runs/a/step.txt"
    """
    answer = context.client.get("/v1/gpus")
    recent = None
    if answer.value["items"] and not context.as_json and not context.as_tabs:
        recent = context.client.get("/v1/gpus/history", since=time.time() - PAST_S, step_s=STEP_S).value
    context.show(answer, gpu_tables.gpus(answer.value["items"], recent))
    for name, meaning in (("trouble", "GPUs are unknown"), ("self_test", "no process is reaped")):
        if answer.value.get(name):
            context.say(f"{answer.value[name]}: {meaning}")
    return Exit.OK


@verb
def gpus_reserve(context: Context, gpus: list[str], *, for_: str, until_exit: int = 0, probe: str = "") -> int:
    """Keep GPUs free for other work: no new engine starts there, and an engine without work is unloaded.

    With --until-exit the reservation ends when that process does; `gpus release` ends it before. Reserving GPUs again
    without the flag makes the reservation one that only `gpus release` ends.

    gpus: indices, ranges (0-5), UUIDs or the beginning of one
    for_: what for, in a word or a sentence; it is shown with the GPU
    until_exit: the pid of a process on the node, such as that of the training run
    probe: a command whose last line of output tells the progress of that work (no shell; admins only)

    $ rwkvctl gpus reserve 6,7 --for training
    $ rwkvctl gpus reserve 0-5 --for training --until-exit 48112
    $ rwkvctl gpus reserve 0-5 --for "run 12" --probe "tail -1 /runs/12/progress"
    """
    if until_exit < 0:
        raise UsageError("rwkvctl gpus reserve: --until-exit takes the pid of a process.")
    code = decide(context, "reserve", gpus, for_, until_pid=until_exit)
    if code or not probe:
        return code
    try:
        command = shlex.split(probe)
    except ValueError as error:
        raise UsageError(f"rwkvctl gpus reserve: --probe cannot be split into words: {error}.") from error
    answer = context.change("/v1/gpus/probe", {"gpus": named(gpus), "command": command})
    return outcome(context, answer, quiet=True)


@verb
def gpus_release(context: Context, gpus: list[str]) -> int:
    """End a reservation.

    gpus: indices, ranges (0-5), UUIDs or the beginning of one

    $ rwkvctl gpus release 6,7
    """
    return decide(context, "release", gpus)


@verb
def gpus_drain(context: Context, gpus: list[str], *, reason: str) -> int:
    """Start no new engines on GPUs and let running work end, before maintenance.

    gpus: indices, ranges (0-5), UUIDs or the beginning of one
    reason: why; it is shown with the GPU

    $ rwkvctl gpus drain 3 --reason "fan is loud"
    """
    return decide(context, "drain", gpus, reason)


@verb
def gpus_undrain(context: Context, gpus: list[str]) -> int:
    """End the drain of GPUs: they take work again.

    gpus: indices, ranges (0-5), UUIDs or the beginning of one

    $ rwkvctl gpus undrain 3
    """
    return decide(context, "undrain", gpus)


@verb
def gpus_quarantine(context: Context, gpus: list[str], *, reason: str) -> int:
    """Take GPUs out of use until `gpus unquarantine`.

    gpus: indices, ranges (0-5), UUIDs or the beginning of one
    reason: why; it is shown with the GPU

    $ rwkvctl gpus quarantine 3 --reason "wrong results on Tuesday"
    """
    return decide(context, "quarantine", gpus, reason)


@verb
def gpus_unquarantine(context: Context, gpus: list[str]) -> int:
    """Let quarantined GPUs take work again, after you have fixed the cause. Earlier failures are forgotten.

    gpus: indices, ranges (0-5), UUIDs or the beginning of one

    $ rwkvctl gpus unquarantine 3
    """
    return decide(context, "unquarantine", gpus)


@verb
def gpus_forget(context: Context, gpus: list[str]) -> int:
    """Remove GPUs from the inventory that are no longer in the node.

    gpus: indices, ranges (0-5), UUIDs or the beginning of one

    $ rwkvctl gpus forget GPU-5a3f
    """
    return decide(context, "forget", gpus)


@verb
def gpus_history(context: Context, gpu: str = "", *, since: str = "10m", step: int = 10) -> int:
    """Recorded use of the GPUs, up to 24 hours back.

    gpu: one GPU (default: all)
    since: how far back: 90s, 10m, 2h, 1d
    step: seconds per line

    $ rwkvctl gpus history 3 --since 8h --step 60
    """
    if not since[:-1].isdecimal() or since[-1:] not in UNITS:
        raise UsageError("rwkvctl gpus history: --since takes a number and a unit: 90s, 10m, 2h, 1d.")
    begin = time.time() - int(since[:-1]) * UNITS[since[-1]]
    answer = context.client.get("/v1/gpus/history", gpu=gpu, since=begin, step_s=step)
    context.show(answer, gpu_tables.history(answer.value))
    return Exit.OK


def decide(context: Context, action: str, gpus: list[str], reason: str = "", *, until_pid: int = 0) -> int:
    """Send a decision about GPUs and show what it did."""
    body = {"action": action, "gpus": named(gpus), "reason": reason}
    answer = context.change("/v1/gpus", body | ({"until_pid": until_pid} if until_pid else {}))
    return outcome(context, answer)


def named(words: list[str]) -> list[str]:
    """Return the names of `0-2,5` as `0 1 2 5`; names that are not numbers are passed to the daemon unchanged."""
    names: list[str] = []
    for word in ",".join(words).split(","):
        first, dash, last = word.partition("-")
        if dash and first.isdecimal() and last.isdecimal() and int(last) - int(first) < 1000:
            names += map(str, range(int(first), int(last) + 1))
        elif word:
            names.append(word)
    return names


def outcome(context: Context, answer: Answer, *, quiet: bool = False) -> int:
    """Show it; 0 if all went well, 5 if none did, 8 if some did."""
    items: list[Record] = answer.value["items"]
    wrong = [item for item in items if item.get("error")]
    if wrong or not quiet:
        context.show(answer, gpu_tables.changed(items))
    if not wrong:
        return Exit.OK
    return Exit.PARTLY if len(wrong) < len(items) else Exit.REFUSED
