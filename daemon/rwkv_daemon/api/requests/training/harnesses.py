"""Answers about outside harnesses."""

import asyncio

from rwkv_daemon.harness import installation, manifest
from rwkv_daemon.harness.installation import Installation
from rwkv_daemon.harness.manifest import ManifestError
from rwkvctl.protocol.errors import Exit, RefusedError
from rwkvctl.protocol.training.harnesses import HarnessesReply, HarnessTasksReply, HarnessTasksRequest, HarnessView
from rwkvctl.settings.config import Config


async def listed(config: Config) -> HarnessesReply:
    """Answer `GET /v1/harnesses`: each with its state, and what its own log says where it is not ready."""
    return await asyncio.to_thread(_listed, config)


def _listed(config: Config) -> HarnessesReply:
    return HarnessesReply(items=tuple(_view(config, name) for name in manifest.names(config)))


def _view(config: Config, name: str) -> HarnessView:
    try:
        harness = manifest.load(config, name)
    except ManifestError as error:
        return HarnessView(name=name, problem=str(error))
    at = Installation.of(config, harness)
    state, detail = at.state()
    known = at.tasks()
    try:
        outdated = known is not None and known.own_sha256 != installation.own_sha256(at.own)
    except OSError as error:
        return HarnessView(name=name, version=harness.manifest.version, state=state, problem=f"{error}")
    return HarnessView(
        name=name,
        version=harness.manifest.version,
        state=state,
        detail=detail,
        log=str(at.log) if state != "not built" else "",
        tasks=len(known.names) if known else 0,
        own=str(config.harnesses_dir / name),
        outdated=outdated,
        network=harness.manifest.network,
        settings=tuple(sorted({*harness.manifest.options, "max_tokens"})),
    )


async def tasks(config: Config, request: HarnessTasksRequest) -> HarnessTasksReply:
    """Answer `GET /v1/harness-tasks`. Raises RefusedError for a harness that does not exist or is not built."""
    return await asyncio.to_thread(_tasks, config, request)


def _tasks(config: Config, request: HarnessTasksRequest) -> HarnessTasksReply:
    try:
        known = Installation.of(config, manifest.load(config, request.name)).tasks()
    except ManifestError as error:
        raise RefusedError("no-such-harness", str(error), "", Exit.NOT_FOUND) from error
    if known is None:
        hint = f"`rwkvctl harness build {request.name}` installs it."
        raise RefusedError("not-built", f"The harness {request.name} is not built.", hint, Exit.REFUSED)
    words = request.words.lower().split()
    found = [name for name in known.names if all(word in name.lower() for word in words)]
    return HarnessTasksReply(harness=request.name, tasks=tuple(found[: request.limit]), total=len(found))
