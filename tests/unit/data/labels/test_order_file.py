"""An order of rows as labels: what its lines name, which of them are wrong, and that equal orders are equal labels."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rwkv_data.definition.benchmark import Benchmark
from rwkv_data.definition.errors import SettingError
from rwkv_data.definition.registry import Catalogue
from rwkv_data.labels import order_file
from rwkv_data.prepare import prepared_sets
from rwkv_data.prepare.prepare import prepare_own

NAMES = {"q0": 0, "own_s/0": 0, "0": 0, "q1": 1, "own_s/1": 1, "1": 1, "q2": 2, "own_s/2": 2, "2": 2}


def prepared(tmp_path: Path, **fields: object) -> Benchmark:
    """A set of four rows with ids."""
    path = tmp_path / "s.jsonl"
    rows = [{"question": f"{n}+0?", "answer": str(n), "id": f"q{n}"} | fields for n in range(4)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    prepare_own("s", path, tmp_path / "data", replace=True)
    return Catalogue(data_dir=tmp_path / "data").load("own_s")


@given(st.permutations(["q2", "own_s/1", "0"]), st.sampled_from(["", " ", "\r"]))
def test_each_line_names_a_row_by_any_of_its_names(names: list[str], after: str) -> None:
    lines = [f"{name}{after}" for name in names]
    assert order_file.places("own_s", [*lines, after], NAMES) == [NAMES[name] for name in names]


def test_lines_that_are_wrong_are_named_by_their_numbers() -> None:
    lines = ["q1", "", "q9", "own_s/1", "q0", "1"]
    with pytest.raises(SettingError) as caught:
        order_file.places("own_s", lines, NAMES)
    assert str(caught.value) == (
        "line 3: own_s has no row 'q9'; line 4: 'own_s/1' is the row of line 1 already; "
        "line 6: '1' is the row of line 1 already"
    )
    with pytest.raises(SettingError, match=r"line 5: own_s has no row 'x4'; and 2 more such lines$"):
        order_file.places("own_s", [f"x{number}" for number in range(7)], NAMES)
    with pytest.raises(SettingError, match="no line names a row"):
        order_file.places("own_s", ["", " "], NAMES)
    with pytest.raises(SettingError) as caught:
        order_file.places("own_s", ["x" * 5000], NAMES)
    assert len(str(caught.value)) < 200


def test_the_same_order_is_the_same_labels_however_its_file_is_written(tmp_path: Path) -> None:
    benchmark = prepared(tmp_path)

    def published(*lines: str) -> order_file.StoredLabels:
        return order_file.publish_order(tmp_path / "data", benchmark, lines)

    one, other = published("q3", "q0"), published("own_s/3", "", "0\r")
    assert one.name == other.name
    assert list(one.column.values("row-order")) == [2, None, None, 1]
    assert (one.labels.labelled, one.labels.unlabelled) == (2, {"not in the order": 2})
    assert other.published == one.published, "it is not written again"
    assert published("q0", "q3").name != one.name
    assert one.labels.by_version is True
    manifest = prepared_sets.current_manifest(tmp_path / "data", benchmark)
    extent = prepared_sets.extent_of(tmp_path / "data", benchmark, manifest)
    kind = benchmark.kinds["free_response"].with_settings({"order": one.name})
    assert list(kind.inside(extent)) == [3, 0]
    asked = prepared_sets.load_asked(tmp_path / "data", benchmark, kind)
    assert [row["id"] for row in asked] == ["q3", "q0"]
    assert prepared_sets.asked_indices(tmp_path / "data", benchmark, kind, 1)[0] == 3


def test_an_order_is_meant_with_its_version_only_and_is_in_no_fields_way(tmp_path: Path) -> None:
    data_dir = tmp_path / "data"

    def asked(benchmark: Benchmark, **given: str) -> list[int]:
        extent = prepared_sets.extent_of(data_dir, benchmark, prepared_sets.current_manifest(data_dir, benchmark))
        assert extent.fields is not None
        kind = benchmark.kinds["free_response"].with_settings(given)
        return list(kind.inside(extent))

    benchmark = prepared(tmp_path)
    name = order_file.publish_order(data_dir, benchmark, ["q2", "q1"]).name
    assert asked(benchmark, order=name) == [2, 1]
    assert asked(benchmark, where=f"{name}<=1") == [2]
    with pytest.raises(SettingError, match=r"^order: the rows have no field 'row-order' .*--set order=\./row-order$"):
        asked(benchmark, order="row-order")
    benchmark = prepared(tmp_path, **{"row-order": 7})
    name = order_file.publish_order(data_dir, benchmark, ["q3", "q0"]).name
    assert asked(benchmark, order="row-order") == [0, 1, 2, 3]
    assert asked(benchmark, order=name) == [3, 0]
