"""The checkpoints of this node: those in the weights folder, and the built-in one. No file is opened."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rwkv_weights.errors import UnknownCheckpointError, WeightsError
from rwkv_weights.formats import shards
from rwkv_weights.formats.index import first_three
from rwkv_weights.local import file_names
from rwkv_weights.local.checkpoint_files import (
    FileIdentity,
    HashedFile,
    builtin_checkpoint_path,
    hash_file,
    identity_of,
)
from rwkvctl.protocol.model_names import is_shown_as


@dataclass(frozen=True, slots=True)
class FoundCheckpoint:
    """A checkpoint: a file, or a folder in the Hugging Face layout with its weight files."""

    path: Path
    name: file_names.ModelName
    files: tuple[Path, ...]
    builtin: bool = False

    @property
    def label(self) -> str:
        return "builtin" if self.builtin else self.name.text

    @property
    def identity(self) -> FileIdentity:
        """The key of the checkpoint's sha256 in a cache. Raises OSError."""
        return identity_of(self.files)

    @property
    def size(self) -> int:
        """The size of the weight files in bytes. Raises OSError."""
        return sum(file.stat().st_size for file in self.files)


def checkpoints(weights_dir: Path) -> Iterator[FoundCheckpoint]:
    """Yield small models first, then by data version, then the built-in one. Files without a UTF-8 name are left
    out."""
    yield from sorted(_under(weights_dir), key=lambda found: (found.name.sort_key, str(found.path)))
    try:
        builtin = builtin_checkpoint_path()
    except FileNotFoundError:
        return
    yield FoundCheckpoint(builtin, file_names.parse(builtin.name), (builtin,), builtin=True)


def at(path: Path) -> FoundCheckpoint:
    """Return the checkpoint at a path, whether or not it loads."""
    folder = path.parent if path.name.endswith(".safetensors.index.json") else path
    if folder.is_dir():
        return FoundCheckpoint(
            folder, file_names.parse(_folder_name(folder)), tuple(sorted(folder.glob("*.safetensors")))
        )
    return FoundCheckpoint(path, file_names.parse(path.name), (path,))


def choose(word: str, weights_dir: Path) -> FoundCheckpoint:
    """Return the checkpoint of a path, a name, or a part of a name that only one has. Raises UnknownCheckpointError."""
    if word != "builtin" and (path := Path(word)).exists():
        return at(path)
    every = list(checkpoints(weights_dir))
    chosen = [found for found in every if word in {found.label, found.path.name}]
    chosen = chosen or [found for found in every if is_shown_as(found.label, word)]
    chosen = chosen or [found for found in every if word and word.lower() in found.label.lower()]
    if len(chosen) == 1:
        return chosen[0]
    if chosen:
        raise UnknownCheckpointError(
            f"{word!r} matches {first_three([str(found.path) for found in chosen])}; give more of the name."
        )
    raise UnknownCheckpointError(
        f"no checkpoint is called {word!r} in {weights_dir}, and no file; see `rwkvctl weights list`."
    )


def hashed(found: FoundCheckpoint, inodes: Sequence[str] = ()) -> HashedFile:
    """Hash the whole checkpoint. With `inodes` (of each of its files, see `is_file`) no other file is read. Raises
    OSError, and WeightsError for a folder without weight files."""
    if not found.files:
        raise WeightsError(f"{found.path} has no weight files.")
    before, only = found.identity, inodes or [""] * len(found.files)
    if len(only) != len(found.files):
        raise WeightsError(f"{found.path} has other files than those that were asked for.")
    each = [hash_file(file, inode) for file, inode in zip(found.files, only, strict=True)]
    sha256 = combined([file.name for file in found.files], [one.sha256 for one in each])
    return HashedFile(found.path, sha256, before, changed=found.identity != before or any(one.changed for one in each))


def sha256_of(found: FoundCheckpoint, known: Mapping[FileIdentity, str]) -> str:
    """Return the sha256 from the known hashes of its files; empty if one is not known. Raises OSError."""
    sums = [known.get(FileIdentity.of(file), "") for file in found.files]
    return combined([file.name for file in found.files], sums) if sums and all(sums) else ""


def combined(files: Sequence[str], sums: Sequence[str]) -> str:
    """Return one sha256 for a checkpoint of several files, as `sha256sum *.safetensors | sha256sum` prints it there.

    Raises WeightsError without files, because a hash of nothing would stand for every empty folder.
    """
    if not sums:
        raise WeightsError("a checkpoint without weight files has no sha256.")
    if len(sums) == 1:
        return sums[0]
    lines = "".join(f"{sha256}  {file}\n" for file, sha256 in zip(files, sums, strict=True))
    return hashlib.sha256(lines.encode()).hexdigest()


def _under(weights_dir: Path) -> Iterator[FoundCheckpoint]:
    folders: set[Path] = set()
    for path in _named(weights_dir, "model*.safetensors*"):
        if path.parent not in folders and shards.is_layout(path.parent):
            folders.add(path.parent)
            yield at(path.parent)
    for path in (*_named(weights_dir, "*.pth"), *_named(weights_dir, "*.safetensors")):
        if path.suffix == ".pth" or path.parent not in folders:
            yield FoundCheckpoint(path, file_names.parse(path.name), (path,))


def _named(folder: Path, pattern: str) -> Iterator[Path]:
    """Yield the files under a folder whose paths can be written to a terminal and to JSON."""
    for path in sorted(folder.rglob(pattern)) if folder.is_dir() else ():
        try:
            str(path).encode()
            if path.is_file():
                yield path
        except (OSError, UnicodeEncodeError):
            continue


def _folder_name(folder: Path) -> str:
    """Return the name of the model if the folder is in the hub's cache (models--OWNER--NAME/snapshots/COMMIT),
    otherwise the name of the folder."""
    if folder.absolute().parent.name == "snapshots":
        return folder.absolute().parent.parent.name.rsplit("--", 1)[-1]
    return folder.absolute().name
