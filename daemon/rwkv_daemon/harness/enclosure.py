"""`python -P -m rwkv_daemon.harness.enclosure PLAN`: becomes a run of a harness that sees little of the node. PLAN is
the path of an `EnclosurePlan` as JSON.

In namespaces of its own: every file system is read-only but the run's own folders; the daemon's home, the operator's
configuration and home, and the sockets under /run are hidden, but for what the run is shown; there are a few devices;
without the network, a loopback of its own has one port, which leads to the relay. It has no capabilities and gains
none. All its processes end with the first of them, and that ends with the process that started it.
"""

import asyncio
import contextlib
import os
import select
import signal
import socket
import struct
import sys
from collections.abc import Sequence
from fcntl import ioctl
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from rwkv_daemon.rules.exit_codes import NO_SANDBOX
from rwkv_data.sandbox import linux
from rwkv_data.sandbox.filesystem import DEVICES

PORT: Final = 8000
SIOCGIFFLAGS, SIOCSIFFLAGS, IFF_UP = 0x8913, 0x8914, 1
RUN: Final = "/run"
TEMPORARY: Final = ("/tmp", "/var/tmp")  # noqa: S108 - each replaced by an empty one of the run's own
SHARED: Final = "/dev/shm"  # noqa: S108 - so is this
CANNOT_ISOLATE: Final = "this node cannot isolate a harness"
PIECE_BYTES: Final = 64 * 1024
SIGNALLED: Final = 128
"""What is added to the number of the signal that ended a harness, as in a shell."""


class EnclosurePlan(Struct, frozen=True, kw_only=True):
    """What a run is given: its command line and whole environment; paths that are `hidden`; folders that are `shown`
    nevertheless, each by its path for the run; and those that are `writable`. With a `relay`, a Unix socket, it has no
    network but that socket at 127.0.0.1:PORT. Not `isolated`, it sees everything, by the operator's decision. It ends
    with `parent`."""

    argv: tuple[str, ...]
    environment: dict[str, str]
    hidden: tuple[str, ...]
    shown: dict[str, str]
    writable: tuple[str, ...]
    relay: str
    isolated: bool
    parent: int


def main(path: str) -> None:
    """Become the run, or say why it cannot be isolated."""
    plan = msgspec.json.decode(Path(path).read_bytes(), type=EnclosurePlan)
    end_with(plan.parent)
    if not plan.isolated:
        start(plan)
    try:
        relay = os.open(Path(plan.relay).parent, os.O_PATH | os.O_DIRECTORY) if plan.relay else -1
        enter_namespaces(network=not plan.relay)
        hide(plan)
        if plan.relay:
            start_loopback()
            forward(PORT, relay, Path(plan.relay).name)
            os.close(relay)
        linux.unshare(linux.CLONE_NEWPID)
    except OSError as error:
        sys.stderr.write(
            f"{CANNOT_ISOLATE} ({error}): see `rwkvctl doctor`, or set run_untrusted_code_unsandboxed = true to let it "
            "see what this daemon sees\n"
        )
        sys.exit(NO_SANDBOX)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)  # they are for the harness, whose end is waited for
    held, holds = os.pipe()  # held open by this process alone: its end is the end of file
    first = os.fork()
    if first:
        os.close(held)
        sys.exit(code_of(os.waitpid(first, 0)[1]))
    os.close(holds)
    linux.prctl(linux.PR_SET_PDEATHSIG, signal.SIGKILL)
    if select.select([held], [], [], 0)[0]:  # it ended before prctl took effect; its number cannot be seen from here
        os._exit(1)
    watch_over(plan)


def end_with(parent: int) -> None:
    """Have the kernel kill this process when the one that started it ends."""
    linux.prctl(linux.PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it ended before prctl took effect
        os._exit(1)


def watch_over(plan: EnclosurePlan) -> None:
    """Be the first process of the namespace: start the harness, wait for processes that it leaves behind, and end with
    its exit code, upon which the kernel ends them all."""
    with contextlib.suppress(OSError):  # without one of its own it sees the numbers and command lines of others
        linux.mount("proc", "/proc", "proc", linux.MS_NOSUID | linux.MS_NODEV | linux.MS_NOEXEC)
    harness = os.fork()
    if not harness:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_DFL)
        linux.forget_capabilities()
        linux.prctl(linux.PR_SET_NO_NEW_PRIVS, 1)
        linux.drop_capabilities()
        start(plan)
    pid, status = os.wait()
    while pid != harness:
        pid, status = os.wait()
    os._exit(code_of(status))


def start(plan: EnclosurePlan) -> None:
    """Replace this process by the harness, in its home and with its environment alone."""
    try:
        os.chdir(plan.environment["HOME"])
        os.execve(plan.argv[0], plan.argv, plan.environment)  # noqa: S606 - an argv list, no shell
    except OSError as error:
        sys.stderr.write(f"{plan.argv[0]} cannot be started: {error}\n")
        os._exit(1)


def code_of(status: int) -> int:
    """Return the exit code of what ended so; one that a signal ended has its number and `SIGNALLED`."""
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else SIGNALLED - code


def enter_namespaces(*, network: bool) -> None:
    """Get namespaces of one's own for users, mounts and, without `network`, the network. Real root needs none for users
    where the kernel allows none. Raises OSError."""
    spaces = linux.CLONE_NEWNS | linux.CLONE_NEWIPC | (0 if network else linux.CLONE_NEWNET)
    user, group = os.geteuid(), os.getegid()
    try:
        linux.unshare(spaces | linux.CLONE_NEWUSER)
    except OSError:
        if user:
            raise
        linux.unshare(spaces)
        return
    with contextlib.suppress(OSError):
        Path("/proc/self/setgroups").write_text("deny", encoding="ascii")
    Path("/proc/self/uid_map").write_text(f"{user} {user} 1", encoding="ascii")
    Path("/proc/self/gid_map").write_text(f"{group} {group} 1", encoding="ascii")


def hide(plan: EnclosurePlan) -> None:
    """Hide what is hidden, show what is shown of it, and make everything but the writable folders read-only. Raises
    OSError."""
    linux.mount("none", "/", flags=linux.MS_REC | linux.MS_PRIVATE)  # nothing done here shows outside
    covered = topmost((*plan.hidden, *TEMPORARY, RUN, "/dev"))
    folders = {path: path for path in (*plan.writable, *resolvers(plan))} | plan.shown
    shown = {path: os.open(source, os.O_PATH | os.O_DIRECTORY) for path, source in folders.items()}
    devices = {f"/dev/{name}": os.open(f"/dev/{name}", os.O_PATH) for name in DEVICES}
    linux.protect("/", linux.ATTR_RDONLY | linux.ATTR_NOSUID | linux.ATTR_NODEV, recursive=True)
    for path in covered:
        linux.mount("tmpfs", path, "tmpfs", linux.MS_NOSUID | linux.MS_NODEV, "size=1g,mode=700")
    for path, descriptor in devices.items():
        Path(path).touch()
        bind(descriptor, path)
        linux.protect(path, linux.ATTR_RDONLY, recursive=False, clear=linux.ATTR_NODEV)
    for path, descriptor in shown.items():
        Path(path).mkdir(parents=True, exist_ok=True)
        bind(descriptor, path)
    Path(SHARED).mkdir()
    linux.mount("tmpfs", SHARED, "tmpfs", linux.MS_NOSUID | linux.MS_NODEV, "size=1g,mode=700")
    for path in covered:
        if path not in TEMPORARY:
            linux.protect(path, linux.ATTR_RDONLY, recursive=False)
    for path in plan.writable:
        linux.protect(path, 0, recursive=False, clear=linux.ATTR_RDONLY)


def bind(descriptor: int, path: str) -> None:
    """Show what is open at a path."""
    linux.mount(f"/proc/self/fd/{descriptor}", path, flags=linux.MS_BIND | linux.MS_REC)
    os.close(descriptor)


def resolvers(plan: EnclosurePlan) -> tuple[str, ...]:
    """Return the folder under /run that the names of a network are looked up by, for a run that has one."""
    file = Path("/etc/resolv.conf").resolve()
    return (str(file.parent),) if not plan.relay and file.is_relative_to(Path(RUN).resolve()) else ()


def topmost(paths: Sequence[str]) -> list[str]:
    """Return the folders of some paths that exist, without those that lie in another of them. A link counts as the
    folder that it leads to; `/`, the home of some users of services, hides nothing."""
    folders = {str(Path(path).resolve()) for path in paths if Path(path).is_dir()} - {"/"}
    return sorted(path for path in folders if not any(str(one) in folders for one in Path(path).parents))


def start_loopback() -> None:
    """Bring up the loopback of this network namespace. Raises OSError."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        request = struct.pack("16sh14x", b"lo", 0)
        flags = struct.unpack("16sh14x", ioctl(control, SIOCGIFFLAGS, request))[1]
        ioctl(control, SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", flags | IFF_UP))


def forward(port: int, folder: int, relay: str) -> None:
    """Connect a port of the loopback with a Unix socket in an open folder, in a child that ends with this process."""
    listener = socket.create_server(("127.0.0.1", port), backlog=1024)
    parent = os.getpid()
    if os.fork():
        listener.close()
        return
    try:
        end_with(parent)
        os.fchdir(folder)  # it is hidden, and the path of a socket is short
        asyncio.run(forwarded(listener, relay))
    finally:
        os._exit(1)


async def forwarded(listener: socket.socket, relay: str) -> None:
    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            sock = writer.get_extra_info("socket")
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # asyncio leaves it out for this listener
            inner_reader, inner_writer = await asyncio.open_unix_connection(relay)
            async with asyncio.TaskGroup() as both:
                both.create_task(pumped(reader, inner_writer))
                both.create_task(pumped(inner_reader, writer))
        writer.close()

    server = await asyncio.start_server(connected, sock=listener)
    await server.serve_forever()


async def pumped(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Copy one direction of a connection until it ends."""
    with contextlib.suppress(OSError):
        while data := await reader.read(PIECE_BYTES):
            writer.write(data)
            await writer.drain()
    writer.close()


if __name__ == "__main__":
    main(sys.argv[1])
