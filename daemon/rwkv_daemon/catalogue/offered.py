"""What can be measured on this node, as the daemon holds it in memory."""

import asyncio
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from rwkv_daemon.catalogue.contents import IdentityKey, NodeBenchmarks
from rwkv_daemon.catalogue.regex_guard import Searches
from rwkv_daemon.host.shown_files import ShownFiles
from rwkv_daemon.rules.file_settling import Settling
from rwkv_daemon.scheduling.endpoint_models import EndpointModels


class ReadyFile(NamedTuple):
    """A checkpoint that is to be hashed, if it is still this file; `label`: what it is called meanwhile."""

    identity: IdentityKey
    label: str


@dataclass(slots=True)
class ReadyFiles:
    """The checkpoints in watched folders that are whole, and are to be hashed. `wanted`: those of each watch, in their
    order, and `more` is set when there are others; `done`: those that are hashed, `failed`: why others could not be,
    and `hashed` is set when there are more of either."""

    wanted: dict[int, dict[Path, ReadyFile]] = field(default_factory=dict)
    done: set[IdentityKey] = field(default_factory=set)
    failed: dict[IdentityKey, str] = field(default_factory=dict)
    more: asyncio.Event = field(default_factory=asyncio.Event)
    hashed: asyncio.Event = field(default_factory=asyncio.Event)

    def want(self, watch: int, files: dict[Path, ReadyFile]) -> None:
        """Set which files of a watch are to be hashed; results of files that nobody wants any more are dropped."""
        if files != self.wanted.get(watch, {}):
            self.wanted[watch] = files
            known = {file.identity for file in self.all().values()}
            self.done &= known
            self.failed = {identity: why for identity, why in self.failed.items() if identity in known}
            self.more.set()

    def all(self) -> dict[Path, ReadyFile]:
        """Return those of every watch."""
        return {path: file for files in self.wanted.values() for path, file in files.items()}


@dataclass(slots=True)
class NodeCatalogue:
    """The benchmarks with their rows, the models behind endpoints, the checkpoints that are being copied, the
    searches by `--model-regex` in progress, the files that users have shown, and those that watches have found."""

    benchmarks: NodeBenchmarks
    endpoints: EndpointModels = field(default_factory=EndpointModels)
    settling: Settling = field(default_factory=Settling)
    searches: Searches = field(default_factory=Searches)
    shown_files: ShownFiles = field(default_factory=ShownFiles)
    ready_files: ReadyFiles = field(default_factory=ReadyFiles)
