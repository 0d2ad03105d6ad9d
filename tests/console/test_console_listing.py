"""Order, filter and marks over rows, and which columns fit."""

from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rwkvctl.cli.render import Cell
from rwkvctl.tui.widgets.table_columns import GAP, Column, fitted
from rwkvctl.tui.widgets.table_rows import Listing


class Row(NamedTuple):
    name: str
    score: float | None
    done: int = 0


COLUMNS = [
    Column[Row]("NAME", lambda row: Cell(row.name, "bold"), 10, cut="middle"),
    Column[Row]("SCORE", lambda row: "–" if row.score is None else f"{row.score:.1f}", 6, value=lambda row: row.score,
                right=True),
    Column[Row]("DONE", lambda row: str(row.done), 5, value=lambda row: row.done, right=True, rank=1),
]  # fmt: skip
ROWS = [Row("b", 2.0, 1), Row("a", None, 2), Row("C", 3.0, 2), Row("d", 1.0, 1)]


@pytest.fixture
def listing() -> Listing[Row]:
    made = Listing(COLUMNS, lambda row: row.name)
    made.replace(ROWS)
    return made


def names(listing: Listing[Row]) -> str:
    return "".join(listing.row(place).name for place in range(len(listing)))


def test_rows_come_as_they_come(listing: Listing[Row]) -> None:
    assert names(listing) == "baCd"


def test_words_sort_in_any_case_and_figures_from_the_largest(listing: Listing[Row]) -> None:
    listing.sort(0)
    assert names(listing) == "abCd"
    listing.sort(0)
    assert names(listing) == "dCba"
    listing.sort(1)
    assert names(listing) == "Cbda"  # what has no score is last
    listing.sort(1)
    assert names(listing) == "dbCa"  # either way


def test_the_column_before_breaks_ties(listing: Listing[Row]) -> None:
    listing.sort(0, descending=False)
    listing.sort(2, descending=False)
    assert names(listing) == "bdaC"
    listing.unsort()
    assert names(listing) == "baCd"


def test_numbers_and_words_in_one_column_can_be_sorted() -> None:
    mixed: Listing[tuple[str, object]] = Listing(
        [Column("X", lambda row: str(row[1]), 5, value=lambda row: row[1])], lambda row: row[0]
    )
    mixed.replace([("1", "b"), ("2", 3), ("3", "A"), ("4", 1)])
    mixed.sort(0, descending=False)
    assert [mixed.key_at(place) for place in range(4)] == ["4", "2", "3", "1"]


def test_a_filter_keeps_the_order_and_counts(listing: Listing[Row]) -> None:
    listing.sort(1, descending=False)
    listing.filter("score:>=2")
    assert names(listing) == "bC"
    listing.filter("")
    assert names(listing) == "dbCa"
    with pytest.raises(ValueError, match="regular expression"):
        listing.filter("re:(")
    assert names(listing) == "dbCa"


def test_new_values_are_ordered_and_filtered_anew(listing: Listing[Row]) -> None:
    listing.sort(1)
    listing.filter("!zzz")
    listing.replace([ROWS[0], ROWS[1]._replace(score=9.0), *ROWS[2:]])
    assert names(listing) == "aCbd"
    listing.replace([*ROWS, Row("zzz", 8.0)])
    assert names(listing) == "Cbda"


def test_the_row_that_is_put_is_the_one_of_the_model(listing: Listing[Row]) -> None:
    listing.sort(0, descending=True)
    listing.put(1, Row("a", 7.0))
    assert names(listing) == "dCba"
    listing.arrange()
    assert listing.row(3).score == 7.0


def test_the_row_that_is_put_is_found_by_what_it_says_now(listing: Listing[Row]) -> None:
    listing.filter("2.0")
    assert names(listing) == "b"
    listing.put(0, Row("b", 7.0))
    listing.filter("7.0")
    assert names(listing) == "b"
    listing.filter("2.0")
    assert names(listing) == ""


def test_marks_outlive_changes_of_their_rows_only(listing: Listing[Row]) -> None:
    listing.toggle("b")
    listing.mark_range(3, 2)
    assert listing.targets(0) == ["b", "C", "d"]
    listing.toggle("C")
    listing.replace([ROWS[3], ROWS[1]])
    assert listing.targets(0) == ["d"]
    listing.marks.clear()
    assert listing.targets(1) == ["a"]
    assert listing.targets(9) == []


def test_a_model_is_not_read_before_it_is_shown() -> None:
    class Lazy(list[Row]):
        read = 0

        def __getitem__(self, place: object) -> Row:  # type: ignore[override]
            self.read += 1
            return ROWS[0]

        def __len__(self) -> int:
            return 100_000

    lazy = Lazy()
    listing = Listing(COLUMNS, lambda row: row.name)
    listing.rows = ()
    listing.replace(type("Model", (), {"__len__": lazy.__len__, "__getitem__": lazy.__getitem__})())
    assert len(listing) == 100_000
    assert lazy.read == 0
    assert listing.key_at(99_999) == "b"


ORDERS = st.lists(st.tuples(st.integers(0, 2), st.booleans()), max_size=4)
MODELS = st.lists(
    st.builds(Row, st.text(max_size=3), st.none() | st.floats(-9, 9), st.integers(0, 9)),
    max_size=12,
    unique_by=lambda r: r.name,
)


@given(MODELS, MODELS, ORDERS, st.sampled_from(["", "a", "done:>3", "!score:>0"]))
def test_shown_is_always_a_selection_of_the_model(
    first: list[Row], second: list[Row], orders: list[tuple[int, bool]], query: str
) -> None:
    listing = Listing(COLUMNS, lambda row: row.name)
    listing.replace(first)
    listing.filter(query)
    for column, descending in orders:
        listing.sort(column, descending=descending)
    listing.replace(second)
    assert len(set(listing.shown)) == len(listing.shown)
    assert set(listing.shown) <= set(range(len(second)))
    fresh = Listing(COLUMNS, lambda row: row.name)
    fresh.sorts = listing.sorts
    fresh.replace(second)
    fresh.filter(query)
    assert fresh.shown == listing.shown


def wide(count: int) -> list[Column[Row]]:
    return [Column(str(n), lambda row: row.name, 8 + n, least=4, grow=n % 2, rank=n) for n in range(count)]


@given(st.integers(1, 8), st.integers(4, 200))
def test_columns_fit_and_never_overlap(count: int, room: int) -> None:
    shown = fitted(wide(count), room)
    assert shown[0].number == 0
    end = 0
    for placed in shown:
        assert placed.x >= end
        assert placed.width >= 4
        end = placed.x + placed.width + GAP
    assert end - GAP <= room


def test_the_highest_rank_goes_first_and_what_is_left_over_grows() -> None:
    columns = [
        Column[Row]("A", str, 10, least=6, grow=1),
        Column[Row]("B", str, 10, rank=2),
        Column[Row]("C", str, 10, rank=1),
    ]
    assert [(placed.number, placed.width) for placed in fitted(columns, 50)] == [(0, 28), (1, 10), (2, 10)]
    assert [(placed.number, placed.width) for placed in fitted(columns, 28)] == [(0, 6), (1, 10), (2, 10)]
    assert [(placed.number, placed.width) for placed in fitted(columns, 20)] == [(0, 9), (2, 10)]
    assert [(placed.number, placed.width) for placed in fitted(columns, 8)] == [(0, 8)]
    assert [placed.width for placed in fitted(columns, 8, every=True)] == [10, 10, 10]
