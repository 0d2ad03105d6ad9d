"""Start-up and shutdown of the daemon: one instance a home, adopt what runs, serve, leave running work adoptable."""

import argparse
import asyncio
import contextlib
import fcntl
import logging
import os
import resource
import signal
import socket
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from rwkv_daemon import (
    activation,
    deleting,
    events,
    forecasting,
    hashing,
    housekeeping,
    indexing,
    journal,
    judging,
    listening,
    pulse,
    reloading,
    reporting,
    roles,
    strange_runs,
    supervisor,
    trusted,
    upkeep,
)
from rwkv_daemon.catalogue import Benchmarks
from rwkv_daemon.cgroups import open_scopes
from rwkv_daemon.gpus import watch
from rwkv_daemon.node import Node
from rwkv_daemon.notify.service import notify_forever
from rwkv_daemon.sd_notify import Notifier
from rwkv_daemon.store import open_store
from rwkv_daemon.store_place import daemon_name, store_place
from rwkv_daemon.zombies import watch as zombies
from rwkvctl import __version__, config, notify_config
from rwkvctl.config import Config
from rwkvctl.envelope import fail
from rwkvctl.protocol.errors import Exit, RefusedError, RwkvctlError
from rwkvctl.sockets import SocketInUseError

log = logging.getLogger("rwkvctl")
Chore = Callable[[], Coroutine[Any, Any, None]]
AGAIN_S: Final = 5.0


class AlreadyRunningError(RwkvctlError):
    """Another daemon owns this home."""

    exit_code = Exit.REFUSED


def main(arguments: list[str]) -> int:
    """Run until SIGTERM or SIGINT; returns the exit code."""
    parser = argparse.ArgumentParser(prog="rwkvctl daemon", description="Run the daemon in the foreground.")
    parser.add_argument("--home", default="", help="where data, weights, runs and the store lie")
    parser.add_argument("--socket", default="", help="the Unix socket to listen on")
    parser.add_argument("--json", action="store_true", help="an error as JSON too")
    given = parser.parse_args(arguments)
    service = config.take_service_variables()
    journal.set_up(service)
    try:
        settings = config.load({"home": given.home, "socket": given.socket})
        os.umask(0o077)
        with only_one(settings):
            raise_file_limit()
            asyncio.run(run(settings, service))
    except SocketInUseError as error:
        return fail("rwkvctl daemon", RefusedError("in-use", str(error), "", Exit.REFUSED), as_json=given.json)
    except RwkvctlError as error:
        return fail("rwkvctl daemon", error, as_json=given.json)
    return Exit.OK


@contextlib.contextmanager
def only_one(settings: Config) -> Iterator[None]:
    """Hold the lock of the home: it dies with the process, unlike a pid file. Raises AlreadyRunningError."""
    try:
        for folder in (settings.home, settings.runs_dir, settings.data_dir, settings.weights_dir):
            folder.mkdir(parents=True, exist_ok=True)
        listening.make_folder(settings)
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


def raise_file_limit() -> None:
    """The soft limit of open files goes to the hard one: followers and workers each take some."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 65536) if hard > 0 else 65536, hard))


async def run(settings: Config, service: Mapping[str, str]) -> None:
    """Everything between the lock and the exit. `service` is what the service manager says."""
    doubts = trusted.check(settings)
    benchmarks = Benchmarks.open(settings)
    store = await open_store(store_place(settings), daemon_name(settings))
    node = Node(settings, store, benchmarks, notifier=Notifier.of(service))
    try:
        node.scopes = open_scopes(settings.settings.worker_cgroup)
        node.scopes.tidy()
        journal.set_format(settings.settings.log_format)
        node.bus.last = await events.newest_number(store)
        node.notify.replace(notify_config.parse(*config.table("notify")), since=node.bus.last)
        node.grants, strange = roles.load()
        node.notes += (*strange, *doubts)
        await strange_runs.set_aside(node)
        await judging.open_services(node)
        async with serving(node, activation.listeners(service)):
            await until_signalled(node)
    finally:
        node.looks.end()
        await node.store.close()
    log.info("stopped; engines and runners go on, the next daemon adopts them")


@contextlib.asynccontextmanager
async def serving(node: Node, passed: Mapping[str, list[socket.socket]]) -> AsyncIterator[None]:
    """Listen, adopt, then supervise. Clients that come during adoption wait in the socket's backlog."""
    given = activation.unix_listener(passed)
    listeners = listening.open_all(node, given)
    await supervisor.adopt(node)
    log.info("rwkvctl %s serves %s on %s", __version__, node.config.home, node.config.socket)
    for warning in (*node.config.warnings, *node.notes):
        log.warning("%s", warning)
    try:
        async with listening.served(node, listeners):
            yield
    finally:
        if given is None:  # else it is the service manager's, and clients queue in it
            node.config.socket.unlink(missing_ok=True)


async def until_signalled(node: Node) -> None:
    """Supervise until SIGTERM or SIGINT. Workers are not touched."""
    stop, hangup = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    loop.add_signal_handler(signal.SIGHUP, hangup.set)
    async with asyncio.TaskGroup() as tasks:
        chores = [tasks.create_task(kept_going(name, chore), name=name) for name, chore in chores_of(node, hangup)]
        await stop.wait()
        node.stopping = True
        node.notifier.stopping()
        async with node.owner:
            for chore in chores:
                chore.cancel()


def chores_of(node: Node, hangup: asyncio.Event) -> Iterator[tuple[str, Chore]]:
    """What goes on for as long as the daemon lives, each in a task of its own."""
    yield "gpus", lambda: watch.watch(node)
    yield "upkeep", lambda: upkeep.keep_up(node)
    yield "logs", lambda: node.tails.keep_up(node.bus)
    yield "supervise", lambda: supervisor.supervise(node)
    yield "forecast", lambda: forecasting.keep_current(node)
    yield "zombies", lambda: zombies.watch(node)
    yield "hash", lambda: hashing.hash_forever(node)
    yield "judge", lambda: judging.judge_forever(node)
    yield "prune", lambda: deleting.remove_forever(node)
    yield "housekeeping", lambda: housekeeping.keep_house(node)
    yield "index", lambda: indexing.index_forever(node)
    yield "pulse", lambda: pulse.beat(node.pulse, node.notifier)
    yield "report", lambda: reporting.report(node)
    yield "reload", lambda: reloading.on_signal(node, hangup)
    yield "notify", lambda: notify_forever(node)


async def kept_going(name: str, chore: Chore) -> None:
    """A mistake of ours in one chore must not end the daemon, and with it all others: it is logged, and the chore
    begins anew."""
    while True:
        try:
            await chore()
        except Exception:
            log.exception("the chore '%s' failed; it begins anew in %.0f s", name, AGAIN_S)
            await asyncio.sleep(AGAIN_S)
        else:
            return
