"""The members of zip and tar files, read where they are: nothing is unpacked to disk, so no name can lead astray."""

import fnmatch
import tarfile
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath
from typing import IO, Final

from rwkv_data.definition.errors import PrepareError
from rwkv_data.prepare.sources import streams

ENDINGS: Final = (".zip", ".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz")
MOST_MEMBERS: Final = 200_000


def is_archive(name: str) -> bool:
    """Whether a file of that name is an archive."""
    return name.lower().endswith(ENDINGS)


def ending(name: str) -> str:
    """What makes an archive of that name one; a path that no name has where it is none."""
    return next((end for end in ENDINGS if name.lower().endswith(end)), "/")


def members(
    path: Path, split: str, pattern: str, endings: tuple[str, ...], where: str
) -> Iterator[tuple[str, IO[bytes]]]:
    """The wanted members by name, in the order of their names, each open until the next is asked for."""
    budget = streams.Budget(where)
    if path.name.lower().endswith(".zip"):
        with zipfile.ZipFile(path) as archive:
            names = [info.filename for info in archive.infolist() if not info.is_dir()]
            for name in wanted(names, split, pattern, endings, where):
                with archive.open(name) as stream:
                    yield name, streams.unpacked(stream, budget)
        return
    with tarfile.open(path, "r:*") as tar:
        found = {member.name: member for member in _some(tar, where) if member.isreg()}
        for name in wanted(found, split, pattern, endings, where):
            opened = tar.extractfile(found[name])
            if opened is not None:
                with opened:
                    yield name, streams.unpacked(opened, budget)


def wanted(names: Iterable[str], split: str, pattern: str, endings: tuple[str, ...], where: str) -> list[str]:
    """The names that match the pattern; without one, those of the split: NAME_SPLIT.csv, SPLIT.jsonl, SPLIT/NAME."""
    plain = sorted(name for name in names if not _hidden(name))
    if len(plain) > MOST_MEMBERS:
        raise PrepareError(f"{where} holds {len(plain)} files, more than any set of rows")
    if pattern:
        found = [name for name in plain if matches(name, pattern)]
    else:
        readable = [name for name in plain if name.lower().removesuffix(".gz").endswith(endings)]
        found = [name for name in readable if _of_split(PurePosixPath(name), split)]
    if not found:
        raise PrepareError(f"{where} holds no {pattern or f'file of rows of the split {split!r}'}")
    return found


def matches(name: str, pattern: str) -> bool:
    """Whether a member's path is a match; a pattern may leave out the folders in front."""
    return fnmatch.fnmatchcase(name, pattern) or fnmatch.fnmatchcase(name, f"*/{pattern}")


def _of_split(path: PurePosixPath, split: str) -> bool:
    stem = path.name.partition(".")[0]
    return stem == split or stem.endswith(f"_{split}") or split in path.parts[:-1]


def _hidden(name: str) -> bool:
    """What macOS and editors leave in archives is no row; neither is anything outside the archive."""
    return any(part.startswith(".") or part == "__MACOSX" for part in PurePosixPath(name).parts)


def _some(tar: tarfile.TarFile, where: str) -> Iterator[tarfile.TarInfo]:
    """The members, as long as there are not too many."""
    for number, member in enumerate(tar):
        if number >= MOST_MEMBERS:
            raise PrepareError(f"{where} holds more than {MOST_MEMBERS} files")
        yield member
