"""The environment of a run: what the contract names, what the manifest adds, and nothing else."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rwkv_daemon.harness import manifest
from rwkv_daemon.harness.manifest import Manifest
from rwkvctl.settings import config

SYSTEM_PATH: Final = "/usr/local/bin:/usr/bin:/bin"


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """The folders of a run: `out` is empty at its start, `cache` is shared by all runs of the harness; `venv` is the
    installation, `own` the operator's tasks."""

    out: Path
    cache: Path
    venv: Path
    own: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What a run is to measure, and how it reaches the model."""

    run: str
    model: str
    weights_path: str
    weights_sha256: str
    tasks: str
    seed: int
    max_tokens: int
    base_url: str = ""
    api_key: str = ""
    served_as: str = ""


def values(asked: Asked, places: Places, one: Manifest) -> dict[str, str]:
    """Return what the placeholders of the manifest stand for."""
    return {
        "python": str(places.venv / "bin" / "python"),
        "own": str(places.own),
        "tasks": asked.tasks,
        "model": asked.served_as,
        "base_url": asked.base_url,
        "out": str(places.out),
        "cache": str(places.cache),
        "concurrency": str(one.concurrency),
        "max_tokens": str(asked.max_tokens),
        "api_key": asked.api_key,
    }


def of_run(asked: Asked, places: Places, one: Manifest) -> dict[str, str]:
    """Return the whole environment of a run. The names after RWKVCTL_CACHE are those that containers of RD-Agent's
    contract read. RWKVCTL_ATTEMPT is how the daemon finds processes that were left."""
    filled = {name: manifest.filled((text,), values(asked, places, one))[0] for name, text in one.environment.items()}
    return {
        "PATH": f"{places.venv}/bin:{SYSTEM_PATH}",
        "HOME": str(places.out / "home"),
        "TMPDIR": str(places.out / "tmp"),
        "LANG": "C.UTF-8",
        "VIRTUAL_ENV": str(places.venv),
        "PYTHONUNBUFFERED": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        "RWKVCTL_ATTEMPT": config.marker("RWKVCTL_ATTEMPT"),
        "RWKVCTL_RUN_ID": asked.run,
        "RWKVCTL_MODEL": asked.model,
        "RWKVCTL_MODEL_SHA256": asked.weights_sha256,
        "RWKVCTL_BASE_URL": asked.base_url,
        "RWKVCTL_API_KEY": asked.api_key,
        "RWKVCTL_TASKS": asked.tasks,
        "RWKVCTL_MAX_TOKENS": str(asked.max_tokens),
        "RWKVCTL_SEED": str(asked.seed),
        "RWKVCTL_OUT": str(places.out),
        "RWKVCTL_CACHE": str(places.cache),
        "BENCHMARK_DATASETS": asked.tasks,
        "MODEL_ABBR": asked.model,
        "BASE_MODEL": asked.weights_path,
        "MAX_OUT_LEN": str(asked.max_tokens),
        "BATCH_SIZE": str(one.concurrency),
        "NUM_GPUS": "0",
        **filled,
    }


def write_netrc(places: Places, token: str) -> None:
    """Write the token where clients look that are told of none, such as lm_eval's for tokenizers."""
    file = places.out / "home" / ".netrc"
    file.touch(mode=0o600)
    file.write_text(f"machine 127.0.0.1 login run password {token}\n", encoding="ascii")


def made(places: Places) -> None:
    """Make the folders of a run. Raises OSError, also if `out` is there already: nothing of another run is in it."""
    os.umask(0o077)
    places.out.mkdir(parents=True)
    for folder in (places.out / "home", places.out / "tmp"):
        folder.mkdir()
