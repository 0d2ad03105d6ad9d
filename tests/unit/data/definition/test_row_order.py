"""`order`: rows by the numbers of a field, and what is left of them after the other settings that pick rows."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rwkv_daemon.catalogue import contents
from rwkv_data.definition import registry, row_order
from rwkv_data.definition.errors import SettingError
from rwkv_data.definition.kind import Kind
from rwkv_data.definition.row_fields import RowsAtHand
from rwkv_data.definition.row_window import Extent
from rwkvctl.cli.selection import names_file

KIND = registry.load("demo_arith").kinds["free_response"]
Numbers = list[int | float | str | bool | None]
NUMBERS: st.SearchStrategy[Numbers] = st.lists(
    st.one_of(
        st.integers(-5, 5), st.floats(-5, 5), st.sampled_from(["3", "4.5", "hard", "", "1e999"]), st.booleans(),
        st.none(),
    ),
    min_size=1, max_size=30,
)  # fmt: skip


def rows_with(values: Numbers) -> list[dict[str, Any]]:
    return [{"question": f"{index}?", "answer": "1", "level": value} for index, value in enumerate(values)]


def number(value: float | str | bool | None) -> float | None:
    """The number that a value of a field is, told by hand."""
    if isinstance(value, str):
        return {"3": 3, "4.5": 4.5}.get(value)
    return None if value is None or isinstance(value, bool) else value


def by_hand(values: Numbers) -> list[int]:
    """The rows that have a number, the lowest first, by a selection sort."""
    left, found = {index: one for index, value in enumerate(values) if (one := number(value)) is not None}, []
    while left:
        first = min(left, key=lambda index: (left[index], index))
        found.append(first)
        del left[first]
    return found


@given(NUMBERS)
def test_rows_come_by_their_numbers_and_equal_ones_in_the_order_of_the_set(values: Numbers) -> None:
    try:
        found = RowsAtHand(rows_with(values)).ordered("level")
    except SettingError:
        assert all(value is None for value in values), "a field that no row has is none"
    else:
        assert list(found) == by_hand(values)


@given(NUMBERS.filter(lambda values: any(value is not None for value in values)), st.integers(0, 29),
       st.integers(1, 30), st.sampled_from(["all", "search", "report"]), st.floats(0.01, 1))  # fmt: skip
def test_what_the_other_settings_leave_is_asked_in_this_order(
    values: Numbers, first: int, rows: int, part: str, share: float
) -> None:
    table = rows_with(values)
    extent = Extent.of(table)
    plain = KIND.with_settings({"rows": f"{first}:{first + rows}", "part": part, "where": "question!=4?"})
    ordered = plain.with_settings({"order": "level"})
    if share < 1:
        plain, ordered = replace(plain, share=share), replace(ordered, share=share)
    wanted = by_hand(values)
    inside = list(ordered.inside(extent))
    assert inside == [index for index in wanted if index in set(plain.inside(extent))]
    chosen = ordered.chosen(inside, table)
    assert chosen == [index for index in wanted if index in set(ordered.chosen(sorted(inside), table))]
    assert ordered.rows_asked(extent) == len(chosen)
    assert ordered.chosen(inside, table, 3) == chosen[:3]
    assert [row["question"] for row in ordered.asked(table)] == [f"{index}?" for index in chosen]
    assert bool(ordered.rows_problem(extent)) == (not inside)


def test_an_order_is_part_of_the_configuration_and_can_be_taken_back() -> None:
    ordered = KIND.with_settings({"order": " level "})
    assert ordered.order == "level"
    assert ordered.configuration() == KIND.configuration() | {"order": "level"}
    assert ordered.picks_rows
    assert ordered.unpicked == KIND
    assert ordered.with_settings({"order": ""}) == KIND
    assert ordered.settings()["order"] == "level"
    with pytest.raises(SettingError, match=r"order='x{60}'… has 221 characters"):
        KIND.with_settings({"order": "x" * 221})


@given(st.text(st.sampled_from("ab./'\"@ "), max_size=6))
def test_a_name_is_read_back_as_it_is_spelled(name: str) -> None:
    assert row_order.parse(row_order.spelled(name)) == name
    assert row_order.parse(f'"{name}"') == name


def test_a_name_that_would_mean_a_file_is_spelled_in_quotes() -> None:
    for text in ("v.1", '"v.1"', "'v.1'"):
        kind = KIND.with_settings({"order": text})
        assert (kind.order, kind.picks["order"], kind.configuration()["order"]) == ("v.1", '"v.1"', '"v.1"')
    assert not names_file(KIND.with_settings({"order": "a/b"}).picks["order"])


def test_a_search_takes_no_order() -> None:
    search = next(kind for kind in registry.load("math_500").kinds.values() if kind.search)
    assert {"rows", "where"} < search.settings().keys()
    with pytest.raises(SettingError, match="there is no setting 'order' here"):
        search.with_settings({"order": "level"})


@pytest.mark.parametrize(
    ("order", "says"),
    [
        ("levle", "order: the rows have no field 'levle' that is a number or a short text; there are level (number)"),
        (
            "level@1a2b3c4d",
            "order: there are no labels 'level@1a2b3c4d' for these rows (their file was removed, or they",
        ),
        ("question", "order=question leaves none of its 3 rows"),
    ],
)
def test_an_order_that_means_nothing_is_refused_in_a_sentence(order: str, says: str) -> None:
    problem = KIND.with_settings({"order": order}).rows_problem(Extent.of(rows_with([1, 2, 3])))
    assert problem.startswith(says)
    without = KIND.with_settings({"order": order}).rows_problem(Extent(3))
    assert without == "the rows were prepared without their fields: prepare them again"


class Labelled(RowsAtHand):
    """Rows whose field `level` is labels."""

    def pinned(self, name: str) -> str:
        return f"{name}@1a2b3c4d" if name == "level" else name


def test_labels_are_fixed_to_their_present_version() -> None:
    extent = Extent(2, (), Labelled(rows_with([1, 2])))

    def pinned(**given: str) -> dict[str, str]:
        kind: Kind = KIND.with_settings(given).pinned(extent)
        return {name: text for name, text in kind.picks.items() if text}

    assert pinned(order="level") == {"order": "level@1a2b3c4d"}
    assert pinned(order="answer") == {"order": "answer"}
    assert pinned(order="answer", where="level>1") == {"order": "answer", "where": "level@1a2b3c4d>1"}
    assert pinned(rows=":1") == {"rows": "0:1"}


@pytest.mark.parametrize(
    ("given", "stored"),
    [
        ({"rows": ":1"}, {}),
        ({"rows": " :01 ", "where": "answer=1   question!=x"}, {}),
        ({"where": "level>=1  answer=1"}, {"where": "answer=1 level@1a2b3c4d>=1"}),
        ({"order": " level "}, {"order": "level@1a2b3c4d"}),
        ({"order": "v.1"}, {"order": '"v.1"'}),
        ({"order": ""}, {}),
    ],
)
def test_a_job_stores_what_was_given_but_for_labels_and_names_like_files(
    given: dict[str, str], stored: dict[str, str]
) -> None:
    """So an equal dispatch is found again before it has a key."""
    extent = Extent(2, (), Labelled(rows_with([1, 2])))
    assert contents.pinned(given, KIND.with_settings(given), extent) == given | stored
