"""Files of a repository because of which nothing is pushed to it."""

import pytest

from rwkv_data.recipes.hub.foreign_files import foreign_files, outdated_shards

SHARD = "data/train-00000-of-00001.parquet"
OURS = [".gitattributes", "README.md", "lineage.jsonl", SHARD]


@pytest.mark.parametrize(
    "path", ["notes/plan.md", "a.parquet", "train.csv", "data/test.json", "data/x/y-00000-of-00001.csv", "config.json"]
)
def test_what_is_not_loaded_with_the_rows_of_an_export_stays(path: str) -> None:
    assert foreign_files([*OURS, path]) == []


@pytest.mark.parametrize(
    "path", ["data/test-00000-of-00001.parquet", "data/train-00000-of-00001.json", ".huggingface.yaml"]
)
def test_what_would_be_loaded_with_the_rows_of_an_export_does_not(path: str) -> None:
    assert foreign_files([*OURS, path]) == [path]


@pytest.mark.parametrize(
    "path",
    ["README.md", SHARD, "train.csv", "rows.JSONL", "x/y.arrow", "a.json.zst", "data/x-00000-of-00001.txt",
     ".huggingface.yaml"],
)  # fmt: skip
def test_where_no_export_has_pushed_cards_and_rows_are_foreign(path: str) -> None:
    assert foreign_files([".gitattributes", path]) == [path]


@pytest.mark.parametrize(
    "path",
    [".gitattributes", ".gitignore", "LICENSE.txt", "notes/plan.md", "config.json", ".cache/x.csv", "csv", "x.py"],
)
def test_other_files_are_in_nobodys_way(path: str) -> None:
    assert foreign_files([path]) == []


def test_shards_of_an_earlier_push_that_are_not_pushed_again_are_outdated() -> None:
    old = ["data/train-00000-of-00002.parquet", "data/train-00001-of-00002.parquet"]
    assert outdated_shards([*OURS, *old, "data/test-00000-of-00001.parquet"], [SHARD]) == old
