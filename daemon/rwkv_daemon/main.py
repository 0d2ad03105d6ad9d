"""Start-up and shutdown of the daemon: one instance a home, adopt what runs, serve, leave running work adoptable."""

import argparse
import asyncio
import contextlib
import fcntl
import logging
import os
import resource
import signal
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

from rwkv_daemon import gpus, hashing, judging, processes, supervisor
from rwkv_daemon.catalogue import Benchmarks
from rwkv_daemon.clock import now
from rwkv_daemon.node import Node
from rwkv_daemon.server import server
from rwkv_daemon.store import open_store
from rwkvctl import __version__, config
from rwkvctl.config import Config
from rwkvctl.httpd import SocketInUseError, bind_unix
from rwkvctl.protocol.errors import Exit, RwkvctlError

log = logging.getLogger("rwkvctl")


class AlreadyRunningError(RwkvctlError):
    """Another daemon owns this home."""

    exit_code = Exit.REFUSED


def main(arguments: list[str]) -> int:
    """Run until SIGTERM or SIGINT; returns the exit code."""
    parser = argparse.ArgumentParser(prog="rwkvctl daemon", description="Run the daemon in the foreground.")
    parser.add_argument("--home", default="", help="where data, weights, runs and the store lie")
    parser.add_argument("--socket", default="", help="the Unix socket to listen on")
    given = parser.parse_args(arguments)
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    try:
        settings = config.load({"home": given.home, "socket": given.socket})
        os.umask(0o077)
        with only_one(settings):
            raise_file_limit()
            asyncio.run(run(settings))
    except (RwkvctlError, SocketInUseError) as error:
        sys.stderr.write(f"rwkvctl daemon: {error}\n")
        return int(getattr(error, "exit_code", Exit.REFUSED))
    return Exit.OK


@contextlib.contextmanager
def only_one(settings: Config) -> Iterator[None]:
    """Hold the lock of the home: it dies with the process, unlike a pid file. Raises AlreadyRunningError."""
    try:
        for folder in (settings.home, settings.runs_dir, settings.data_dir, settings.weights_dir):
            folder.mkdir(parents=True, exist_ok=True)
        settings.socket.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        check_private(settings.socket.parent)
    except OSError as error:
        raise RwkvctlError(f"{error.filename} cannot be made: {error.strerror}. Set RWKVCTL_HOME.") from error
    descriptor = os.open(settings.home / "daemon.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.ftruncate(descriptor, 0)
        os.write(descriptor, f"{os.getpid()}\n".encode())
        yield
    except BlockingIOError:
        pid = Path(settings.home / "daemon.lock").read_text(encoding="ascii").strip() or "?"
        raise AlreadyRunningError(
            f"a daemon (pid {pid}) already runs on {settings.home}; talk to it, or set RWKVCTL_HOME to another home."
        ) from None
    finally:
        os.close(descriptor)


def check_private(folder: Path) -> None:
    """In a folder that somebody else owns or can write to, they could put their socket in our place."""
    found = folder.stat()
    if found.st_uid not in {os.geteuid(), 0} or found.st_mode & 0o022:
        raise RwkvctlError(f"{folder} belongs to another user or can be written by others; remove it, or set --socket.")


def raise_file_limit() -> None:
    """The soft limit of open files goes to the hard one: followers and workers each take some."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 65536) if hard > 0 else 65536, hard))


async def run(settings: Config) -> None:
    """Everything between the lock and the exit."""
    benchmarks = Benchmarks.open(settings)
    set_aside_strange_runs(settings)
    node = Node(settings, await open_store(settings.store), benchmarks)
    try:
        await judging.open_services(node)
        async with serving(node):
            await until_signalled(node)
    finally:
        await node.store.close()
    log.info("stopped; engines and runners go on, the next daemon adopts them")


def set_aside_strange_runs(settings: Config) -> None:
    """A new store counts jobs from 1 again: run directories of an older one would be taken for its own."""
    if settings.store.exists() or not any(settings.runs_dir.iterdir()):
        return
    aside = settings.runs_dir.with_name(f"runs.before-{now().replace(':', '')}")
    processes.end_all(settings.runs_dir)
    settings.runs_dir.rename(aside)
    settings.runs_dir.mkdir()
    log.warning("there is no store; the runs of an earlier one are kept in %s", aside)


@contextlib.asynccontextmanager
async def serving(node: Node) -> AsyncIterator[None]:
    """Listen, adopt, then supervise. Clients that come during adoption wait in the socket's backlog."""
    listener = bind_unix(node.config.socket)
    row = await node.store.one("SELECT COALESCE(MAX(seq), 0) AS seq FROM event")
    node.bus.last = row["seq"] if row else 0
    await supervisor.adopt(node)
    api = server(node)
    accepting = await api.start(listener)
    log.info("rwkvctl %s serves %s on %s", __version__, node.config.home, node.config.socket)
    for warning in node.config.warnings:
        log.warning("%s", warning)
    try:
        yield
    finally:
        accepting.close()
        await api.close()
        node.config.socket.unlink(missing_ok=True)


async def until_signalled(node: Node) -> None:
    """Supervise until SIGTERM or SIGINT. Workers are not touched."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    async with asyncio.TaskGroup() as tasks:
        chores = [
            tasks.create_task(gpus.watch(node), name="gpus"),
            tasks.create_task(supervisor.supervise(node), name="supervise"),
            tasks.create_task(hashing.hash_forever(node), name="hash"),
            tasks.create_task(judging.judge_forever(node), name="judge"),
        ]
        await stop.wait()
        node.stopping = True
        async with node.owner:
            for chore in chores:
                chore.cancel()
