"""Which files of a hub set hold a split, from its card and its list of paths. Nothing is fetched here.

The rules are those of huggingface.co/docs/hub/datasets-manual-configuration and datasets-file-names-and-splits.
"""

import fnmatch
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any, Final, TypeVar

from rwkv_data.definition.errors import PrepareError
from rwkv_data.prepare.sources import files

T = TypeVar("T")
KEYWORDS: Final = {
    "train": ("train", "training"),
    "validation": ("validation", "valid", "dev", "val"),
    "test": ("test", "testing", "eval", "evaluation"),
}
_GLOBS: Final = {"**/": r"(?:[^/]+/)*", "**": r".*", "*": r"[^/]*", "?": r"[^/]"}
_WORDS: Final = {
    split: re.compile(rf"(?:^|[-._ 0-9])(?:{'|'.join(words)})(?:$|[-._ 0-9])") for split, words in KEYWORDS.items()
}
_IGNORED: Final = {"README.md", "config.json", "dataset_info.json", "dataset_infos.json", "dataset_dict.json"}


def data_files(card: Mapping[str, Any], paths: Sequence[str], config: str, split: str) -> list[str] | None:
    """The files of one split of one configuration, or None where card and paths do not say. Raises PrepareError, with
    what there is, where they say that there is no such configuration or split."""
    configs = _configs(card)
    if configs:
        chosen = _one_of(configs, config or "default", "configuration")
        listed = _listed(chosen, [path for path in paths if _is_data(path)])
        if listed is None:
            inside = _below(paths, str(chosen.get("data_dir") or ""))
            listed = default_splits(inside)
        return _one_of(listed, split, "split") if listed else None
    if config not in {"", "default"}:
        return None
    found = default_splits(paths)
    return _one_of(found, split, "split") if found else None


def converted(paths: Iterable[str], config: str, split: str) -> list[str]:
    """The files of a split in `refs/convert/parquet`, the hub's own branch: CONFIG/SPLIT/0000.parquet."""
    found: dict[str, dict[str, list[str]]] = {}
    for path in sorted(paths):
        parts = PurePosixPath(path).parts
        if len(parts) == 3 and parts[2].endswith(".parquet"):
            found.setdefault(parts[0], {}).setdefault(parts[1], []).append(path)
    return _one_of(_one_of(found, config or "default", "configuration"), split, "split")


def matching(paths: Iterable[str], patterns: Iterable[str]) -> list[str]:
    """The paths that match any of the globs, pattern by pattern, each in the order of names."""
    found = [path for pattern in patterns for path in sorted(paths) if _glob(pattern).fullmatch(path)]
    return list(dict.fromkeys(found))


def default_splits(paths: Iterable[str]) -> dict[str, list[str]] | None:
    """Splits by the words in names, as the hub finds them where the card says nothing: shards in data/, then folders,
    then file names, then everything as train. Only files of the commonest form count."""
    readable = _commonest([path for path in sorted(paths) if _is_data(path)])
    if not readable:
        return None
    for rule in (_sharded, _in_folder, _in_name):
        found: dict[str, list[str]] = {}
        for path in readable:
            for split in rule(path):
                found.setdefault(split, []).append(path)
        if found:
            return found
    return {"train": readable}


def _configs(card: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    listed = card.get("configs")
    entries = [entry for entry in listed if isinstance(entry, dict)] if isinstance(listed, list) else []
    named: dict[str, Mapping[str, Any]] = {str(entry.get("config_name", "default")): entry for entry in entries}
    if "default" not in named:
        marked = [entry for entry in entries if entry.get("default") is True] or (entries if len(entries) == 1 else [])
        named |= {"default": marked[0]} if marked else {}
    return named


def _listed(config: Mapping[str, Any], paths: list[str]) -> dict[str, list[str]] | None:
    """What `data_files` says: one glob, several, or a list of {split, path}."""
    listed, folder = config.get("data_files"), str(config.get("data_dir") or "").strip("./")
    if listed is None:
        return None
    if isinstance(listed, str) or (isinstance(listed, list) and all(isinstance(item, str) for item in listed)):
        listed = [{"split": "train", "path": listed}]
    found: dict[str, list[str]] = {}
    for item in listed if isinstance(listed, list) else []:
        if isinstance(item, dict):
            patterns = item.get("path")
            globs = [str(glob) for glob in (patterns if isinstance(patterns, list) else [patterns])]
            below = [f"{folder}/{glob}" if folder else glob.removeprefix("./") for glob in globs]
            found[str(item.get("split", "train"))] = matching(paths, below)
    return found


def _one_of(known: Mapping[str, T], name: str, what: str) -> T:
    if name not in known:
        raise PrepareError(f"there is no {what} {name!r}; there are {', '.join(known) or 'none'}")
    return known[name]


def _below(paths: Iterable[str], folder: str) -> list[str]:
    prefix = folder.strip("./")
    return [path for path in paths if not prefix or path.startswith(f"{prefix}/")]


def _is_data(path: str) -> bool:
    parts = PurePosixPath(path).parts
    return files.is_readable(path) and parts[-1] not in _IGNORED and not any(part[0] in "._" for part in parts)


def _commonest(paths: list[str]) -> list[str]:
    endings = Counter(PurePosixPath(files.plain(path)).suffix for path in paths)
    if not endings:
        return []
    most = max(endings, key=lambda ending: endings[ending])
    return [path for path in paths if files.plain(path).endswith(most)]


def _sharded(path: str) -> list[str]:
    shard = re.fullmatch(r"data/(\w+)-\d{5}-of-\d{5}[^/]*\.[^/]*", path)
    return [shard[1]] if shard else []


def _in_folder(path: str) -> list[str]:
    return _keywords(PurePosixPath(path).parts[:-1])


def _in_name(path: str) -> list[str]:
    return _keywords([PurePosixPath(path).name])


def _keywords(names: Sequence[str]) -> list[str]:
    return [split for split, words in _WORDS.items() if any(words.search(name) for name in names)]


def _glob(pattern: str) -> re.Pattern[str]:
    """A glob over whole paths: `*` stays within a folder, `**` does not."""
    pieces = re.findall(r"\*\*/|\*\*|\*|\?|\[[^\]/]+\]|[^*?\[]+|\[", pattern)
    return re.compile("".join(_GLOBS.get(piece) or _literal(piece) for piece in pieces))


def _literal(piece: str) -> str:
    """Plain text, or a set of characters like [0-9], which whoever owns a repository may have written wrongly."""
    return fnmatch.translate(piece).removeprefix("(?s:").rpartition(")")[0]
