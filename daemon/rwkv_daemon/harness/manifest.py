"""The manifest of a harness: which version, how it is installed, its command lines, and who reads its results.

It is a TOML file: one of those that come with rwkvctl, or the operator's NAME.toml in the folder `harnesses` of the
configuration, which takes precedence. Words of its command lines may hold `{name}`: see `IN_COMMANDS`.
"""

import hashlib
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Literal

import msgspec
from msgspec import Struct

from rwkvctl.protocol.errors import Exit, RwkvctlError
from rwkvctl.settings.config import Config

SHIPPED: Final = Path(__file__).parent / "shipped"
NAME: Final = re.compile(r"[a-z][a-z0-9-]{0,31}")
VERSION: Final = re.compile(r"[0-9A-Za-z][0-9A-Za-z.+_-]{0,31}")
VARIABLE: Final = re.compile(r"[A-Z][A-Z0-9_]*")
PLACEHOLDER: Final = re.compile(r"\{(\w+)\}")
IN_TASKS: Final = frozenset({"python", "own"})
"""What the command that lists the tasks may hold: the Python of the installation, and the folder of own tasks."""
IN_FETCH: Final = IN_TASKS | {"tasks", "cache"}
"""What the command that fetches rows may hold: also the task, and the folder to put them into."""
IN_COMMANDS: Final = IN_FETCH | {"model", "base_url", "out", "concurrency", "max_tokens"}
"""What the command of a run may hold: also the tasks, with commas; the model's name; the address of the OpenAI routes,
up to /v1; the empty folder for results; a folder that all runs of the harness share; and numbers of the manifest."""
IN_ENVIRONMENT: Final = IN_COMMANDS | {"api_key"}
"""What a variable may hold: also the token, which a command line would show to every user of the machine."""
RESERVED: Final = frozenset({"PATH", "HOME", "TMPDIR", "LANG", "VIRTUAL_ENV"})


class ManifestError(RwkvctlError):
    """There is no such harness, or its manifest cannot be used; the message names the file."""

    exit_code = Exit.USAGE


class Manifest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A harness. `lock` is a file of pip requirements with hashes, beside the manifest. `tasks` prints the names of its
    tasks, one a line. `fetch` fetches the rows of a task before its first run, with the network and without the model;
    the cache of the runs is then what it has fetched, and they cannot change it. `options` are the words that a setting
    of the dispatch adds to `command`, its value as `{value}`. Without `network` a run reaches nothing but the model.
    A command ends after `wall_s` seconds, or after `silence_s` without output and requests. A run may have
    `concurrency` requests open. An answer has `max_tokens` where its task does not say how many."""

    version: str
    parser: Literal["lm-eval", "evalplus"]
    needs: Literal["endpoint"]
    lock: str
    tasks: tuple[str, ...]
    command: tuple[str, ...]
    fetch: tuple[str, ...] = ()
    network: bool = False
    wall_s: float = 86_400.0
    silence_s: float = 3_600.0
    concurrency: int = 16
    max_tokens: int = 1024
    options: dict[str, tuple[str, ...]] = {}
    environment: dict[str, str] = {}


class Harness(Struct, frozen=True, kw_only=True):
    """A manifest with its name, its file's text, and its lock's."""

    name: str
    manifest: Manifest
    text: str
    lock: str

    @property
    def label(self) -> str:
        """Name and version, as in `lm-eval@0.4.13`."""
        return f"{self.name}@{self.manifest.version}"

    @property
    def lock_sha256(self) -> str:
        return hashlib.sha256(self.lock.encode()).hexdigest()


def names(config: Config) -> list[str]:
    """Return the names of all harnesses: those that come with rwkvctl, and the operator's."""
    found = {path.stem for folder in (SHIPPED, config.harnesses_dir) for path in folder.glob("*.toml")}
    return sorted(name for name in found if NAME.fullmatch(name))


def load(config: Config, name: str) -> Harness:
    """Return a harness. Raises ManifestError."""
    for folder in (config.harnesses_dir, SHIPPED):
        path = folder / f"{name}.toml"
        if NAME.fullmatch(name) and path.is_file():
            try:
                text = path.read_text(encoding="utf-8")
                manifest = parse(text)
                lock = path.with_name(manifest.lock).read_text(encoding="utf-8")
            except (OSError, ValueError) as error:
                raise ManifestError(f"{path}: {error}.") from error
            return Harness(name=name, manifest=manifest, text=text, lock=lock)
    known = ", ".join(names(config))
    raise ManifestError(f"There is no harness {name}; there are {known}. {config.harnesses_dir} holds your own.")


def parse(text: str) -> Manifest:
    """Return a manifest from its TOML. Raises ValueError that says what is wrong."""
    manifest = msgspec.convert(tomllib.loads(text), Manifest)
    if not VERSION.fullmatch(manifest.version):
        raise ValueError(f"version is no version: {manifest.version!r}")
    if Path(manifest.lock).name != manifest.lock:
        raise ValueError(f"lock is no file beside the manifest: {manifest.lock!r}")
    if not manifest.tasks or not manifest.command:
        raise ValueError("tasks and command need at least one word each")
    if not (manifest.wall_s > 0 and manifest.silence_s > 0) or not 1 <= manifest.concurrency <= 1024:
        raise ValueError("wall_s and silence_s must be above 0, concurrency from 1 to 1024")
    if not 1 <= manifest.max_tokens <= 2**20:
        raise ValueError("max_tokens must be from 1 to 2^20")
    for name in manifest.environment:
        if not VARIABLE.fullmatch(name) or name in RESERVED or name.startswith(("RWKVCTL_", "LD_", "PYTHON")):
            raise ValueError(f"environment: {name} cannot be set")
    check("tasks", manifest.tasks, IN_TASKS)
    check("command", manifest.command, IN_COMMANDS)
    check("fetch", manifest.fetch, IN_FETCH)
    for name, words in manifest.options.items():
        check(f"options.{name}", words, IN_COMMANDS | {"value"})
    check("environment", tuple(manifest.environment.values()), IN_ENVIRONMENT)
    return manifest


def check(field: str, words: tuple[str, ...], known: frozenset[str]) -> None:
    """Raise ValueError for a placeholder that a field cannot have."""
    for name in (found for word in words for found in PLACEHOLDER.findall(word)):
        if name not in known:
            raise ValueError(
                f"{field} holds {{{name}}}; it may hold {', '.join(f'{{{one}}}' for one in sorted(known))}"
            )


def filled(words: tuple[str, ...], values: Mapping[str, str]) -> tuple[str, ...]:
    """Return words with their placeholders replaced; braces around anything else stay."""
    return tuple(PLACEHOLDER.sub(lambda found: values.get(found[1], found[0]), word) for word in words)
