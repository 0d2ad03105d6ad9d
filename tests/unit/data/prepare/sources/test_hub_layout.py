"""The files of a hub set that hold a split: by its card, or by the words in file names."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rwkv_data.definition.errors import PrepareError
from rwkv_data.prepare.sources.hub_layout import converted, data_files, default_splits, matching

MMLU = ["README.md", "all/test-00000-of-00001.parquet", "all/dev-00000-of-00001.parquet", "anatomy/test-00000.parquet"]
CARD = {
    "configs": [
        {
            "config_name": "all",
            "data_files": [{"split": "test", "path": "all/test-*"}, {"split": "dev", "path": "all/dev-*"}],
        },
        {"config_name": "anatomy", "data_files": [{"split": "test", "path": ["anatomy/test-*"]}]},
    ]
}


def test_the_card_says_it() -> None:
    assert data_files(CARD, MMLU, "all", "dev") == ["all/dev-00000-of-00001.parquet"]
    assert data_files(CARD, MMLU, "anatomy", "test") == ["anatomy/test-00000.parquet"]


@pytest.mark.parametrize(
    ("config", "split", "complaint"),
    [
        ("al", "test", "there is no configuration 'al'; there are all, anatomy"),
        ("all", "train", "there is no split 'train'; there are test, dev"),
        ("default", "test", "there is no configuration 'default'; there are all, anatomy"),
    ],
)
def test_what_is_not_there_names_what_is(config: str, split: str, complaint: str) -> None:
    with pytest.raises(PrepareError) as caught:
        data_files(CARD, MMLU, config, split)
    assert str(caught.value) == complaint


@pytest.mark.parametrize(
    "config",
    [
        {"config_name": "default", "data_files": "data.csv"},
        {"config_name": "default", "data_files": ["data.csv"]},
        {"config_name": "x", "default": True, "data_files": [{"split": "train", "path": "data.csv"}]},
        {"config_name": "x", "data_files": "**/*.csv"},
        {"config_name": "x", "data_dir": "."},
    ],
)
def test_forms_of_the_card(config) -> None:
    assert data_files({"configs": [config]}, ["README.md", "data.csv", "run.py"], "default", "train") == ["data.csv"]


def test_folders_of_configurations() -> None:
    card = {"configs": [{"config_name": name, "data_dir": name} for name in ("a", "b")]}
    assert data_files(card, ["a/test.csv", "b/test.csv", "b/train.csv"], "b", "test") == ["b/test.csv"]


def test_nothing_is_said() -> None:
    assert data_files({}, ["cmmlu.py", "README.md"], "default", "test") is None
    assert data_files({}, ["test.jsonl"], "main", "test") is None
    assert data_files({"configs": [{"config_name": "a", "data_files": "none/*"}]}, ["x.csv"], "a", "train") == []


@pytest.mark.parametrize(
    ("paths", "expected"),
    [
        (["test.jsonl"], {"test": ["test.jsonl"]}),
        (["data/x_y-00000-of-00001-abc.parquet"], {"x_y": ["data/x_y-00000-of-00001-abc.parquet"]}),
        (["dev/a.csv", "val/b.csv"], {"validation": ["dev/a.csv", "val/b.csv"]}),
        (["a_test.csv", "a-train.csv", "note.txt"], {"test": ["a_test.csv"], "train": ["a-train.csv"]}),
        (["latest.csv", "attestation.csv"], {"train": ["attestation.csv", "latest.csv"]}),
        (["rows.jsonl", ".hidden.jsonl", "_x/y.jsonl", "dataset_infos.json"], {"train": ["rows.jsonl"]}),
        (["model.bin", "run.py"], None),
    ],
)
def test_words_in_names(paths, expected) -> None:
    assert default_splits(paths) == expected


def test_the_parquet_copy() -> None:
    paths = ["main/test/0000.parquet", "main/test/0001.parquet", "main/train/0000.parquet", ".gitattributes"]
    assert converted(paths, "main", "test") == paths[:2]
    with pytest.raises(PrepareError, match="no split 'dev'; there are test, train"):
        converted(paths, "main", "dev")
    with pytest.raises(PrepareError, match="no configuration 'socratic'; there are main"):
        converted(paths, "socratic", "test")


@pytest.mark.parametrize(
    ("pattern", "path", "fits"),
    [
        ("*.csv", "a.csv", True),
        ("*.csv", "b/a.csv", False),
        ("**/*.csv", "a.csv", True),
        ("**/*.csv", "b/c/a.csv", True),
        ("data/**", "data/b/a.csv", True),
        ("a?.csv", "ab.csv", True),
        ("a[0-9].csv", "a7.csv", True),
        ("a[!0-9].csv", "a7.csv", False),
        ("a[!].csv", "a[!].csv", True),
        ("a[9-0].csv", "a7.csv", False),
        ("a.csv", "aXcsv", False),
        ("(a|b)+$.csv", "(a|b)+$.csv", True),
    ],
)
def test_globs(pattern: str, path: str, fits: bool) -> None:
    assert bool(matching([path], [pattern])) is fits


@given(st.text("ab*?[]!/.()|+^$\\", max_size=12), st.text("ab/.", max_size=12))
def test_globs_of_anybody_are_no_error(pattern: str, path: str) -> None:
    assert matching([path], [pattern]) in ([], [path])


@given(st.lists(st.text("abtesrin_-./0", min_size=1, max_size=12), max_size=6))
def test_names_of_anybody_are_no_error(paths: list[str]) -> None:
    found = default_splits([f"{path}.csv" for path in paths])
    assert found is None or set(found) <= {"train", "test", "validation"}
