"""A verb that runs beside the console: the command line itself, in a process of its own, read as it writes.

So a verb behaves as in a shell, takes as long as it likes, and can be stopped; the console only shows what it says.
"""

import asyncio
import contextlib
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from rwkvctl.settings.module_command import module_command
from rwkvctl.tui.shell.command_parser import Run

OUTPUT_FLAGS: Final = ("-o", "--output", "--json")
END_S: Final = 3.0
READ_BYTES: Final = 64 * 1024


def environment(environ: Mapping[str, str], width: int, height: int, *, colour: bool) -> dict[str, str]:
    """Return the environment of a verb's process, with the size of the terminal."""
    told = {"COLUMNS": str(width), "LINES": str(height), "FORCE_COLOR" if colour else "NO_COLOR": "1"}
    return {name: text for name, text in environ.items() if name not in {"FORCE_COLOR", "NO_COLOR"}} | told


def command(run: Run, flags: Mapping[str, object]) -> Sequence[str]:
    """The process to start: tables as on a terminal, and the daemon that the console talks to."""
    words = list(run.words)
    if not run.verb.passed and not any(
        word.split("=")[0] in OUTPUT_FLAGS or word in {"-h", "--help"} for word in words
    ):
        words += ["-o", "table"]
    if not run.verb.passed:
        words += [word for name, value in flags.items() if value for word in (f"--{name}", str(value))]
    return module_command("rwkvctl.cli", *words)


async def follow(words: Sequence[str], environ: Mapping[str, str], hear: Callable[[str], object]) -> int:
    """Run a process and hand on what it writes; cancelling ends it and what it started. Returns its exit code."""
    process = await asyncio.create_subprocess_exec(
        *words, env=dict(environ), stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT, start_new_session=True,
    )  # fmt: skip
    assert process.stdout is not None
    try:
        while piece := await process.stdout.read(READ_BYTES):
            hear(piece.decode(errors="replace"))
        return await process.wait()
    finally:
        if process.returncode is None:
            await end(process)


async def end(process: asyncio.subprocess.Process) -> None:
    """Ask a process and its children to end, then end them."""
    for number in (signal.SIGINT, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(END_S):
                await process.wait()
                return
