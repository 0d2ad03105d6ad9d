"""Events as the console holds them: a stretch of history without a hole, narrowed, and bounded."""

from typing import Any

from rwkvctl.protocol.events import Event
from rwkvctl.tui.events.event_rows import EventBook, mark, row_of


def event(seq: int, kind: str = "job.state", **data: Any) -> Event:
    return Event(kind=kind, at=f"2026-11-22T10:{seq // 60 % 60:02d}:{seq % 60:02d}.000Z", seq=seq, job="j1", data=data)


def numbers(book: EventBook) -> list[int]:
    return [row.seq for row in book.shown]


def test_live_events_come_on_top_and_the_past_below() -> None:
    book = EventBook()
    for seq in (11, 12):
        book.take(event(seq))
    assert numbers(book) == []
    assert book.settle() == 2
    assert numbers(book) == [12, 11]
    book.extend([event(seq) for seq in range(6, 11)], wanted=5)
    book.take(event(13))
    assert book.settle() == 1
    assert numbers(book) == [13, 12, 11, 10, 9, 8, 7, 6]
    assert (book.oldest, book.may_go_back) == (6, True)
    book.extend([event(4), event(5)], wanted=5)
    assert numbers(book)[-2:] == [5, 4]
    assert not book.may_go_back, "a short page is the last one"


def test_a_page_that_overlaps_is_taken_once() -> None:
    book = EventBook()
    book.take(event(5))
    book.settle()
    book.extend([event(3), event(4), event(5)], wanted=3)
    assert numbers(book) == [5, 4, 3]


def test_beyond_its_bound_the_oldest_are_let_go_and_may_be_fetched_again() -> None:
    book = EventBook(held=100)
    for seq in range(1, 251):
        book.take(event(seq))
        book.settle()
    assert numbers(book) == list(range(250, 150, -1))
    assert not book.began
    assert not book.may_go_back, "it is full"


def test_a_new_store_begins_again() -> None:
    book = EventBook()
    for seq in (900, 901):
        book.take(event(seq))
    book.settle()
    book.take(event(1))
    book.settle()
    assert numbers(book) == [1]


def test_it_is_narrowed_by_how_bad_it_is_and_what_it_is_about() -> None:
    book = EventBook()
    for one in (event(1, state="failed"), event(2, state="held"), event(3, state="done"),
                event(4, kind="gpu.state", condition="quarantined"), event(5, kind="engine.state")):  # fmt: skip
        book.take(one)
    book.settle()
    book.narrow("warn", "")
    assert numbers(book) == [4, 2, 1]
    book.narrow("bad", "")
    assert numbers(book) == [4, 1]
    book.narrow("bad", "devices")
    assert numbers(book) == [4]
    book.narrow("", "engines")
    assert numbers(book) == [5]
    book.take(event(6))
    assert book.settle() == 0, "none of the new ones is shown"
    book.narrow("", "")
    assert numbers(book) == [6, 5, 4, 3, 2, 1]


def test_a_time_is_found_or_not_known_yet() -> None:
    book = EventBook()
    for seq in (100, 200, 300):
        book.take(event(seq))
    book.settle()
    assert book.place_at("2026-11-22T10:04:00.000Z") == 1
    assert book.place_at("2026-11-22T10:59:00.000Z") == 0
    assert book.place_at("2026-11-22T10:00:00.000Z") is None


def test_a_row_keeps_the_state_and_nothing_of_the_rest() -> None:
    row = row_of(event(1, state="failed", big="x" * 10_000))
    assert (row.state, row.role) == ("failed", "bad")
    assert "x" * 100 not in repr(row)
    assert mark(row).text == "✗"
    assert mark(row_of(event(2, kind="gpu.state", condition="quarantined"))).text == "!"
    assert mark(row_of(event(3, kind="daemon"))).text == "·"
