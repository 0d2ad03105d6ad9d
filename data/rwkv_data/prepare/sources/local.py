"""Raw rows of files that the operator has: one file, or a folder in which a benchmark's own names are looked for.

A name in a benchmark's list is a path or glob below the folder ("test.jsonl", "bbh/*.json"); one that goes on after an
archive names its members ("ceval.zip/val/*.csv"); one that ends with a slash names folders that are a row each
("test/*/": {"question": text of question.txt, "input_output": text of input_output.json, ...}, as APPS is laid out).
"""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final

from rwkv_data.definition.errors import PrepareError
from rwkv_data.prepare.sources import archives, files, streams
from rwkv_data.prepare.sources.files import Want
from rwkv_data.prepare.sources.raw import FILE, Placed, Raw

MOST_ITEM: Final = 64 << 20
"""Bytes of one file of a folder that is a row."""


@dataclass(frozen=True, slots=True)
class _Found:
    """Files that were found under one name; `folders` are rows by themselves, `member` is the rest after an archive."""

    label: str
    paths: tuple[Path, ...] = ()
    folders: tuple[Path, ...] = ()
    member: str = ""


def need_file(path: Path) -> None:
    """Raise PrepareError unless it is a plain file. A pipe would be read twice, for its sum and for its rows, and a
    device might never end."""
    if not path.is_file():
        why = "it is no plain file" if path.exists() else "No such file or directory"
        raise PrepareError(f"{path} cannot be read: {why}")


def open_rows(path: Path, names: tuple[str, ...], split: str, *, header: bool | None = None) -> Raw:
    """The rows of a file, or of the first of the names that a folder has. `header`: as `Want` has it."""
    found = (
        _in_folder(path, names) if path.is_dir() else _Found(path.name, (path,), member=_member_of(path, names) or "")
    )
    if found is None:
        raise PrepareError(
            f"{path} holds none of {', '.join(names) or 'the names it could have'}; name the file itself"
        )
    return _raw(found, str(path), split, header)


def find_rows(path: Path, names: tuple[str, ...], split: str) -> Raw | None:
    """The rows of the first of the names in a folder, or in or beside a file; None where there is none of them."""
    member = _member_of(path, names)
    if path.is_dir() or member is None:
        found = _in_folder(path if path.is_dir() else path.parent, names)
    else:
        found = _Found(path.name, (path,), member=member)
    return None if found is None else _raw(found, str(path), split)


def _raw(found: _Found, where: str, split: str, header: bool | None = None) -> Raw:
    with streams.readable(where):
        revision = _revision(found)
    return Raw(found.label, revision, _placed(found, Want(split=split, member=found.member, header=header)))


def _in_folder(folder: Path, names: tuple[str, ...]) -> _Found | None:
    found = (_matching(folder, name) for name in names)
    return next((files for files in found if files.paths or files.folders), None)


def _matching(folder: Path, name: str) -> _Found:
    if name.endswith("/"):
        return _Found(name, folders=tuple(path for path in sorted(folder.glob(name)) if path.is_dir()))
    outer, member = _split(name)
    paths = tuple(path for path in sorted(folder.glob(outer)) if path.is_file())
    return _Found(name, paths, member=member)


def _split(name: str) -> tuple[str, str]:
    """A name as the part up to an archive, and the part inside it."""
    parts = PurePosixPath(name).parts
    end = next((number for number, part in enumerate(parts, 1) if archives.is_archive(part)), len(parts))
    return "/".join(parts[:end]), "/".join(parts[end:])


def _member_of(path: Path, names: tuple[str, ...]) -> str | None:
    """Which members are meant of an archive, under whatever name it lies; None for a file that is none of the kind."""
    like = [pair for pair in map(_split, names) if path.name.lower().endswith(archives.ending(pair[0]))]
    like.sort(key=lambda pair: PurePosixPath(pair[0]).name != path.name)
    return like[0][1] if archives.is_archive(path.name) and like else None


def _placed(found: _Found, want: Want) -> Iterator[Placed]:
    for folder in found.folders:
        yield str(folder), _item(folder) | {FILE: folder.name}
    for path in found.paths:
        yield from files.read(path, want)


def _item(folder: Path) -> dict[str, str]:
    """A folder that is a row: the text of each file under the file's stem."""
    row = {}
    for path in sorted(folder.iterdir()):
        if path.is_file() and not path.name.startswith("."):
            with streams.readable(str(path)), path.open("rb") as stream:
                row[path.stem] = streams.decoded(streams.whole(stream, str(path), MOST_ITEM), str(path))
    return row


def _revision(found: _Found) -> str:
    """Files have no revision upstream: their sha256 stands for it, or that of the list that sha256sum would print."""
    paths = [*found.paths, *(path for folder in found.folders for path in sorted(folder.iterdir()) if path.is_file())]
    sums = [_sha256(path) for path in paths]
    if len(sums) == 1:
        return f"sha256:{sums[0]}"
    listing = "".join(f"{digest}  {path.name}\n" for digest, path in zip(sums, paths, strict=True))
    return f"sha256:{hashlib.sha256(listing.encode()).hexdigest()} of {len(paths)} files"


def _sha256(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
