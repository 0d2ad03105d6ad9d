"""Which files of the repositories are wanted, where each is to lie, and what of it is there already."""

import fnmatch
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final, Literal

from rwkv_weights.errors import WeightsError
from rwkv_weights.formats.shards import CONFIG, INDEX
from rwkv_weights.hub.remote import RemoteFile
from rwkv_weights.local import file_names
from rwkv_weights.local.checkpoint_files import FileIdentity
from rwkv_weights.local.sha256_cache import Sums
from rwkvctl.text.quantities import size

WEIGHTS: Final = (".pth", ".safetensors")
COMPANIONS: Final = frozenset({CONFIG, INDEX})
"""What a checkpoint in the Hugging Face layout needs beside its weights."""

State = Literal["missing", "part", "unhashed", "here", "other"]
"""`unhashed`: a file of this name and size lies there, and nobody has read it yet; `other`: another file lies there."""


@dataclass(frozen=True, slots=True)
class Item:
    """A file of the hub with its place here; `kept` bytes of it are there already."""

    remote: RemoteFile
    target: Path
    state: State
    kept: int

    @property
    def name(self) -> file_names.ModelName:
        layout = self.target.name in COMPANIONS or self.target.name.startswith("model")
        return file_names.parse(self.remote.repo if layout else self.remote.path)

    @property
    def left(self) -> int:
        """Bytes that are still to be fetched."""
        return self.remote.size - self.kept if self.state in {"missing", "part"} else 0


def wanted(files: Iterable[RemoteFile], globs: Sequence[str]) -> list[RemoteFile]:
    """The checkpoints that match, in natural order, each with what its layout needs beside it."""
    every = list(files)
    chosen = [file for file in every if file.path.lower().endswith(WEIGHTS) and matches(file.path, globs)]
    folders = {_folder(file) for file in chosen if PurePosixPath(file.path).name.startswith("model")}
    chosen += [f for f in every if PurePosixPath(f.path).name in COMPANIONS and _folder(f) in folders]
    return sorted(chosen, key=lambda file: (file_names.parse(file.path).sort_key, file.repo, file.path))


def matches(path: str, globs: Sequence[str]) -> bool:
    low = path.lower()
    ways = (low, PurePosixPath(low).name)
    return not globs or any(fnmatch.fnmatchcase(way, glob.lower()) for way in ways for glob in globs)


def _folder(file: RemoteFile) -> tuple[str, str]:
    return file.repo, str(PurePosixPath(file.path).parent)


def target_of(file: RemoteFile, folder: Path) -> Path:
    """Where a file is to lie: below the folder, and in a folder of the repository's name if its own name is `model...`.

    The path comes from the hub. Raises WeightsError if it would lead anywhere else.
    """
    pure = PurePosixPath(file.path)
    bad = not pure.name or not file.path.isprintable() or "\\" in file.path or pure.is_absolute() or ".." in pure.parts
    if bad or pure.name != file.path.rsplit("/", 1)[-1] or len(pure.name.encode()) > 200:
        raise WeightsError(f"{file.repo} is refused: its file {file.path!r} would not lie in {folder}")
    generic = pure.name in COMPANIONS or pure.name.startswith("model")
    return folder / (PurePosixPath(file.repo).name if generic else "") / pure


def part_of(file: RemoteFile, target: Path) -> Path:
    """Where an unfinished file grows. Named by its digest, so that bytes of another revision are never continued."""
    return target.with_name(f"{target.name}.{file.digest[:12]}.part")


def look(file: RemoteFile, folder: Path, sums: Sums) -> Item:
    """How a file stands here. Raises WeightsError."""
    target = target_of(file, folder)
    try:
        there = target.stat().st_size if target.exists() else None
        if there is None and target.is_symlink():
            return Item(file, target, "other", 0)
        part = part_of(file, target)
        kept = min(part.stat().st_size, file.size) if part.exists() else 0
        known = sums.known().get(FileIdentity.of(target), "") if there is not None else ""
    except OSError as error:
        raise WeightsError(f"{target} cannot be looked at: {error.strerror or error}") from error
    if there is None:
        return Item(file, target, "part" if kept else "missing", kept)
    if there != file.size or (known and file.sha256 and known != file.sha256):
        return Item(file, target, "other", 0)
    return Item(file, target, "here" if known and known == file.sha256 else "unhashed", file.size)


def once(items: Iterable[Item]) -> list[Item]:
    """Each place here once. Raises WeightsError if two different files would lie there."""
    by_target: dict[Path, Item] = {}
    for item in items:
        other = by_target.setdefault(item.target, item)
        if other.remote.digest != item.remote.digest:
            one, two = other.remote.repo, item.remote.repo
            raise WeightsError(
                f"{one} and {two} both have {item.target.name}, and differ; fetch one --to another folder."
            )
    return list(by_target.values())


def check_space(items: Iterable[Item], folder: Path, spare_bytes: int) -> int:
    """The free bytes of the folder's disk. Raises WeightsError if what is left to fetch does not fit."""
    need = sum(item.left for item in items)
    existing = next(place for place in (folder, *folder.absolute().parents) if place.exists())
    free = shutil.disk_usage(existing).free
    if need and need + spare_bytes > free:
        raise WeightsError(
            f"{folder} has {size(free)} free, and {size(need)} are to be fetched ({size(spare_bytes)} stay spare): "
            "free some, fetch fewer with --match, or choose another disk with --to."
        )
    return free
