"""The files of a checkpoint: one .pth or .safetensors, or a folder in the Hugging Face layout.

An index.json is untrusted: it may only name plain files of its own folder. A member may be a link, as in the
hub's cache (`snapshots/COMMIT/x -> ../../blobs/HASH`), but only to a file of that folder or of that cache's blobs.
"""

import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from rwkv_weights.errors import UnreadableCheckpointError
from rwkv_weights.formats import json_table

SINGLE: Final = "model.safetensors"
INDEX: Final = "model.safetensors.index.json"
CONFIG: Final = "config.json"
LONGEST_JSON: Final = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class CheckpointParts:
    """The weight files, the file each tensor must be in (None where there is no index), and config.json's content."""

    files: tuple[Path, ...]
    places: dict[str, str] | None
    config: dict[str, Any]


def is_layout(folder: Path) -> bool:
    """Whether a folder looks like a checkpoint in the Hugging Face layout."""
    return (folder / SINGLE).exists() or (folder / INDEX).exists()


def find(path: Path) -> CheckpointParts:
    """Return the files of the checkpoint at a path: a file, an index or a folder. Raises UnreadableCheckpointError if
    one is missing, cannot be read or is no plain file of that folder."""
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UnreadableCheckpointError(f"cannot read {path}: {reason}") from error
    if stat.S_ISDIR(mode):
        return _folder(path)
    if not stat.S_ISREG(mode):
        raise UnreadableCheckpointError(f"cannot read {path}: it is no file, but a pipe, socket or device")
    if path.name.endswith(".safetensors.index.json"):
        return _sharded(path, path.parent)
    return CheckpointParts((path,), None, _config(path.parent) if path.name == SINGLE else {})


def _folder(folder: Path) -> CheckpointParts:
    if (folder / SINGLE).exists():
        return CheckpointParts((member(folder, SINGLE),), None, _config(folder))
    if (folder / INDEX).exists():
        return _sharded(folder / INDEX, folder)
    loose = sorted(folder.glob("*.safetensors"))
    if len(loose) == 1:
        return CheckpointParts((member(folder, loose[0].name),), None, _config(folder))
    what = f"{len(loose)} .safetensors files but no {INDEX}" if loose else f"neither {SINGLE} nor {INDEX}"
    raise UnreadableCheckpointError(f"cannot read {folder}: the folder has {what}")


def _sharded(index: Path, folder: Path) -> CheckpointParts:
    places = _json(folder, index.name).get("weight_map")
    if not isinstance(places, dict) or not places or not all(isinstance(name, str) for name in places.values()):
        raise UnreadableCheckpointError(f"{index.name} has no weight_map from tensors to files")
    return CheckpointParts(
        tuple(member(folder, name) for name in sorted(set(places.values()))), places, _config(folder)
    )


def member(folder: Path, name: str) -> Path:
    """Return the path of a file of the folder that an index names. Raises UnreadableCheckpointError for anything
    else."""
    if name in {"", ".", ".."} or not name.isprintable() or "/" in name or "\\" in name:
        raise UnreadableCheckpointError(f"{folder.name} is refused: it names {name!r}, which is no file of its folder")
    path = folder / name
    try:
        real, home = path.resolve(strict=True), folder.resolve(strict=True)
        regular = stat.S_ISREG(real.stat().st_mode)
    except (OSError, RuntimeError) as error:
        reason = getattr(error, "strerror", None) or "the link leads in a circle"
        raise UnreadableCheckpointError(f"cannot read {path}: {reason}") from error
    blobs = home.parent.parent / "blobs" if home.parent.name == "snapshots" else home
    if real.parent not in {home, blobs}:
        raise UnreadableCheckpointError(f"{folder.name} is refused: its {name} is a link out of the folder")
    if not regular:
        raise UnreadableCheckpointError(f"cannot read {path}: it is no file, but a folder, pipe, socket or device")
    return path


def _config(folder: Path) -> dict[str, Any]:
    return _json(folder, CONFIG) if (folder / CONFIG).exists() else {}


def _json(folder: Path, name: str) -> dict[str, Any]:
    return json_table.read(member(folder, name), LONGEST_JSON)
