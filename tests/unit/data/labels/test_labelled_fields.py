"""Fields and labels under one `where`: the newest by name, a version by its sha256, and pinned kinds."""

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rwkv_data.definition import registry, row_filter
from rwkv_data.definition.errors import RowsDamagedError, SettingError
from rwkv_data.definition.registry import Catalogue
from rwkv_data.definition.row_fields import RowFields, RowsAtHand
from rwkv_data.definition.row_filter import RowFilter, Scalar
from rwkv_data.definition.row_window import Extent
from rwkv_data.labels.label_file import LabelOrigin, StoredLabels, label_set, labels_of, publish
from rwkv_data.labels.labelled_fields import LabelledFields
from rwkv_data.prepare import prepared_sets
from rwkv_data.prepare.prepare import prepare_own

ORIGIN = LabelOrigin("imported/1", "levels.jsonl", {}, {})
DEMO = registry.load("demo_arith")
ROWS: list[dict[str, Any]] = [
    {"source": "math", "answer": "1"},
    {"source": "olympiads", "answer": "2"},
    {"answer": "3"},
]
OLD: list[Scalar | None] = [9, 9, None]
NEW: list[Scalar | None] = [1, None, 5]


def published(
    data_dir: Path, values: list[Scalar | None], field: str = "level", name: str = "mine", sha256: str = "a" * 64
) -> StoredLabels:
    return publish(data_dir, label_set(name, sha256, field, ORIGIN, values), values)


def two_versions(
    data_dir: Path, name: str, sha256: str, old: list[Scalar | None], new: list[Scalar | None]
) -> tuple[StoredLabels, StoredLabels]:
    first = published(data_dir, old, name=name, sha256=sha256)
    os.utime(first.path, ns=(1, 1))
    return first, published(data_dir, new, name=name, sha256=sha256)


def where(text: str) -> RowFilter:
    parsed = row_filter.parse(text)
    assert parsed is not None
    return parsed


def picked(fields: RowFields | None, text: str) -> list[int]:
    assert fields is not None
    return [index for index, matches in enumerate(fields.matching(where(text))) if matches]


def answer(fields: RowFields, text: str) -> bytes | str:
    """What is picked, or why nothing can be."""
    try:
        return fields.matching(where(text))
    except SettingError as error:
        return str(error)


@pytest.fixture
def versions(tmp_path: Path) -> tuple[StoredLabels, StoredLabels]:
    return two_versions(tmp_path, "mine", "a" * 64, OLD, NEW)


@pytest.fixture
def fields(tmp_path: Path, versions: tuple[StoredLabels, StoredLabels]) -> LabelledFields:
    return LabelledFields(RowsAtHand(ROWS), labels_of(tmp_path, "mine", "a" * 64))


def test_fields_and_labels_stand_side_by_side(fields: LabelledFields) -> None:
    assert fields.kinds == {"answer": "text", "level": "number", "source": "text"}
    assert picked(fields, "source=math level<=4") == [0]
    assert picked(fields, "level>=4 answer!=2") == [2]


def test_a_name_alone_means_the_newest_version(fields: LabelledFields) -> None:
    assert picked(fields, "level>0") == [0, 2]


def test_a_name_with_a_version_means_that_one_also_when_there_are_newer_ones(
    fields: LabelledFields, versions: tuple[StoredLabels, StoredLabels]
) -> None:
    old, new = versions
    assert picked(fields, f"{old.name}>0") == [0, 1]
    assert picked(fields, f"{new.name}>0") == [0, 2]
    assert picked(fields, f"{old.name}=9 level=1") == [0]


def test_a_name_is_pinned_to_the_newest_version(
    fields: LabelledFields, versions: tuple[StoredLabels, StoredLabels]
) -> None:
    old, new = versions
    assert fields.pinned("level") == new.name
    assert (fields.pinned(old.name), fields.pinned(new.name)) == (old.name, new.name)
    assert fields.pinned("source") == "source"


def test_a_row_without_a_label_never_matches(fields: LabelledFields) -> None:
    assert picked(fields, "level!=1000") == [0, 2]
    assert picked(fields, "level=hard") == []
    assert picked(fields, "level!=hard") == [0, 2]


def test_labels_called_like_a_field_of_the_rows_hide_nothing(tmp_path: Path) -> None:
    stored = published(tmp_path, [7, 7, 7], "answer")
    fields = LabelledFields(RowsAtHand(ROWS), [stored])
    assert fields.kinds["answer"] == "text"
    assert fields.pinned("answer") == "answer"
    assert picked(fields, "answer=2") == [1]
    assert picked(fields, f"{stored.name}=7") == [0, 1, 2]


def test_an_unknown_name_is_told_with_the_names_of_labels(fields: LabelledFields) -> None:
    with pytest.raises(SettingError) as caught:
        picked(fields, "levle>=4")
    assert str(caught.value) == (
        "where: the rows have no field 'levle' that is a number or a short text; "
        "there are level (number), answer (text), source (text)"
    )


def test_an_unknown_version_is_told_in_a_sentence(fields: LabelledFields) -> None:
    with pytest.raises(SettingError) as caught:
        picked(fields, "level@00000000>=4")
    assert str(caught.value) == (
        "where: there are no labels 'level@00000000' for these rows (their file was removed, or they are of rows that "
        "were prepared before): make them, or name others"
    )


@pytest.mark.parametrize("cut", [0, 7, 9, 64])
def test_a_version_is_named_by_eight_characters_and_no_others(
    fields: LabelledFields, versions: tuple[StoredLabels, StoredLabels], cut: int
) -> None:
    with pytest.raises(SettingError, match="where: "):
        picked(fields, f"level@{versions[1].sha256[:cut]}>0")


def test_a_version_is_unknown_where_rows_have_no_labels_at_all() -> None:
    with pytest.raises(SettingError, match="there are no labels 'level@00000000' for these rows"):
        picked(RowsAtHand(ROWS), "level@00000000>=4")


def test_a_damaged_version_is_refused_and_the_other_still_picks(
    fields: LabelledFields, versions: tuple[StoredLabels, StoredLabels]
) -> None:
    old, new = versions
    new.path.write_bytes(new.path.read_bytes().replace(b'"values":[1,', b'"values":[2,'))
    with pytest.raises(RowsDamagedError, match=f"make the labels again: {new.name}$"):
        picked(fields, "level>0")
    assert picked(fields, f"{old.name}>0") == [0, 1]


def test_the_same_filter_is_read_once(fields: LabelledFields, versions: tuple[StoredLabels, StoredLabels]) -> None:
    before = picked(fields, "level>0")
    versions[1].path.unlink()
    assert picked(fields, " level > 0 ") == before


LABELS = st.booleans() | st.integers(-2, 2) | st.sampled_from([0.5, 1.0, "a", "1", "é\n"])
TABLES = st.lists(
    st.tuples(st.dictionaries(st.sampled_from(["a", "b"]), st.none() | LABELS), st.none() | LABELS),
    min_size=1,
    max_size=9,
).filter(lambda table: any(label is not None for _, label in table))
OPERATORS = ["=", "!=", "<", "<=", ">", ">="]
NAMES = st.sampled_from(["a", "b", "level"])
CONDITIONS = st.builds("{}{}{}".format, NAMES, st.sampled_from(OPERATORS), st.integers(-2, 2)) | st.builds(
    "{}{}{}".format, NAMES, st.sampled_from(["=", "!="]), st.sampled_from(["a", '"1"', '"é\n"', "true"])
)
WHERES = st.lists(CONDITIONS, min_size=1, max_size=3).map(" ".join)


def one_by_one(rows: list[dict[str, Any]], filtered: RowFilter) -> bytes:
    return bytes(
        all(
            row.get(condition.field) is not None and condition.holds(row[condition.field])
            for condition in filtered.conditions
        )
        for row in rows
    )


@given(TABLES, WHERES)
def test_labels_pick_as_fields_of_the_rows_would(
    tmp_path_factory: pytest.TempPathFactory, table: list[tuple[dict[str, Any], Scalar | None]], text: str
) -> None:
    rows = [row for row, _ in table]
    merged = [row | {"level": label} for row, label in table]
    stored = published(tmp_path_factory.mktemp("labels"), [label for _, label in table])
    fields = LabelledFields(RowsAtHand(rows), [stored])
    at_hand = RowsAtHand(merged)
    assert fields.kinds == at_hand.kinds
    found = answer(fields, text)
    assert found == answer(at_hand, text)
    if isinstance(found, bytes):
        assert found == one_by_one(merged, where(text))
        assert found == fields.matching(where(text).renamed(fields.pinned))


def demo_manifest(data_dir: Path) -> prepared_sets.Manifest:
    manifest = prepared_sets.read_manifest(data_dir, DEMO)
    assert manifest is not None
    return manifest


def demo_labels(data_dir: Path, rise: int) -> list[Scalar | None]:
    return [index + rise for index in range(demo_manifest(data_dir).rows)]


def test_a_built_in_benchmark_has_labels(tmp_path: Path) -> None:
    manifest = demo_manifest(tmp_path)
    assert "level" not in (prepared_sets.extent_of(tmp_path, DEMO, manifest).fields or RowsAtHand([])).kinds
    published(tmp_path, demo_labels(tmp_path, 0), name="demo_arith", sha256=manifest.sha256)
    extent = prepared_sets.extent_of(tmp_path, DEMO, manifest)
    assert picked(extent.fields, "level>=297") == [297, 298, 299]
    assert "level" not in prepared_sets.fields_of(tmp_path, DEMO, manifest).kinds


def test_rows_are_asked_by_their_labels(tmp_path: Path) -> None:
    manifest = demo_manifest(tmp_path)
    published(tmp_path, demo_labels(tmp_path, 0), name="demo_arith", sha256=manifest.sha256)
    kind = DEMO.default_kind.with_settings({"where": "level>=290 level!=295", "rows": "0:297"})
    assert prepared_sets.asked_indices(tmp_path, DEMO, kind) == [290, 291, 292, 293, 294, 296]
    rows = prepared_sets.load_rows(tmp_path, DEMO)
    assert prepared_sets.load_asked(tmp_path, DEMO, kind, 2) == rows[290:292]


def test_a_pinned_kind_names_the_version_and_reads_back_as_itself(tmp_path: Path) -> None:
    manifest = demo_manifest(tmp_path)
    stored = published(tmp_path, demo_labels(tmp_path, 0), name="demo_arith", sha256=manifest.sha256)
    kind = DEMO.default_kind.with_settings({"where": 'question!="1+1=" level>=290'})
    pinned = kind.pinned(prepared_sets.extent_of(tmp_path, DEMO, manifest))
    assert pinned.picks["where"] == f'{stored.name}>=290 question!="1+1="'
    assert kind.with_settings({"where": pinned.picks["where"]}) == pinned
    assert pinned.pinned(prepared_sets.extent_of(tmp_path, DEMO, manifest)) == pinned


def test_a_pinned_kind_asks_the_same_rows_after_newer_labels(tmp_path: Path) -> None:
    manifest = demo_manifest(tmp_path)
    kind = DEMO.default_kind.with_settings({"where": "level>=299"})
    first = published(tmp_path, demo_labels(tmp_path, 0), name="demo_arith", sha256=manifest.sha256)
    os.utime(first.path, ns=(1, 1))
    pinned = kind.pinned(prepared_sets.extent_of(tmp_path, DEMO, manifest))
    published(tmp_path, demo_labels(tmp_path, 2), name="demo_arith", sha256=manifest.sha256)
    assert prepared_sets.asked_indices(tmp_path, DEMO, pinned) == [299]
    assert prepared_sets.asked_indices(tmp_path, DEMO, kind) == [297, 298, 299]


def test_a_pinned_kind_whose_labels_are_gone_says_so(tmp_path: Path) -> None:
    manifest = demo_manifest(tmp_path)
    stored = published(tmp_path, demo_labels(tmp_path, 0), name="demo_arith", sha256=manifest.sha256)
    kind = DEMO.default_kind.with_settings({"where": "level>=299"})
    pinned = kind.pinned(prepared_sets.extent_of(tmp_path, DEMO, manifest))
    stored.path.unlink()
    assert pinned.rows_problem(prepared_sets.extent_of(tmp_path, DEMO, manifest)) == (
        f"where: there are no labels '{stored.name}' for these rows (their file was removed, or they are of rows that "
        "were prepared before): make them, or name others"
    )


def test_a_kind_without_labels_in_its_where_is_pinned_to_itself(tmp_path: Path) -> None:
    extent = prepared_sets.extent_of(tmp_path, DEMO, demo_manifest(tmp_path))
    plain = DEMO.default_kind
    assert plain.pinned(extent) == plain
    by_field = plain.with_settings({"where": "answer=7"})
    assert by_field.pinned(extent) == by_field
    assert by_field.pinned(Extent(300)) == by_field


def own(data_dir: Path, path: Path, text: str) -> prepared_sets.Manifest:
    path.write_text(text)
    return prepare_own("mine", path, data_dir, replace=True)


def test_labels_are_there_again_when_their_rows_are_prepared_again(tmp_path: Path) -> None:
    data_dir, path = tmp_path / "data", tmp_path / "mine.jsonl"
    these = '{"question": "1+1?", "answer": 2}\n{"question": "2+2?", "answer": 4}\n'
    before = own(data_dir, path, these)
    published(data_dir, [1, 2], name="own_mine", sha256=before.sha256)
    benchmark = Catalogue(data_dir=data_dir).load("own_mine")
    assert picked(prepared_sets.extent_of(data_dir, benchmark, before).fields, "level=2") == [1]
    others = own(data_dir, path, '{"question": "3+3?", "answer": 6}\n')
    with pytest.raises(SettingError, match="the rows have no field 'level'"):
        picked(prepared_sets.extent_of(data_dir, benchmark, others).fields, "level=2")
    again = own(data_dir, path, these)
    assert picked(prepared_sets.extent_of(data_dir, benchmark, again).fields, "level=2 answer=4") == [1]
