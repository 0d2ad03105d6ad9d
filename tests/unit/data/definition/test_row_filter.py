"""`where`: its language round trip, what it refuses, and that it picks what a naive reading of the rows picks."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rwkv_data.definition import row_filter, row_ids, row_range
from rwkv_data.definition.errors import SettingError
from rwkv_data.definition.row_fields import LONGEST, MOST_FIELDS, RowsAtHand
from rwkv_data.definition.row_filter import Condition, RowFilter

ROWS: list[dict[str, Any]] = [
    {"question": "q" * 300, "source": "math", "difficulty": 3, "level": "Level 3", "hard": False},
    {"question": "q" * 300, "source": "olympiads", "difficulty": 7.5, "level": "Level 5", "hard": True},
    {"question": "q" * 300, "source": "math", "difficulty": "9", "level": "5"},
    {"question": "q" * 300, "source": "amc aime", "tags": ["a"]},
    {"question": "q" * 300, "source": None, "difficulty": 4.0, "level": 'in "quotes" and \\'},
]


def picked(text: str, rows: list[dict[str, Any]] = ROWS) -> list[int]:
    where = row_filter.parse(text)
    assert where is not None
    return [index for index, flag in enumerate(RowsAtHand(rows).matching(where)) if flag]


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("difficulty>=4", [1, 2, 4]),
        ("difficulty>=4 difficulty<=9", [1, 2, 4]),
        ("difficulty=4", [4]),
        ("difficulty=4.0 ", [4]),
        ("difficulty=+9", [2]),
        ("difficulty!=4", [0, 1, 2]),
        ("difficulty<3.5", [0]),
        ("difficulty>7.5", [2]),
        ("difficulty=3e0", [0]),
        ("source=math", [0, 2]),
        ("source=math difficulty>=4", [2]),
        ("  source = math   difficulty >= 4  ", [2]),
        ("source!=math", [1, 3]),
        ('source="amc aime"', [3]),
        ("source='amc aime'", [3]),
        ('level="5"', [2]),
        ("level=5", [2]),
        ("level!=5", [0, 1, 4]),
        ("level='Level 5'", [1]),
        ('level="in \\"quotes\\" and \\\\"', [4]),
        ("level>4", [2]),
        ("hard=true", [1]),
        ("hard!=true", [0]),
        ("hard=1", []),
        ("source=Math", []),
    ],
)
def test_numbers_compare_as_numbers_and_text_as_text(text: str, rows: list[int]) -> None:
    assert picked(text) == rows


def test_a_row_without_the_field_does_not_match() -> None:
    assert picked("difficulty=3") + picked("difficulty!=3") == [0, 1, 2, 4]
    assert picked("source!=nothing") == [0, 1, 2, 3], "null is no value"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("difficulty", "'difficulty' does not begin with a condition; write FIELD=VALUE"),
        ("difficulty>=4 source", "'source' does not begin with a condition"),
        ("=4", "'=4' does not begin with a condition"),
        ("a==4", "'a==4' does not begin with a condition"),
        ("a=b=c", "'a=b=c' does not begin with a condition"),
        ('a="b"c=d', "does not begin with a condition"),
        ('a="b', "does not begin with a condition"),
        ("a=1,b=2", "does not begin with a condition"),
        ("source>=hard", "source>=hard compares numbers, and hard is text, which is compared by = and != only"),
        ('difficulty<"4"', 'difficulty<"4" compares numbers, and "4" is text'),
        ("difficulty<1e999", "compares numbers, and 1e999 is text"),
        ("a=" + "b" * 3000, "where has 3002 characters; 2000 are the most"),
    ],
)
def test_what_is_no_filter_is_refused(text: str, says: str) -> None:
    with pytest.raises(SettingError) as caught:
        row_filter.parse(text)
    assert says in str(caught.value)


def test_an_unknown_field_is_named_with_those_there_are_the_closest_first() -> None:
    with pytest.raises(SettingError) as caught:
        picked("dificulty>=4")
    assert "no field 'dificulty' that is a number or a short text; there are difficulty (mixed values), " in str(
        caught.value
    )
    assert str(caught.value).endswith("hard (true or false), level (text), source (text)")
    with pytest.raises(SettingError, match="no field 'question'"):
        picked("question=q")
    with pytest.raises(SettingError, match="no field 'tags'"):
        picked("tags=a")
    with pytest.raises(SettingError, match=r"there are none$"):
        picked("a=1", [{"question": "q" * 300}])
    with pytest.raises(SettingError, match=r"there are a0 \(number\), .* and 16 more$"):
        picked("b=1", [{f"a{number}": number for number in range(40)}])
    with pytest.raises(SettingError, match=r"there are '\\x1b\[2J' \(text\)$"):
        picked("b=1", [{"\x1b[2J": "x"}])


def test_fields_are_bounded_whatever_a_set_holds() -> None:
    rows: list[dict[str, Any]] = [{f"f{row}_{number}": 1 for number in range(100)} for row in range(100)]
    assert len(RowsAtHand(rows).kinds) == MOST_FIELDS
    assert not RowsAtHand([{"n" * (LONGEST + 1): 1}]).kinds
    assert RowsAtHand([{"a": "x" * LONGEST, "b": "x" * (LONGEST + 1)}]).kinds == {"a": "text"}
    assert RowsAtHand([{"a": "x", "b": 1}, {"a": "x" * (LONGEST + 1), "b": None}]).kinds == {"b": "number"}


def test_a_filter_has_one_spelling() -> None:
    spellings = ["b=2 a='1 1'", ' a = "1 1"   b = 2.0', "b=2 a='1 1' b=2"]
    assert {parsed.text for text in spellings if (parsed := row_filter.parse(text))} == {'a="1 1" b=2'}
    assert row_filter.parse("") is row_filter.parse("  ") is None


def test_versions_of_labels_do_not_make_a_filter_too_long() -> None:
    where = row_filter.parse(" ".join(f"level!={number}" for number in range(150)))
    assert where is not None
    pinned = where.renamed(lambda name: f"{name}@1a2b3c4d")
    assert len(pinned.text) > row_filter.LONGEST
    assert row_filter.parse(pinned.text) == pinned


NAMES = st.text(min_size=1, max_size=12)
NUMBERS = st.integers(-(2**60), 2**60) | st.floats(allow_nan=False, allow_infinity=False)
VALUES = NAMES | st.text(max_size=3) | NUMBERS.map(repr)


@st.composite
def filters(draw: st.DrawFn) -> str:
    """A filter in a spelling that the language allows."""
    conditions = []
    for _ in range(draw(st.integers(1, 4))):
        field, value = draw(NAMES), draw(VALUES)
        numeric = value[:1] not in "\"'" and row_filter._number(value) is not None
        sign = draw(st.sampled_from([*row_filter.OPERATORS] if numeric else ["=", "!="]))
        blank = draw(st.sampled_from(["", " "]))
        conditions.append(f"{quoted(field)}{blank}{sign}{blank}{value if numeric else quoted(value)}")
    return draw(st.sampled_from([" ", "  ", "\n"])).join(conditions)


def quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


@given(filters())
def test_what_is_written_is_read_back(text: str) -> None:
    parsed = row_filter.parse(text)
    assert parsed is not None
    assert row_filter.parse(parsed.text) == parsed
    assert row_filter.parse(" ".join(reversed([one.text for one in parsed.conditions]))) == parsed


def naive(condition: Condition, row: dict[str, Any]) -> bool:
    """The rules of the language, read once more without columns or codes."""
    value, wanted = row.get(condition.field), condition.value
    if value is None:
        return False
    if isinstance(wanted, str):
        text = json.dumps(value) if isinstance(value, bool) else str(value)
        return text == wanted if condition.operator == "=" else text != wanted
    number = value
    if isinstance(value, str):
        try:
            number = float(value) if set(value) <= set("0123456789.eE+-") else None
        except ValueError:
            number = None
    if number is None or isinstance(value, bool):
        return condition.operator == "!="
    return {
        "=": number == wanted, "!=": number != wanted, "<": number < wanted,
        "<=": number <= wanted, ">": number > wanted, ">=": number >= wanted,
    }[condition.operator]  # fmt: skip


FIELDS = ["source", "difficulty", "year"]
CELLS = (
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.sampled_from([0.5, 1.0, -2.5])
    | st.sampled_from(["", "math", "1", "2.5", "-3", "true", "1e0", ".5", "a b"])
)
TABLES = st.lists(st.dictionaries(st.sampled_from(FIELDS), CELLS), max_size=12)
CONDITIONS = st.builds(
    Condition, st.sampled_from(FIELDS), st.sampled_from(["=", "!="]), st.sampled_from(["", "math", "true", "a b"])
) | st.builds(
    Condition, st.sampled_from(FIELDS), st.sampled_from([*row_filter.OPERATORS]), st.sampled_from([0, 1, 2.5, -3])
)


@given(TABLES, st.lists(CONDITIONS, min_size=1, max_size=3))
def test_columns_pick_what_a_naive_reader_picks(rows: list[dict[str, Any]], conditions: list[Condition]) -> None:
    every: list[dict[str, Any]] = [*rows, {"source": "math", "difficulty": 1, "year": 1}]
    where = row_filter.parse(" ".join(one.text for one in conditions))
    assert where is not None
    flags = RowsAtHand(every).matching(where)
    assert list(flags) == [all(naive(one, row) for one in conditions) for row in every]
    assert {*where.conditions} == {*conditions}


def test_a_filter_looks_at_each_field_it_names() -> None:
    where = RowFilter((Condition("a", "=", 1), Condition("b", "<", 2), Condition("a", "<", 3)))
    assert where.fields == ["a", "b"]


@pytest.mark.parametrize(
    ("text", "rows", "key"),
    [("0:20000", range(50), "0:20000"), ("10:20", range(10, 20), "10:20"), (":7", range(7), "0:7"),
     ("48:", range(48, 50), "48:"), (" 0:07 ", range(7), "0:7"), ("60:70", range(50, 50), "60:70")],
)  # fmt: skip
def test_a_range_is_half_open_and_has_one_spelling(text: str, rows: range, key: str) -> None:
    found = row_range.parse(text)
    assert found is not None
    assert (list(found.within(50)), found.text) == (list(rows), key)
    assert row_range.parse(found.text) == found


def test_a_range_that_leaves_nothing_out_is_none() -> None:
    assert [row_range.parse(text) for text in ("", ":", "0:", " 0: ")] == [None] * 4


@pytest.mark.parametrize("text", ["100", "a:b", "-1:5", "1:2:3", "0:99999999999999", "1.5:3", "٣:٥"])
def test_what_is_no_range_is_refused(text: str) -> None:
    with pytest.raises(SettingError, match="is no range of rows, such as 0:20000, :100 or 100:"):
        row_range.parse(text)


@pytest.mark.parametrize("text", ["5:5", "7:3", "0:0", ":0"])
def test_a_range_without_rows_is_refused(text: str) -> None:
    with pytest.raises(SettingError, match="holds no row"):
        row_range.parse(text)


def test_a_row_is_called_as_upstream_calls_it_else_by_its_place() -> None:
    name = row_ids.ids_of("set", [{"id": "a/1"}, {"id": 7}, {}, {"id": ""}, {"id": None}, {"id": " b "}, {"id": True}])
    assert [name(index) for index in range(7)] == ["a/1", "7", "set/2", "set/3", "set/4", "b", "set/6"]
    name = row_ids.ids_of("plus", [{"task_id": "HumanEval/1", "key": 3}, {"id": "", "uuid": "u"}, {"key": 1000}])
    assert [name(index) for index in range(3)] == ["HumanEval/1", "u", "1000"]


def test_ids_that_two_rows_share_name_neither() -> None:
    name = row_ids.ids_of("flores", [{"id": 1}, {"id": "1"}, {"id": 2}])
    assert [name(index) for index in range(3)] == ["flores/0", "flores/1", "flores/2"]
    assert row_ids.upstream_id("x" * (LONGEST + 1)) == ""


@pytest.mark.parametrize("text", ["two\nlines", "a\rb", "\x1b[2J", "a\u2028b", "a\x85b", "nul\0"])
def test_what_has_control_characters_is_no_id(text: str) -> None:
    name = row_ids.ids_of("set", [{"id": text, "uuid": "u"}, {"id": text + "2"}, {"id": "Ünïcode \u3000线"}])
    assert [name(index) for index in range(3)] == ["u", "set/1", "Ünïcode \u3000线"]
