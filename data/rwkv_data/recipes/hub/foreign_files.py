"""The files of a dataset repository that a push must not replace or mix with its rows.

`datasets.load_dataset` takes the files that are named like shards in data/ and, if there are any, no others. So each of
these that is not ours becomes a split or a part of ours. .huggingface.yaml can name still other files. Where no export
has pushed, whatever holds rows is somebody's data set, which the rows of a push would hide.
"""

import re
from collections.abc import Sequence
from typing import Final

CARD: Final = "README.md"
LINEAGE: Final = "lineage.jsonl"
"""Every export has pushed it, and nothing else does."""
CONFIGS: Final = ".huggingface.yaml"
ROWS: Final = frozenset(
    {"arrow", "csv", "geoparquet", "gpq", "h5", "hdf5", "json", "jsonl", "lance", "ndjson", "parquet", "tar", "tsv"}
)
"""Endings of files with rows, also if another one follows, as in train.csv.gz."""
NO_ROWS: Final = frozenset({"config.json", "dataset_info.json", "dataset_infos.json", "dataset_dict.json"})
_OURS: Final = re.compile(r"data/train-[0-9]{5}-of-[0-9]{5}\.parquet")
_SHARD: Final = re.compile(r"data/(?!\.)[^/]*-[0-9]{5}-of-[0-9]{5}[^/]*\.[^/]*")


def is_made_by_export(paths: Sequence[str]) -> bool:
    """Whether an export was pushed to a repository with these files."""
    return LINEAGE in paths


def foreign_files(paths: Sequence[str]) -> list[str]:
    """Return those of the files of a repository because of which nothing may be pushed to it."""
    if is_made_by_export(paths):
        return [path for path in paths if path == CONFIGS or (_SHARD.fullmatch(path) and not _OURS.fullmatch(path))]
    return [path for path in paths if path in {CARD, CONFIGS} or _SHARD.fullmatch(path) or _holds_rows(path)]


def outdated_shards(paths: Sequence[str], pushed: Sequence[str]) -> list[str]:
    """Return the shards of an earlier push that no longer exist."""
    return [path for path in paths if _OURS.fullmatch(path) and path not in pushed]


def _holds_rows(path: str) -> bool:
    *folders, name = path.split("/")
    hidden = any(part.startswith(".") for part in (*folders, name))
    endings = {ending.lower() for ending in name.split(".")[1:]}
    return not hidden and name not in NO_ROWS and bool(endings & ROWS)
