"""Running a command for a notice: an argument list without a shell, the notice as JSON on its standard input.

It gets an environment without our settings, a process group of its own, and a deadline, after which the whole group is
killed. What it leaves running when it ends by itself is not killed: mail programs deliver in the background.
"""

import asyncio
import contextlib
import os
import re
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from rwkv_daemon.notify.delivery_outcome import SENT, DeliveryOutcome
from rwkv_daemon.notify.rules import Notice
from rwkvctl.settings import config
from rwkvctl.settings.notify import NotifyTarget
from rwkvctl.text.sanitize import safe_line

ERROR_BYTES: Final = 200
READ_BYTES: Final = 64 * 1024
PLACE: Final = re.compile(r"\{(text|event|node)\}")


async def run(target: NotifyTarget, notice: Notice) -> DeliveryOutcome:
    """Run the command to its end. Never raises because of the command."""
    program = target.command[0]
    with given(notice.body.encode()) as stdin, StderrTail.listen() as complaints:
        try:
            process = await asyncio.create_subprocess_exec(
                *filled(target.command, notice),
                stdin=stdin, stdout=asyncio.subprocess.DEVNULL, stderr=complaints.theirs,
                env=config.base_environment(), start_new_session=True, cwd="/",
            )  # fmt: skip
        except (OSError, ValueError) as error:
            return DeliveryOutcome(f"{program} cannot be started: {error}"[:ERROR_BYTES])
        try:
            async with asyncio.timeout(target.timeout_s):
                code = await process.wait()
        except TimeoutError:
            return DeliveryOutcome(f"{program} took longer than {target.timeout_s:g} s")
        finally:
            await end(process)
        complaints.read()
        return DeliveryOutcome(f"{program}: exit code {code}: {complaints.text}") if code else SENT


@contextlib.contextmanager
def given(body: bytes) -> Iterator[int]:
    """Yield a descriptor to read the notice from: a file in memory rather than a pipe, so that a command that does not
    read cannot block the daemon."""
    descriptor = os.memfd_create("notice")
    try:
        os.write(descriptor, body)
        os.lseek(descriptor, 0, os.SEEK_SET)
        yield descriptor
    finally:
        os.close(descriptor)


@dataclass(slots=True)
class StderrTail:
    """The end of a command's standard error; all of it is read, so that the command never blocks on it."""

    ours: int
    theirs: int
    said: bytes = b""

    @classmethod
    @contextlib.contextmanager
    def listen(cls) -> Iterator["StderrTail"]:
        """Read on the event loop until the block ends."""
        complaints = cls(*os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK))
        os.set_blocking(complaints.theirs, True)
        loop = asyncio.get_running_loop()
        loop.add_reader(complaints.ours, complaints.read)
        try:
            yield complaints
        finally:
            loop.remove_reader(complaints.ours)
            os.close(complaints.ours)
            os.close(complaints.theirs)

    def read(self) -> None:
        """Read what the pipe holds, at most `READ_BYTES`, and keep the last `ERROR_BYTES` of all output."""
        with contextlib.suppress(BlockingIOError):
            self.said = (self.said + os.read(self.ours, READ_BYTES))[-ERROR_BYTES:]

    @property
    def text(self) -> str:
        """The output that was kept, decoded and joined into one line."""
        return " ".join(self.said.decode(errors="replace").split())


def filled(command: tuple[str, ...], notice: Notice) -> list[str]:
    """Return the arguments with {text}, {event} and {node} replaced. A value stays within its argument, on one line."""
    known = {"text": safe_line(" ".join(notice.text.split())), "event": notice.event, "node": notice.node}
    return [command[0], *(PLACE.sub(lambda found: known[found[1]], argument) for argument in command[1:])]


async def end(process: asyncio.subprocess.Process) -> None:
    """Kill the process group of a command that has not ended."""
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
