"""Checkpoints that are named by path: words of `--models` with files, and the entries of a `--manifest`.

Whoever asks looks for the files, with their own rights; the daemon is told absolute paths.
"""

# ruff: noqa: PTH100, PTH110, PTH111, PTH113, PTH116, PTH118, PTH119, PTH120, PTH123, PTH207
# pathlib would double the start-up of every verb

import glob
import os
import stat
from collections.abc import Iterable, Sequence
from typing import Any, Final

from rwkvctl.cli.client import Record
from rwkvctl.protocol.errors import Exit, RwkvctlError

ENDINGS: Final = (".pth", ".safetensors", ".safetensors.index.json")
LAYOUT: Final = ("model.safetensors", "model.safetensors.index.json")
"""Either makes a folder one checkpoint."""
PATH_KEYS: Final = ("path", "checkpoint_path")
NAME_KEYS: Final = ("name", "output_name")
"""What an entry of a manifest may call them: ours, then those of rwkv-skills."""


class CheckpointPathError(RwkvctlError):
    """A path names no checkpoint that can be read."""

    exit_code = Exit.USAGE


def split(words: Iterable[str], weights_dir: str) -> tuple[list[str], list[Record]]:
    """Words of `--models` as the daemon takes them, with paths made absolute, and the checkpoints among them that lie
    elsewhere than in the weights folder, in which the daemon looks itself. Raises CheckpointPathError."""
    inside = os.path.join(weights_dir, "") if weights_dir else "//"
    models: list[str] = []
    for word in words:
        path = os.path.abspath(os.path.expanduser(word)) if is_path(word) else ""
        models += [path] if path.startswith(inside) else expanded(word, path) if path else [word]
    models = list(dict.fromkeys(models))
    outside = [word for word in models if word.startswith("/") and not word.startswith(inside) and names_one(word)]
    return models, [{"path": path} for path in outside]


def is_path(word: str) -> bool:
    """Return whether a word names files here: it is a path, or the name of a file of weights in the current folder."""
    return "/" in word or (word.endswith(ENDINGS) and os.path.isfile(word))


def names_one(path: str) -> bool:
    """Return whether this is one path and not a pattern."""
    return os.path.exists(path) or not glob.has_magic(path)


def expanded(word: str, pattern: str) -> list[str]:
    """The checkpoints that a path or a glob of paths leads to; the word itself where there is none: it may be part of
    a path in the weights folder. Raises CheckpointPathError for one that is there and cannot be read."""
    paths = [pattern] if os.path.exists(pattern) else sorted(glob.glob(pattern))
    found = list(dict.fromkeys(whole(path) for path in paths if is_checkpoint(path)))
    if paths and not found:
        what = "is not a checkpoint" if len(paths) == 1 else "matches no checkpoint"
        kinds = "expected: a .pth or .safetensors file, or a folder with model.safetensors"
        raise CheckpointPathError(f"--models: {word} {what} ({kinds}).")
    for path in found:
        if not os.access(path, os.R_OK):
            raise CheckpointPathError(f"--models: you have no permission to read {path}.")
    return found or [word]


def is_checkpoint(path: str) -> bool:
    """A regular file of weights, or a folder in the Hugging Face layout; nothing is opened."""
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return False
    return is_layout(path) if stat.S_ISDIR(mode) else stat.S_ISREG(mode) and path.endswith(ENDINGS)


def is_layout(folder: str) -> bool:
    """Return whether a folder is one checkpoint in the Hugging Face layout."""
    return any(os.path.exists(os.path.join(folder, name)) for name in LAYOUT)


def whole(path: str) -> str:
    """The checkpoint that a file belongs to: a part of one in the Hugging Face layout stands for its folder."""
    folder, name = os.path.split(path)
    return folder if name.startswith("model") and ".safetensors" in name and is_layout(folder) else path


def of_manifest(path: str) -> list[Record]:
    """The checkpoints of a manifest, their paths made absolute from the manifest's folder. Raises
    CheckpointPathError."""
    import json

    try:
        with open(path, encoding="utf-8") as file:
            listed = json.load(file)
        entries = [(value_of(entry, PATH_KEYS), value_of(entry, NAME_KEYS, "")) for entry in listed]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise CheckpointPathError(f"--manifest {path} is not a JSON list of {{path, name}} ({error}).") from error
    if not all(isinstance(text, str) for entry in entries for text in entry):
        raise CheckpointPathError(f"--manifest {path}: path and name must be strings.")
    folder = os.path.dirname(os.path.abspath(path))
    names = [name or os.path.basename(where) for where, name in entries]
    if len(set(names)) < len(names):
        raise CheckpointPathError(f"--manifest {path}: two checkpoints have the same name; give each its own.")
    return [{"path": os.path.join(folder, os.path.expanduser(where)), "name": name} for where, name in entries]


def value_of(entry: Any, keys: Sequence[str], otherwise: str | None = None) -> Any:
    """The value under the first of these keys that there is. Raises KeyError without any and nothing otherwise."""
    found = next((entry[key] for key in keys if key in entry), otherwise)
    if found is None:
        raise KeyError(f"an entry has no {keys[0]!r}")
    return found
