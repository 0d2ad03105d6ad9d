"""Looks at the daemon from outside while it does not answer: the service manager, and its workers' processes."""

import asyncio
import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from rwkvctl.tui.daemon.facts import OutsideView, census, service_sentence

PROC: Final = Path("/proc")
SHOWN: Final = "LoadState,ActiveState,SubState,Result,ExecMainStatus,NRestarts"
PATIENCE_S: Final = 5.0


async def look(home: str) -> OutsideView:
    """Return what an unprivileged user can see of the daemon."""
    engines, runners = await asyncio.to_thread(lambda: census(command_lines(PROC), home))
    return OutsideView(await service(), engines, runners)


async def service() -> str:
    """What systemd says of the system's service, else of the user's; empty where it knows neither."""
    if shutil.which("systemctl") is None:
        return ""
    for scope in ("--system", "--user"):
        if said := service_sentence(await output("systemctl", scope, "show", f"--property={SHOWN}", "rwkvctl.service")):
            return said
    return ""


async def output(*words: str) -> str:
    """What a program prints; nothing where it fails or takes long."""
    process = await asyncio.create_subprocess_exec(
        *words, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL
    )
    try:
        async with asyncio.timeout(PATIENCE_S):
            said, _ = await process.communicate()
    except TimeoutError:
        return ""
    finally:
        if process.returncode is None:
            process.kill()
    return said.decode(errors="replace") if process.returncode == 0 else ""


def command_lines(proc: Path) -> Iterator[list[str]]:
    """Return the command lines of all processes."""
    for path in proc.glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            yield path.read_bytes().decode(errors="replace").split("\0")
