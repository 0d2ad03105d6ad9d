"""Start-up and shutdown of the daemon: one instance per home, adopt what runs, serve, leave running work adoptable."""

import argparse
import asyncio
import contextlib
import logging
import os
import resource
import signal
import socket
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from rwkv_daemon import periodic_tasks, recovery, supervisor
from rwkv_daemon.api import daemon_sockets, grants, socket_activation
from rwkv_daemon.api.requests import bulk_changes, deletion, reload
from rwkv_daemon.catalogue import weight_hashing
from rwkv_daemon.catalogue.contents import NodeBenchmarks
from rwkv_daemon.catalogue.offered import NodeCatalogue
from rwkv_daemon.changes.records import Records
from rwkv_daemon.gpus import gpu_watch
from rwkv_daemon.gpus.zombies import reaper_task
from rwkv_daemon.host import config_ownership, daemon_log, disk, loop_health, shown_files, socket_folder
from rwkv_daemon.host.daemon_service import DaemonService
from rwkv_daemon.host.home_lock import only_one
from rwkv_daemon.host.sd_notify import Notifier
from rwkv_daemon.jobs import endpoint_jobs, judge_jobs
from rwkv_daemon.node import Node
from rwkv_daemon.notify.outbox_task import notify_forever
from rwkv_daemon.planning import forecast_facts
from rwkv_daemon.recipes import recipe_task
from rwkv_daemon.samples import text_index
from rwkv_daemon.store import StoreDamagedError, StoreError
from rwkv_daemon.store.location import daemon_name, store_place
from rwkv_daemon.store.watched import WatchedStore
from rwkv_daemon.training import feedback_task, watch_task
from rwkv_daemon.training.feedback.compose import FeedbackSources
from rwkv_daemon.upkeep import service_status, store_maintenance
from rwkv_daemon.workers.cgroups import open_scopes
from rwkvctl import __version__
from rwkvctl.http.listeners import SocketInUseError
from rwkvctl.protocol.errors import Exit, RefusedError, RwkvctlError
from rwkvctl.protocol.showing import socket_beside
from rwkvctl.settings import config, notify, temporary_folder
from rwkvctl.settings.config import Config
from rwkvctl.text.json_envelope import fail

log = logging.getLogger("rwkvctl")
Task = Callable[[], Coroutine[Any, Any, None]]
AGAIN_S: Final = 5.0


def main(arguments: list[str]) -> int:
    """Run until SIGTERM or SIGINT; returns the exit code."""
    parser = argparse.ArgumentParser(prog="rwkvctl daemon", description="Run the daemon in the foreground.")
    parser.add_argument("--home", default="", help="folder of data, weights, runs and the store")
    parser.add_argument("--socket", default="", help="the Unix socket to listen on")
    parser.add_argument("--json", action="store_true", help="an error as JSON too")
    given = parser.parse_args(arguments)
    service = config.take_service_variables()
    daemon_log.set_up(service)
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


def without_temporary_folder() -> list[str]:
    """Return a sentence if no temporary folder can be written: engines would end as soon as they start."""
    folders = config.temporary_folders()
    if temporary_folder.writable(folders):
        return []
    return [f"{temporary_folder.NONE}: tried {', '.join(map(str, folders))}; see `rwkvctl doctor`"]


def raise_file_limit() -> None:
    """Raise the soft limit of open files to the hard one: each follower and worker needs some."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 65536) if hard > 0 else 65536, hard))


async def run(settings: Config, service: Mapping[str, str]) -> None:
    """Run from the lock to the exit. `service` holds the variables of the service manager."""
    doubts = config_ownership.check(settings)
    benchmarks = NodeBenchmarks.open(settings)
    store = WatchedStore(store_place(settings), daemon_name(settings))
    node = Node(
        Records(settings, store, store.health), NodeCatalogue(benchmarks), service=DaemonService(Notifier.of(service))
    )
    try:
        give_ballast(node)
        await store.open()
        node.engines.scopes = open_scopes(settings.settings.worker_cgroup)
        node.engines.scopes.tidy()
        daemon_log.set_format(settings.settings.log_format)
        node.notifications.replace(notify.parse(*config.table("notify")), since=0)
        node.request_state.grants, strange = grants.load()
        node.records.notes += (*strange, *doubts, *without_temporary_folder())
        async with serving(node, socket_activation.listeners(service)):
            await until_signalled(node, store)
    except StoreDamagedError as error:
        node.service.notifier.status(f"refused to start: {error}")
        raise
    finally:
        node.comparisons.questions.end()
        await store.close()
    idle_s = settings.settings.idle_unload_s
    log.info("stopped; runners go on, engines unload after %g s without work; the next daemon adopts them", idle_s)


@contextlib.asynccontextmanager
async def serving(node: Node, passed: Mapping[str, list[socket.socket]]) -> AsyncIterator[None]:
    """Listen, adopt, then supervise. Clients that come during adoption wait in the socket's backlog."""
    given = socket_activation.unix_listener(passed)
    opened = daemon_sockets.open_all(node, given)
    await recovery.begin(node)
    log.info("rwkvctl %s serves %s on %s", __version__, node.records.config.home, node.records.config.socket)
    for warning in (*node.records.config.warnings, *node.records.notes):
        log.warning("%s", warning)
    async with daemon_sockets.served(node, opened):
        yield


def give_ballast(node: Node) -> None:
    """Remove the ballast file before the store is opened, if the disk is full."""
    settings, home = node.records.config.settings, node.records.config.home
    with contextlib.suppress(OSError):
        room = disk.judge(disk.free(home), settings.min_free_disk_bytes, settings.ballast_bytes, was_low=False)
        if room.give_ballast and disk.give_ballast(home / "ballast"):
            log.error("the disk is all but full: the ballast file is removed, so that the store can be opened")


async def until_signalled(node: Node, store: WatchedStore) -> None:
    """Supervise until SIGTERM or SIGINT. Workers are not touched."""
    stop, hangup = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    loop.add_signal_handler(signal.SIGHUP, hangup.set)
    async with asyncio.TaskGroup() as tasks:
        first = [
            tasks.create_task(restarted_on_error(name, task), name=name) for name, task in first_tasks(node, store)
        ]
        others = [
            tasks.create_task(restarted_on_error(name, task, node.records.up), name=name)
            for name, task in later_tasks(node, hangup)
        ]
        await stop.wait()
        node.service.stopping = True
        node.service.notifier.stopping()
        store.cut()
        async with node.records.owner:
            for task in (*first, *others):
                task.cancel()


def first_tasks(node: Node, store: WatchedStore) -> Iterator[tuple[str, Task]]:
    """Yield the tasks that run from the start, with or without a store."""
    yield "store", store.watch
    yield "resume", lambda: recovery.resume_when_possible(node)
    yield "store health", lambda: recovery.tell(node)
    yield "pulse", lambda: loop_health.beat(node.service.pulse, node.service.notifier)
    yield "report", lambda: service_status.report(node.work, node.service)


def later_tasks(node: Node, hangup: asyncio.Event) -> Iterator[tuple[str, Task]]:
    """Yield the tasks that run from when the store is there until the daemon ends."""
    yield "gpus", lambda: gpu_watch.watch(node.work, node.gpus)
    yield "upkeep", lambda: periodic_tasks.keep_up(node)
    yield "logs", lambda: node.tails.keep_up(node.records.bus)
    yield "orders", lambda: bulk_changes.carry_out(node)
    yield "supervise", lambda: supervisor.supervise(node)
    yield "forecast", lambda: forecast_facts.keep_current(node.work)
    yield "zombies", lambda: reaper_task.watch(node.work, node.gpus)
    yield "hash", lambda: weight_hashing.hash_forever(node.records, node.waiting, node.catalogue)
    yield (
        "endpoints",
        lambda: endpoint_jobs.serve_forever(node.records, node.waiting, node.running, node.catalogue.endpoints),
    )
    yield "judge", lambda: judge_jobs.judge_forever(node.records, node.waiting, node.judges, node.catalogue)
    yield "recipes", lambda: recipe_task.make_forever(node.work, node.catalogue, node.recipes)
    yield "watches", lambda: watch_task.watch_forever(node.work, node.catalogue, node.watches)
    sources = FeedbackSources(node.records, node.catalogue, node.comparisons)
    yield "feedback", lambda: feedback_task.write_forever(node.work, sources, node.watches)
    yield "prune", lambda: deletion.remove_forever(node.records, node.service)
    yield "housekeeping", lambda: store_maintenance.keep_house(node.records, node.engines)
    yield "last status", lambda: recovery.remember(node)
    yield "index", lambda: text_index.index_forever(node.records, node.waiting)
    yield "reload", lambda: reload.on_signal(node, hangup)
    yield "notify", lambda: notify_forever(node.records, node.catalogue, node.comparisons, node.notifications)
    yield "shown files", lambda: take_shown_files(node)


async def take_shown_files(node: Node) -> None:
    """Let users show the files that their requests name."""
    path = Path(socket_beside(str(node.records.config.socket)))

    def bind(path: Path) -> socket.socket:
        socket_folder.check_private(path.parent)
        return daemon_sockets.unix_socket(node.records.config, path)

    await shown_files.serve(node.catalogue.shown_files, path, bind)


async def restarted_on_error(name: str, task: Task, begun: asyncio.Event | None = None) -> None:
    """Run a task, and run it again if it fails: an error in one task must not end the daemon. A task with `begun` waits
    for that event first."""
    if begun is not None:
        await begun.wait()
    while True:
        try:
            await task()
        except StoreError as error:
            log.warning("the task '%s' has to wait: %s", name, error)
            await asyncio.sleep(AGAIN_S)
        except Exception:
            log.exception("the task '%s' failed; it starts again in %.0f s", name, AGAIN_S)
            await asyncio.sleep(AGAIN_S)
        else:
            return
