"""The models behind endpoints: as facts for the planner, in lists, and what their servers turned out to do."""

import asyncio
import contextlib
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import msgspec

from rwkv_daemon.host.daemon_log import log
from rwkv_daemon.remote.dispatcher import ExchangeEvent
from rwkv_daemon.remote.probe import KnownServer, ProbeError
from rwkv_daemon.remote.remote_model import RemoteModel
from rwkv_daemon.rules.placement import EngineKind
from rwkv_daemon.rules.plan import ModelFact
from rwkv_daemon.workers.run_directory import replace
from rwkv_data.definition.kind import Kind
from rwkvctl.protocol.endpoints import WRITER
from rwkvctl.protocol.views import ModelView

TRY_S: Final = 60.0
"""So long is waited for what a server does when it is tried out."""
TRY_AGAIN_S: Final = 30.0
"""A server that could not be tried out is tried again so much later."""


@dataclass(slots=True)
class EndpointModels:
    """The models of the configuration by name, and what the daemon remembers of their servers."""

    by_name: dict[str, RemoteModel] = field(default_factory=dict)
    folder: Path = Path("/nonexistent")
    """Where what servers do is kept."""

    problems: dict[EngineKind, str] = field(default_factory=dict)
    """Why a server could not be tried out."""

    tried_at: dict[EngineKind, float] = field(default_factory=dict)
    """When it was (seconds of the event loop's clock)."""

    says: deque[tuple[str, ExchangeEvent]] = field(default_factory=lambda: deque(maxlen=100))
    """Events of endpoints, each with its model's name, that are not stored yet."""

    def facts(self) -> list[ModelFact]:
        """Return the models that a dispatch may choose, as the planner sees them."""
        return [fact_of(remote) for remote in self.by_name.values() if remote is not self.writer]

    @property
    def writer(self) -> RemoteModel | None:
        """The model that rewrites samples; None if the configuration has none."""
        return self.by_name.get(WRITER)

    def views(self) -> list[ModelView]:
        """Return the models as `rwkvctl models` shows them."""
        return [
            ModelView(name=fact.name, path=fact.path, size_bytes=0, sha256=fact.sha256, api=fact.api or "")
            for fact in self.facts()
        ]

    def why_not_asked(self, remote: RemoteModel) -> str:
        """Return why no job begins to ask a model; empty if one may. What its server does is found out first, because a
        score says so."""
        if remote.features is not None:
            return ""
        return self.problems.get(kind_of(remote), "its server is being tried out")

    def untried(self) -> list[RemoteModel]:
        """Return the models whose servers were not tried out yet, or could not be a while ago."""
        clock = asyncio.get_running_loop().time()
        return [
            remote
            for remote in self.by_name.values()
            if remote.features is None
            and not remote.probing
            and clock - self.tried_at.get(kind_of(remote), float("-inf")) > TRY_AGAIN_S
        ]

    async def try_out(self, remotes: Iterable[RemoteModel]) -> None:
        """Try out what servers do. For one that does not answer in time, the reason is kept."""
        async with asyncio.TaskGroup() as tasks:
            for remote in remotes:
                tasks.create_task(self._tried(remote), name=f"probe {remote.config.name}")

    async def _tried(self, remote: RemoteModel) -> None:
        kind = kind_of(remote)
        self.tried_at[kind] = asyncio.get_running_loop().time()
        try:
            async with asyncio.timeout(TRY_S):
                await remote.probe()
            self.problems.pop(kind, None)
            await asyncio.to_thread(self.remember, remote)
        except (ProbeError, TimeoutError) as error:
            why = str(error) or f"no answer within {TRY_S:.0f} s"
            self.problems[kind] = f"its server cannot be tried out: {why}"
            log.warning("%s: %s", remote.config.path, self.problems[kind])

    def recall(self, remote: RemoteModel) -> None:
        """Give a model what an earlier daemon found out of its server."""
        with contextlib.suppress(OSError, msgspec.MsgspecError, UnicodeDecodeError):
            remote.recall(msgspec.json.decode(self._file(remote).read_bytes(), type=KnownServer))

    def remember(self, remote: RemoteModel) -> None:
        """Keep what was found out of a server for the next daemon. Without room it is found out again."""
        with contextlib.suppress(OSError):
            self.folder.mkdir(parents=True, exist_ok=True)
            replace(self._file(remote), msgspec.json.encode(remote.known))

    def forget(self) -> None:
        """Have every server tried out again when a job waits for it."""
        for remote in self.by_name.values():
            remote.recall(None)
            with contextlib.suppress(OSError):
                self._file(remote).unlink(missing_ok=True)
        self.problems.clear()
        self.tried_at.clear()

    def _file(self, remote: RemoteModel) -> Path:
        return self.folder / f"{remote.config.identity}-{remote.config.api}.json"


def kind_of(remote: RemoteModel) -> EngineKind:
    """Return the kind of work that a model behind an endpoint does."""
    return EngineKind(remote.config.identity, remote.config.api)


def fact_of(remote: RemoteModel) -> ModelFact:
    """Return a model behind an endpoint as the planner sees it."""
    return ModelFact(
        name=remote.config.name,
        path=remote.config.path,
        sha256=remote.config.identity,
        api=remote.config.api,
        logprobs=remote.features.no_logprobs if remote.features is not None else None,
    )


def provenance(remote: RemoteModel, kind: Kind) -> dict[str, object]:
    """Return what a score says of the model behind an endpoint, what its server does, and how the kind's stages are
    sent to it."""
    return {
        "base_url": remote.config.server.base_url,
        "model": remote.config.service.model,
        "revision": remote.config.revision,
        "api": remote.config.api,
        "features": msgspec.to_builtins(remote.features),
        "stages": {
            stage.name: remote.sent_as(stage.sampling, stage.stops) for stage in kind.stages if stage.mode == "generate"
        },
    }
