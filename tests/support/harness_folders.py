"""A harness as it lies on a node: its manifest in the operator's folder, and an installation made by hand."""

from pathlib import Path

import msgspec

from rwkv_daemon.harness import manifest
from rwkv_daemon.harness.installation import Installation, TaskList, own_sha256
from rwkv_daemon.harness.manifest import Harness
from rwkvctl.settings import config
from rwkvctl.settings.config import Config

MANIFEST = """\
version = "1.2"
parser = "lm-eval"
needs = "endpoint"
lock = "mine.lock"
tasks = ["{python}", "list", "{own}"]
command = ["{python}", "run", "{tasks}", "{out}"]

[options]
limit = ["--limit", "{value}"]
seed = ["--seed", "{value}"]
shots = ["--shots", "{value}", "--to", "{out}"]

[environment]
MY_KEY = "key {api_key}"
MY_CACHE = "{cache}/x"
"""


def node(folder: Path) -> Config:
    """Return the configuration of a node whose home and configuration lie in a folder."""
    return config.load({}, {"RWKVCTL_HOME": str(folder / "home"), "XDG_CONFIG_HOME": str(folder / "config")})


def harness(folder: Path, text: str = MANIFEST) -> tuple[Config, Harness]:
    """Write the manifest of a harness `mine`, which is not built."""
    here = node(folder)
    here.harnesses_dir.mkdir(parents=True, exist_ok=True)
    (here.harnesses_dir / "mine.toml").write_text(text)
    (here.harnesses_dir / "mine.lock").write_text("lm-eval==1.2 --hash=sha256:00\n")
    return here, manifest.load(here, "mine")


def built(folder: Path, *tasks: str, text: str = MANIFEST) -> tuple[Config, Harness, Installation]:
    """Write a harness `mine` that is ready with some tasks."""
    here, mine = harness(folder, text)
    at = Installation.of(here, mine)
    at.folder.mkdir(parents=True, exist_ok=True)
    listed = TaskList(names=tasks, own=tasks, own_sha256=own_sha256(at.own))
    at.task_file.write_bytes(msgspec.json.encode(listed))
    at.copy_of_own(listed.own_sha256).mkdir(parents=True, exist_ok=True)
    return here, mine, at
