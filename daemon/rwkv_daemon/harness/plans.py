"""What the enclosure of a run is told: a command line, an environment, and which folders it sees and may write."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from rwkv_daemon.harness import environment
from rwkv_daemon.harness.enclosure import EnclosurePlan
from rwkv_daemon.harness.environment import Asked, Places
from rwkv_daemon.harness.manifest import Manifest
from rwkv_daemon.workers.run_directory import JobSpec


def plan_of(
    spec: JobSpec, one: Manifest, asked: Asked, places: Places, words: Sequence[str], *, writable: Sequence[Path],
    sources: Mapping[Path, Path], relay: str,
) -> EnclosurePlan:  # fmt: skip
    """Return the plan for a command of a harness. `writable`: those of its places that it may write; `sources`: what it
    sees in the place of a folder; `relay`: the Unix socket of the engines, empty for a command with the network."""
    assert spec.harness is not None
    interpreter = (places.venv / "bin" / "python").resolve().parent.parent
    seen = (places.venv, interpreter, places.cache, places.own)
    return EnclosurePlan(
        argv=tuple(words),
        environment=environment.of_run(asked, places, one),
        hidden=spec.harness.hidden,
        shown={str(path): str(sources.get(path, path)) for path in seen},
        writable=tuple(map(str, writable)),
        relay=relay,
        isolated=not spec.unsandboxed,
        parent=os.getpid(),
    )
