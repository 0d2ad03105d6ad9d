"""Checkpoints that are named by path: words of `--models` with files, and the entries of a `--manifest`.

Whoever asks looks for the files, with their own rights; the daemon is told absolute paths.
"""

# ruff: noqa: PTH100, PTH110, PTH111, PTH113, PTH116, PTH118, PTH119, PTH120, PTH123, PTH207, PTH208
# pathlib would double the start-up of every verb

import glob
import os
import stat
from collections.abc import Iterable, Sequence
from typing import Any, Final

from rwkvctl.client import Record
from rwkvctl.protocol.errors import Exit, RwkvctlError

ENDINGS: Final = (".pth", ".safetensors", ".safetensors.index.json")
PATH_KEYS: Final = ("path", "checkpoint_path")
NAME_KEYS: Final = ("name", "output_name")
"""What an entry of a manifest may call them: ours, then those of rwkv-skills."""


class CheckpointPathError(RwkvctlError):
    """A path leads to no checkpoint that can be read."""

    exit_code = Exit.USAGE


def split(words: Iterable[str], weights_dir: str) -> tuple[list[str], list[Record]]:
    """Words of `--models` as the daemon takes them, with paths made absolute, and the checkpoints among them that lie
    elsewhere than in the weights folder, with names where those of their files are one. Raises CheckpointPathError."""
    models: list[str] = []
    for word in words:
        models += expanded(word) if is_path(word) else [word]
    inside = os.path.join(weights_dir, "") if weights_dir else "//"
    paths = [word for word in dict.fromkeys(models) if word.startswith("/") and names_one(word)]
    outside = [path for path in paths if not path.startswith(inside)]
    return models, [{"path": path, "name": name} for path, name in zip(outside, own_names(outside), strict=True)]


def is_path(word: str) -> bool:
    """Whether a word leads to files here: it is a path, or the name of a file of weights in the current folder."""
    return "/" in word or (word.endswith(ENDINGS) and os.path.isfile(word))


def names_one(path: str) -> bool:
    """Whether it is one path and no pattern."""
    return os.path.exists(path) or not glob.has_magic(path)


def expanded(word: str) -> list[str]:
    """The checkpoints that a path or a glob of paths leads to; the word itself where there is none: it may be part of
    a path in the weights folder. Raises CheckpointPathError for one that is there and cannot be read."""
    pattern = os.path.abspath(os.path.expanduser(word))
    paths = [pattern] if os.path.exists(pattern) else sorted(glob.glob(pattern))
    found = [path for path in paths if is_checkpoint(path)]
    if paths and not found:
        what = "is no checkpoint" if len(paths) == 1 else "leads to no checkpoint"
        kinds = "a .pth or .safetensors file, or a folder with model*.safetensors"
        raise CheckpointPathError(f"--models: {word} {what} ({kinds}).")
    for path in found:
        if not os.access(path, os.R_OK):
            raise CheckpointPathError(f"--models: you may not read {path}.")
    return found or [word]


def is_checkpoint(path: str) -> bool:
    """A regular file of weights, or a folder with some; nothing is opened."""
    try:
        mode = os.stat(path).st_mode
        if stat.S_ISDIR(mode):
            return any(name.startswith("model") and name.endswith(ENDINGS[1:]) for name in os.listdir(path))
    except OSError:
        return False
    return stat.S_ISREG(mode) and path.endswith(ENDINGS)


def own_names(paths: Sequence[str]) -> list[str]:
    """`FOLDER-FILE`, with as many folders as tell them apart, for checkpoints whose files have one name: what a run of
    training calls its last one. Empty where the file's own name will do."""
    files = [called(path, 1) for path in paths]
    same = [path for path, file in zip(paths, files, strict=True) if files.count(file) > 1]
    depth, deepest = 2, max((path.count("/") for path in same), default=0)
    while depth < deepest and len({called(path, depth) for path in same}) < len(same):
        depth += 1
    return [called(path, depth) if path in same else "" for path in paths]


def called(path: str, depth: int) -> str:
    """The last parts of a path as a name, without the ending of a file of weights."""
    ending = next((ending for ending in reversed(ENDINGS) if path.endswith(ending)), "")
    return "-".join(path.removesuffix(ending).split("/")[-depth:])


def of_manifest(path: str) -> list[Record]:
    """The checkpoints of a manifest, their paths made absolute from the manifest's folder. Raises
    CheckpointPathError."""
    import json

    try:
        with open(path, encoding="utf-8") as file:
            listed = json.load(file)
        entries = [(value_of(entry, PATH_KEYS), value_of(entry, NAME_KEYS, "")) for entry in listed]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise CheckpointPathError(f"--manifest {path} is no JSON list of {{path, name}} ({error}).") from error
    if not all(isinstance(text, str) for entry in entries for text in entry):
        raise CheckpointPathError(f"--manifest {path}: path and name must be text.")
    folder = os.path.dirname(os.path.abspath(path))
    names = [name or os.path.basename(where) for where, name in entries]
    if len(set(names)) < len(names):
        raise CheckpointPathError(f"--manifest {path}: two checkpoints have one name; scores could not be told apart.")
    return [{"path": os.path.join(folder, os.path.expanduser(where)), "name": name} for where, name in entries]


def value_of(entry: Any, keys: Sequence[str], otherwise: str | None = None) -> Any:
    """The value under the first of these keys that there is. Raises KeyError without any and nothing otherwise."""
    found = next((entry[key] for key in keys if key in entry), otherwise)
    if found is None:
        raise KeyError(f"an entry has no {keys[0]!r}")
    return found
