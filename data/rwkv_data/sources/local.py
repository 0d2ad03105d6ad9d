"""Raw rows of a local file: JSON lines (also gzipped), a JSON list, csv, or a zip of csv files.

A csv line becomes {"cells": [...], "subject": ...}. The subject is the file's name without the split's suffix:
`data/test/abstract_algebra_test.csv` holds abstract_algebra. Cells stay text: "None" and "N/A" are words.
"""

import csv
import gzip
import io
import json
import zipfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any, TypeAlias

from rwkv_data.errors import PrepareError

Placed: TypeAlias = tuple[str, dict[str, Any]]


def read(path: Path, split: str) -> Iterator[Placed]:
    """The raw rows of one file, each with `FILE:LINE` (or `FILE item N` in a JSON list)."""
    name = path.name.lower()
    if name.endswith(".zip"):
        return _zip(path, split)
    if name.endswith((".jsonl", ".jsonl.gz")):
        return _json_lines(path)
    if name.endswith(".json"):
        return _json_list(path)
    if name.endswith(".csv"):
        return _csv(path.read_bytes(), str(path), _subject(path.name, split))
    raise PrepareError(f"{path} is none of .jsonl, .jsonl.gz, .json, .csv, .zip")


def find(folder: Path, names: tuple[str, ...]) -> Path:
    """The first of the named files in a folder."""
    for name in names:
        if (folder / name).is_file():
            return folder / name
    raise PrepareError(f"{folder} holds none of {', '.join(names)}; name the file itself")


def _json_lines(path: Path) -> Iterator[Placed]:
    content = path.read_bytes()
    if path.name.endswith(".gz"):
        content = _unzipped(path, content)
    # Only \n ends a line: str.splitlines would also cut at characters that texts contain (U+2028, \f).
    for number, line in enumerate(content.split(b"\n"), 1):
        if line.strip():
            where = f"{path}:{number}"
            yield where, _object(_json(line, where), where)


def _json_list(path: Path) -> Iterator[Placed]:
    items = _json(path.read_bytes(), str(path))
    if not isinstance(items, list):
        raise PrepareError(f"{path} holds no JSON list")
    for number, item in enumerate(items, 1):
        where = f"{path} item {number}"
        yield where, _object(item, where)


def _zip(path: Path, split: str) -> Iterator[Placed]:
    """The csv files of one split, in the order of their names."""
    try:
        with zipfile.ZipFile(path) as archive:
            members = [name for name in sorted(archive.namelist()) if name.endswith(f"_{split}.csv")]
            if not members:
                raise PrepareError(f"{path} holds no file that ends with _{split}.csv")
            for member in members:
                yield from _csv(archive.read(member), f"{path}/{member}", _subject(member, split))
    except (zipfile.BadZipFile, EOFError) as error:
        raise PrepareError(f"{path} is a damaged zip file: {error}") from None


def _csv(content: bytes, where: str, subject: str) -> Iterator[Placed]:
    reader = csv.reader(io.StringIO(_decoded(content, where), newline=""), strict=True)
    line = 1
    try:
        for cells in reader:
            if cells:
                yield f"{where}:{line}", {"cells": cells, "subject": subject}
            line = reader.line_num + 1
    except csv.Error as error:
        raise PrepareError(f"{where}:{line}: {error}") from None


def _subject(name: str, split: str) -> str:
    return PurePosixPath(name).stem.removesuffix(f"_{split}")


def _json(content: bytes, where: str) -> Any:
    try:
        return json.loads(_decoded(content, where))
    except (json.JSONDecodeError, RecursionError) as error:
        raise PrepareError(f"{where}: not JSON ({error})") from None


def _decoded(content: bytes, where: str) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise PrepareError(f"{where}: not UTF-8 at byte {error.start}") from None


def _object(value: Any, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise PrepareError(f"{where}: not a JSON object")
    return value


def _unzipped(path: Path, content: bytes) -> bytes:
    try:
        return gzip.decompress(content)
    except (OSError, EOFError) as error:
        raise PrepareError(f"{path} is a damaged gzip file: {error}") from None
