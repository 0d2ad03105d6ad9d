"""The column file beside prepared rows: what it holds in groups, what a filter reads of it, and damage."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rwkv_data.definition import row_filter
from rwkv_data.definition.errors import RowsDamagedError, SettingError
from rwkv_data.definition.row_fields import RowsAtHand
from rwkv_data.prepare import field_file
from rwkv_data.prepare.field_file import FieldFile, FieldWriter
from rwkv_data.prepare.writer import LineFile

ROWS: list[dict[str, Any]] = [
    {"source": "math", "difficulty": 3, "id": "a"},
    {"source": "olympiads", "difficulty": 7.5, "id": 2, "late": True},
    {"difficulty": None, "id": "c", "question": "q" * 500},
]


def written(path: Path, rows: list[dict[str, Any]]) -> FieldFile:
    with path.open("wb") as stream:
        file = LineFile(stream)
        writer = FieldWriter(file.add)
        for row in rows:
            writer.take(row)
        writer.finish()
    return FieldFile(path, file.written.sha256, len(rows), writer.kinds, "prepare it again")


def picked(found: Any, text: str) -> bytes:
    where = row_filter.parse(text)
    assert where is not None
    matches: bytes = found.matching(where)
    return matches


def answer(found: Any, text: str) -> bytes | str:
    """What is picked, or why nothing can be."""
    try:
        return picked(found, text)
    except SettingError as error:
        return str(error)


def test_a_group_has_a_line_for_itself_and_one_for_each_field(tmp_path: Path) -> None:
    file = written(tmp_path / "fields.jsonl", ROWS)
    assert file.path.read_text().splitlines() == [
        '{"rows":3}',
        '{"name":"source","values":["math","olympiads"],"codes":[1,2,0]}',
        '{"name":"difficulty","values":[3,7.5],"codes":[1,2,0]}',
        '{"name":"id","values":["a",2,"c"],"codes":[1,2,3]}',
        '{"name":"late","values":[true],"codes":[0,1,0]}',
    ]
    assert file.kinds == {"difficulty": "number", "id": "mixed values", "late": "true or false", "source": "text"}
    assert list(file.values("id")) == ["a", 2, "c"]
    assert list(file.values("source")) == ["math", "olympiads", None]


def test_a_set_without_fields_has_rows_all_the_same(tmp_path: Path) -> None:
    file = written(tmp_path / "fields.jsonl", [{"question": "q" * 500}] * 3)
    assert (file.path.read_text(), file.kinds) == ('{"rows":3}\n', {})


CELLS = st.none() | st.booleans() | st.integers(-2, 2) | st.sampled_from(["a", "b", "1", "é\n"]) | st.just([1])
TABLES = st.lists(st.dictionaries(st.sampled_from(["a", "b", "c\n"]), CELLS), min_size=1, max_size=9)


@given(TABLES, st.integers(1, 4), st.integers(1, 40), st.sampled_from(["a=1", "b=a", "a!=b", "b>=0 a=a", '"c\n"!=1']))
def test_the_file_picks_what_the_rows_pick(
    tmp_path_factory: pytest.TempPathFactory, rows: list[dict[str, Any]], group: int, size: int, text: str
) -> None:
    """However the rows fall into groups."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(field_file, "GROUP_ROWS", group)
        patch.setattr(field_file, "GROUP_BYTES", size)
        file = written(tmp_path_factory.mktemp("fields") / "fields.jsonl", rows)
    at_hand = RowsAtHand(rows)
    assert file.kinds == at_hand.kinds
    assert answer(file, text) == answer(at_hand, text)


def test_a_field_that_turns_out_to_be_long_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(field_file, "GROUP_ROWS", 1)
    file = written(tmp_path / "fields.jsonl", [{"a": "x", "b": 1}, {"a": "x" * 500, "b": 2}])
    assert '"name":"a"' in file.path.read_text(), "its first group was written before that was known"
    with pytest.raises(SettingError, match=r"no field 'a' .* there are b \(number\)"):
        picked(file, "a=x")


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (lambda text: text.replace("math", "maths"), "other sha256 than when it was written"),
        (lambda text: text[: len(text) // 2], "damaged"),
        (lambda text: text.replace('"codes":[1,2,0]', '"codes":[1,9,0]'), "does not fit its rows"),
        (lambda text: text.replace('"codes":[1,2,0]', '"codes":[1,2]'), "does not fit its rows"),
        (lambda text: text.replace('"codes":[1,2,0]', '"codes":[1,-2,0]'), "does not fit its rows"),
        (lambda text: text.replace('"codes":[1,2,0]', '"codes":"x"'), "damaged"),
        (lambda text: "", "other sha256"),
        (lambda text: '{"rows":3000000000000}\n' * 2, "a group of 3000000000000 rows"),
    ],
)
def test_a_file_that_is_not_the_manifests_is_refused(tmp_path: Path, damage: Any, says: str) -> None:
    file = written(tmp_path / "fields.jsonl", ROWS)
    file.path.write_text(damage(file.path.read_text()))
    with pytest.raises(RowsDamagedError) as caught:
        picked(file, "source=math")
    assert says in str(caught.value)
    assert str(caught.value).endswith("; prepare it again")


def test_a_file_that_is_gone_or_of_fewer_rows_is_refused(tmp_path: Path) -> None:
    file = written(tmp_path / "fields.jsonl", ROWS)
    more = FieldFile(file.path, file._sha256, 4, file.kinds, "prepare it again")
    with pytest.raises(RowsDamagedError, match="has 3 rows, its manifest says 4; prepare it again"):
        picked(more, "source=math")
    file.path.unlink()
    with pytest.raises(RowsDamagedError, match="No such file or directory"):
        picked(file, "source=math")


def test_the_same_filter_is_read_once(tmp_path: Path) -> None:
    file = written(tmp_path / "fields.jsonl", ROWS)
    before = picked(file, "source=math")
    file.path.unlink()
    assert picked(file, " source = math ") == before == bytes([1, 0, 0])


@pytest.mark.parametrize(
    ("ids", "unique"), [([1, 2, "3"], True), (["a", None, "", None], True), ([1, "1"], False), (["a", "b", "a"], False)]
)
def test_ids_are_names_where_no_two_rows_share_one(ids: list[Any], unique: bool) -> None:
    writer = FieldWriter(lambda _line: None)
    for one in ids:
        writer.take({"id": one})
    assert writer.unique_ids is unique


def test_numbers_come_back_exactly(tmp_path: Path) -> None:
    numbers = [0, -1, 2**53 + 1, 10**30, 0.1, 1e22, -2.5, 1.0, 5e-324]
    file = written(tmp_path / "fields.jsonl", [{"n": number} for number in numbers])
    assert [(type(one), one) for one in file.values("n")] == [(type(one), one) for one in numbers]
    assert list(picked(file, f"n={2**53 + 1}")) == [int(one == 2**53 + 1) for one in numbers]
    assert list(picked(file, f"n>={10**30}")) == [int(one >= 10**30) for one in numbers]


def test_texts_of_any_kind_come_back(tmp_path: Path) -> None:
    texts = ['"', "\\", "\n", "\u2028", "日本", "\x00", "rows"]
    file = written(tmp_path / "fields.jsonl", [{"rows": text} for text in texts])
    assert list(file.values("rows")) == texts
    assert len(file.path.read_bytes().split(b"\n")) == 3
    assert json.loads(file.path.read_text().split("\n")[1])["values"] == texts
