"""Probes of reservations: a command of the operator that says what the work on a reserved GPU is doing.

It explains a training run that holds its GPUs and computes nothing (it evaluates, or waits for data); it decides
nothing. It runs without a shell, with a minimal environment and a time limit, and only the beginning of its output is
read.
"""

import asyncio
import contextlib
import os
import signal
import time
from typing import Final

from rwkv_daemon.gpus.known_gpus import Gpus
from rwkv_daemon.gpus.watch_state import ProbeAnswer
from rwkv_daemon.workers import worker_process

EVERY_S: Final = 30.0
LIMIT_S: Final = 5.0
MOST_BYTES: Final = 4096
LONGEST: Final = 200
ENVIRONMENT: Final = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8", "HOME": "/"}
NOBODY: Final = 65534


async def probe_forever(gpus: Gpus) -> None:
    """Run the probes of reserved GPUs that are in use, each command once for all of its GPUs; until cancelled."""
    while True:
        await probe_all(gpus)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(EVERY_S):
                await gpus.watch_state.probe_now.wait()
        gpus.watch_state.probe_now.clear()


async def probe_all(gpus: Gpus) -> None:
    """Run each probe command once, and store its answer for all of its reserved GPUs that are in use."""
    wanted: dict[tuple[str, ...], list[str]] = {}
    for gpu_id, record in gpus.watch_state.records.items():
        gpu = gpus.by_id.get(gpu_id)
        if record.probe and gpu is not None and gpu.use != "free":
            wanted.setdefault(record.probe, []).append(gpu_id)
        else:
            gpus.watch_state.probes.pop(gpu_id, None)
    for command, reserved in wanted.items():
        answer = ProbeAnswer(time.monotonic(), await ask(command))
        gpus.watch_state.probes.update(dict.fromkeys(reserved, answer))


async def ask(command: tuple[str, ...]) -> str:
    """Return the last line of a probe's output, or why there is none."""
    other = NOBODY if os.geteuid() == 0 else None
    try:
        process = await asyncio.create_subprocess_exec(
            *command, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT, env=ENVIRONMENT, cwd="/", start_new_session=True,
            user=other, group=other, extra_groups=None if other is None else [],
        )  # fmt: skip
    except (OSError, ValueError) as error:
        return f"(it cannot be run: {error})"
    try:
        async with asyncio.timeout(LIMIT_S):
            assert process.stdout is not None
            text = await process.stdout.read(MOST_BYTES)
            code = await process.wait() if process.stdout.at_eof() or len(text) < MOST_BYTES else 0
    except TimeoutError:
        return f"(it did not answer within {LIMIT_S:g} s)"
    finally:
        await end(process)
    line = last_line(text.decode(errors="replace"))
    return line if code == 0 and line else f"(it ended with code {code}{': ' + line if line else ''})"


async def end(process: asyncio.subprocess.Process) -> None:
    """Kill a probe with its whole process group, whose members may hold its output open. The group's number is certain
    only until the probe is reaped."""
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    else:
        await asyncio.to_thread(worker_process.kill_session, process.pid)
    await process.wait()


def last_line(text: str) -> str:
    """Return the last line that is not blank, with limited length."""
    lines = [line.strip() for line in text.split("\n") if line.strip()]
    return lines[-1][:LONGEST] if lines else ""
