"""Publishing labels: of the rows that a set has now, and of no others."""

import json
from pathlib import Path

import pytest

from rwkv_data.definition import registry
from rwkv_data.definition.benchmark import Benchmark
from rwkv_data.definition.errors import RowsDamagedError, RowsMissingError, SettingError
from rwkv_data.definition.registry import Catalogue
from rwkv_data.definition.row_filter import Scalar
from rwkv_data.labels.label_file import LabelOrigin, StoredLabels, labels_of
from rwkv_data.labels.publishing import publish_labels
from rwkv_data.prepare import prepared_sets
from rwkv_data.prepare.prepare import prepare_own

ORIGIN = LabelOrigin("difficulty/1", "writer at https://example.org/v1", {"failed": 1}, {"revision": "r"})
VALUES: list[Scalar | None] = [4.5, None]
DEMO = registry.load("demo_arith")
ANEW = "the rows of own_mine were prepared anew meanwhile; label them again, or prepare the former ones"


def prepared(tmp_path: Path, *questions: str) -> tuple[Benchmark, str]:
    """Prepare a set in place of the former one; return it with the sha256 of its rows."""
    path, data_dir = tmp_path / "mine.jsonl", tmp_path / "data"
    path.write_text("".join(json.dumps({"question": question, "answer": 2}) + "\n" for question in questions))
    manifest = prepare_own("mine", path, data_dir, replace=True)
    return Catalogue(data_dir=data_dir).load("own_mine"), manifest.sha256


def published(tmp_path: Path, benchmark: Benchmark, sha256: str, values: list[Scalar | None] = VALUES) -> StoredLabels:
    return publish_labels(tmp_path / "data", benchmark, sha256, "difficulty", ORIGIN, values)


def files(tmp_path: Path) -> dict[Path, bytes]:
    """All files under the data directory, with what is in them."""
    return {path: path.read_bytes() for path in sorted((tmp_path / "data").rglob("*")) if path.is_file()}


def test_labels_of_the_rows_that_are_there_are_published(tmp_path: Path) -> None:
    benchmark, sha256 = prepared(tmp_path, "1+1?", "0+2?")
    stored = published(tmp_path, benchmark, sha256)
    assert labels_of(tmp_path / "data", "own_mine", sha256) == [stored]
    assert list(stored.column.values("difficulty")) == VALUES
    assert (stored.labels.rule, stored.labels.rows_sha256) == ("difficulty/1", sha256)


def test_labels_of_rows_that_were_prepared_anew_are_refused_and_nothing_is_written(tmp_path: Path) -> None:
    benchmark, sha256 = prepared(tmp_path, "1+1?", "0+2?")
    again, other = prepared(tmp_path, "0+2?", "1+1?")
    assert other != sha256
    before = files(tmp_path)
    for one in (benchmark, again):
        with pytest.raises(RowsDamagedError) as caught:
            published(tmp_path, one, sha256)
        assert str(caught.value) == ANEW
    assert files(tmp_path) == before
    assert not (tmp_path / "data" / "own_mine" / "labels").exists()


def test_a_refusal_leaves_the_labels_that_are_there(tmp_path: Path) -> None:
    benchmark, sha256 = prepared(tmp_path, "1+1?", "0+2?")
    stored = published(tmp_path, benchmark, sha256)
    prepared(tmp_path, "2+0?", "1+1?")
    before = files(tmp_path)
    assert stored.path in before
    with pytest.raises(RowsDamagedError):
        published(tmp_path, benchmark, sha256, [1, 2])
    assert files(tmp_path) == before


def test_labels_are_taken_when_the_former_rows_are_back(tmp_path: Path) -> None:
    _, sha256 = prepared(tmp_path, "1+1?", "0+2?")
    prepared(tmp_path, "2+0?")
    benchmark, back = prepared(tmp_path, "1+1?", "0+2?")
    assert back == sha256
    assert labels_of(tmp_path / "data", "own_mine", sha256) == []
    stored = published(tmp_path, benchmark, sha256)
    assert labels_of(tmp_path / "data", "own_mine", sha256) == [stored]


def test_labels_of_a_set_that_is_not_prepared_are_refused_and_nothing_is_written(tmp_path: Path) -> None:
    benchmark, sha256 = prepared(tmp_path, "1+1?", "0+2?")
    prepared_sets.manifest_path(tmp_path / "data", "own_mine").unlink()
    before = files(tmp_path)
    with pytest.raises(RowsMissingError, match="own_mine is not prepared"):
        published(tmp_path, benchmark, sha256)
    assert files(tmp_path) == before


def test_the_rows_of_a_built_in_benchmark_are_compared_too(tmp_path: Path) -> None:
    data_dir = tmp_path / "data"
    manifest = prepared_sets.current_manifest(data_dir, DEMO)
    values: list[Scalar | None] = [1] * manifest.rows
    with pytest.raises(RowsDamagedError, match="demo_arith were prepared anew"):
        published(tmp_path, DEMO, "0" * 64, values)
    assert not data_dir.exists()
    stored = published(tmp_path, DEMO, manifest.sha256, values)
    assert labels_of(data_dir, "demo_arith", manifest.sha256) == [stored]


def test_labels_without_a_value_are_refused_and_nothing_is_written(tmp_path: Path) -> None:
    benchmark, sha256 = prepared(tmp_path, "1+1?", "0+2?")
    before = files(tmp_path)
    with pytest.raises(SettingError, match="no row of own_mine would have a label: 1 failed"):
        published(tmp_path, benchmark, sha256, [None, None])
    assert files(tmp_path) == before
