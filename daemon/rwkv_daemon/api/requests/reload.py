"""Reloading the configuration while everything runs: all of it is checked first, then all of it changes at once.

A configuration with an error is refused as a whole, with file and line, and the one in force stays. Jobs, engines and
clients are not interrupted: settings are read from `records.config` when they are used. A setting that cannot change in
a running daemon is named in the reply, and keeps its value until a restart.
"""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace

from rwkv_daemon.api import grants
from rwkv_daemon.api.grants import Grants
from rwkv_daemon.catalogue.contents import NodeBenchmarks, stamp_of
from rwkv_daemon.changes.records import Records
from rwkv_daemon.host import config_ownership, daemon_log
from rwkv_daemon.host.daemon_log import log
from rwkv_daemon.jobs import endpoint_jobs, judge_jobs
from rwkv_daemon.judge.judge_service import JudgeService
from rwkv_daemon.judge.judges import Judges
from rwkv_daemon.node import Node
from rwkv_daemon.remote.remote_model import RemoteModel
from rwkv_daemon.scheduling.endpoint_models import EndpointModels
from rwkv_daemon.store import StoreError
from rwkv_daemon.upkeep import service_status
from rwkv_data.definition.errors import DataError
from rwkvctl.protocol.errors import ConfigError, Exit, RefusedError
from rwkvctl.protocol.service import ReloadReply
from rwkvctl.settings import config, notify
from rwkvctl.settings.config import Config
from rwkvctl.settings.fields import Settings
from rwkvctl.settings.notify import NotifyTarget

PLACES = ("home", "socket", "folder")
"""Derived paths that stay as they are until a restart."""

STORE_PAUSE_S = 1.0
ROLES = "[roles]"
"""The text that marks notes about roles."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedConfig:
    """A complete configuration without errors; `waits` names settings that need a restart, `strange` are warnings about
    roles."""

    config: Config
    waits: tuple[str, ...]
    benchmarks: NodeBenchmarks
    judge: JudgeService | None
    checker: JudgeService | None
    endpoints: dict[str, RemoteModel]
    targets: tuple[NotifyTarget, ...]
    grants: Grants
    strange: tuple[str, ...]


async def reload(node: Node) -> ReloadReply:
    """Put the configuration in force as it is now. Raises RefusedError if a part of it is wrong, and StoreError if that
    it changes cannot be stored; nothing has changed then, and who asks again is told what does."""
    node.service.notifier.reloading()
    try:
        async with node.records.owner:
            found = await check(node.records, node.judges, node.catalogue.endpoints)
            changed = tuple(differences(node, found))
            await say(node.records, changed, found.waits)
            apply(node, found)
    except (ConfigError, DataError) as error:
        node.service.reload_problem = str(error)
        detail = f"The configuration is not used: {error}"
        raise RefusedError(
            "bad-configuration", detail, "The previous configuration stays in force.", Exit.USAGE
        ) from error
    finally:
        if node.engines.leases is not None:  # else the daemon is not ready yet, and `report` says so when it is
            await service_status.ready(node.work, node.service)
    return ReloadReply(changed=changed, waits=found.waits, warnings=(*found.config.warnings, *found.strange))


async def on_signal(node: Node, asked: asyncio.Event) -> None:
    """Reload on each SIGHUP, until cancelled. Nobody sends it again because the store was away for a moment."""
    while True:
        await asked.wait()
        asked.clear()
        try:
            await reload(node)
        except RefusedError as error:
            log.error("SIGHUP: %s", error)
        except StoreError as error:
            log.error("SIGHUP: the configuration is not in force yet: %s; it is tried again", error)
            asked.set()
            await asyncio.sleep(STORE_PAUSE_S)


async def check(records: Records, judges: Judges, endpoints: EndpointModels) -> CheckedConfig:
    """Read and check the whole configuration, with benchmarks, judges, endpoints, roles and notification targets,
    without applying any of it. Raises ConfigError or DataError."""
    wanted = config.load(records.config.flags)
    waits = tuple(waiting(records.config.settings, wanted.settings))
    kept = {name: getattr(records.config.settings, name) for name in waits}
    places = {name: getattr(records.config, name) for name in PLACES}
    found = replace(wanted, settings=replace(wanted.settings, **kept), **places)
    targets = notify.parse(*config.table("notify"))
    judge, checker = await judge_jobs.services(records, judges, found.settings)
    remotes = await endpoint_jobs.models(records, endpoints)
    config_ownership.check(found)
    granted, strange = grants.load()
    return CheckedConfig(
        config=found,
        waits=waits,
        benchmarks=await asyncio.to_thread(NodeBenchmarks.open, found),
        judge=judge,
        checker=checker,
        endpoints=remotes,
        targets=targets,
        grants=granted,
        strange=strange,
    )


def waiting(old: Settings, new: Settings) -> Iterator[str]:
    """Yield the settings that were changed and need a restart."""
    return (f.name for f in fields(Settings) if f.metadata["restart"] and getattr(old, f.name) != getattr(new, f.name))


def differences(node: Node, found: CheckedConfig) -> Iterator[str]:
    """Yield a sentence for each difference between the configuration in force and the one that was read."""
    for f in fields(Settings):
        old, new = getattr(node.records.config.settings, f.name), getattr(found.config.settings, f.name)
        if old != new:
            yield f"{f.name}: {old!r} is {new!r} now"
    if node.catalogue.benchmarks.as_read != stamp_of(found.config):
        yield "benchmarks: settings and files of the operator are read again; queued jobs keep theirs"
    if found.judge is not node.judges.judge:
        yield "judge: " + (f"{found.judge.model} from now on" if found.judge else "none any more")
    if found.checker not in {node.judges.checker, found.judge}:
        yield "checker: " + (f"{found.checker.model} from now on" if found.checker else "none any more")
    if found.endpoints != node.catalogue.endpoints.by_name:
        yield "endpoints: " + (", ".join(found.endpoints) or "none any more")
    if found.config.groups != node.records.config.groups:
        yield "groups: the limits have changed"
    if found.targets != node.notifications.targets:
        yield "notify: " + (", ".join(target.name for target in found.targets) or "no targets any more")
    if found.grants != node.request_state.grants:
        yield "roles: the rights have changed"


def apply(node: Node, found: CheckedConfig) -> None:
    """Put the checked configuration in force, without an await between the first change and the last."""
    node.records.config, node.catalogue.benchmarks, node.request_state.grants = (
        found.config,
        found.benchmarks,
        found.grants,
    )
    judge_jobs.use(node.judges, node.catalogue, found.judge, found.checker)
    node.catalogue.endpoints.by_name = found.endpoints
    node.notifications.replace(found.targets, since=node.records.bus.last)
    daemon_log.set_format(found.config.settings.log_format)
    node.records.notes = [note for note in node.records.notes if ROLES not in note] + list(found.strange)
    node.service.reload_problem = ""
    for folder in node.watches.folders.values():  # what could not be queued may be queued now
        folder.retry_at.clear()
        folder.look_at = 0.0
    node.watches.wake.set()


async def say(records: Records, changed: tuple[str, ...], waits: tuple[str, ...]) -> None:
    """Store an event that says what the reload changed and which settings need a restart."""
    what = "; ".join(changed) or "nothing has changed"
    later = f"; needs a restart: {', '.join(waits)}" if waits else ""
    async with records.change() as change:
        await change.note("daemon", text=f"the configuration was reloaded: {what}{later}")
