"""Finding the files of each score at a path, told apart by their location and their first line."""

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

from rwkv_daemon.import_rwkv_skills import old_summaries, tables, v3
from rwkv_daemon.import_rwkv_skills.checked_files import BadFileError, JsonLines, Record, document, is_hidden
from rwkv_daemon.import_rwkv_skills.imported_score import ImportedScore

MOST_FILES: Final = 50_000
FOLDERS: Final = ("scores", "eval", "completions", "benchmark", "model", "task")
SEARCH: Final = "param_search"
"""Folder of the trials of a parameter search, which are no scores of a model."""

Key = tuple[Path, str, str]
"""(results folder, model's folder, name of the data set's files)."""


@dataclass(slots=True)
class FoundFiles:
    """Files by the score they belong to. `refused` are those that look like results and cannot be read; `ignored`
    counts other files."""

    v3: dict[Key, dict[str, Path]] = field(default_factory=dict)
    tables: dict[Key, dict[str, Path]] = field(default_factory=dict)
    summaries: list[Path] = field(default_factory=list)
    refused: list[BadFileError] = field(default_factory=list)
    ignored: int = 0

    def readers(self) -> Iterator[tuple[Path, partial[ImportedScore]]]:
        """Yield (a file that names it, a function that reads it) for each score."""
        for (_, model, stem), files in sorted(self.v3.items()):
            bundle = v3.ScoreFiles(files.get("scores"), files.get("eval"), files.get("completions"))
            yield next(iter(files.values())), partial(v3.read, bundle, model_of(model), stem)
        for (_, model, stem), files in sorted(self.tables.items()):
            yield next(iter(files.values())), partial(tables.read, files, model_of(model), stem)
        for path in self.summaries:
            yield path, partial(old_summaries.read, path)


def discover(path: Path) -> FoundFiles:
    """Inspect a file, or everything under a folder. With a single file, the other files of its score are included.
    Raises BadFileError if the path cannot be read."""
    found = FoundFiles()
    if path.is_dir():
        for one in files_under(path):
            sort_in(found, one)
        return found
    for one in companions(path):
        sort_in(found, one)
    return found


def files_under(folder: Path) -> Iterator[Path]:
    """Yield files in a stable order. Links are not followed, so nothing outside is read."""
    seen = 0
    for parent, names, files in os.walk(folder, onerror=complain):
        names[:] = sorted(name for name in names if not is_hidden(Path(parent, name)))
        for name in sorted(files):
            path = Path(parent, name)
            if path.suffix in {".json", ".jsonl"} and not path.is_symlink() and not is_hidden(path):
                seen += 1
                if seen > MOST_FILES:
                    raise BadFileError(f"{folder} holds more than {MOST_FILES} files; import a part of it")
                yield path


def complain(error: OSError) -> None:
    """Raise BadFileError for a folder that cannot be read, so that it is not taken for an empty one."""
    raise BadFileError(f"{error.filename} cannot be read by the daemon: {error.strerror}") from error


def companions(path: Path) -> Iterator[Path]:
    """Yield the file, and those of the same score in the neighbouring folders."""
    yield path
    folder, model = path.parent.parent, path.parent.name
    if folder.name in FOLDERS:
        stem = stem_of(path)
        for name in FOLDERS:
            for file in (f"{stem}.json", f"{stem}.jsonl", f"{stem}_results.jsonl"):
                other = folder.parent / name / model / file
                if other != path and other.is_file() and not other.is_symlink() and not is_hidden(other):
                    yield other


def stem_of(path: Path) -> str:
    """Return the part of the name that all files of one score share."""
    return path.stem.removesuffix("_results") if path.parent.parent.name == "eval" else path.stem


def sort_in(found: FoundFiles, path: Path) -> None:
    """Add a file to the score it belongs to. Files of parameter searches are ignored, unreadable ones noted as
    refused."""
    if SEARCH in path.parts:
        found.ignored += 1
        return
    try:
        put(found, path)
    except BadFileError as error:
        found.refused.append(error)


def put(found: FoundFiles, path: Path) -> None:
    """Add a file to the score it belongs to. Raises BadFileError if it is not JSON."""
    kind, key = path.parent.parent.name, (path.parent.parent.parent, path.parent.name, stem_of(path))
    record = first(path)
    if path.suffix == ".jsonl" and kind in FOLDERS and tables.is_row(kind, record):
        found.tables.setdefault(key, {})[kind] = path
    elif path.suffix == ".jsonl" and kind in {"eval", "completions"} and "sample_index" in record:
        found.v3.setdefault(key, {})[kind] = path
    elif path.suffix == ".jsonl" and kind in {"eval", "completions"} and "problem_index" in record:
        raise BadFileError(f"{path}:1: older than v3; bring it up to date with rwkv-skills' migrate_results_schema_v3")
    elif path.suffix == ".json" and v3.is_score(record):
        own = key if kind == "scores" else (path, "", path.stem)
        found.v3.setdefault(own, {})["scores"] = path
    elif path.suffix == ".json" and old_summaries.is_summary(record):
        found.summaries.append(path)
    else:
        found.ignored += 1


def first(path: Path) -> Record:
    """Return the object that tells what a file is: that of the first line, or of the whole file. Raises
    BadFileError."""
    if path.suffix == ".json":
        return document_or_nothing(path)
    return next((record for _, record in JsonLines(path).records()), {})


def document_or_nothing(path: Path) -> Record:
    """Return a JSON file's object; empty for a list or a number, which is another program's file. Raises
    BadFileError."""
    try:
        return document(path)[0]
    except BadFileError as error:
        if str(error).endswith("no JSON object"):
            return {}
        raise


def model_of(folder: str) -> str:
    """Return a model's name from its folder's name, in which every character but letters and digits became `_`:
    `rwkv7_g1d_0_4b` was rwkv7-g1d-0.4b. A name inside the files takes precedence."""
    words = folder.split("_")
    for place in range(len(words) - 1):
        size = words[place + 1].removesuffix("b")
        if words[place].isdecimal() and words[place + 1].endswith("b") and size.isdecimal():
            words[place : place + 2] = [f"{words[place]}.{words[place + 1]}", ""]
    return "-".join(word for word in words if word)
