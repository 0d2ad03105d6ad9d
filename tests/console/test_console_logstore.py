"""Lines of a log in memory: numbers that stay, what is given up, filters, searches, times and levels."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rwkvctl.tui.logs.filter import LogPlaces
from rwkvctl.tui.logs.find_time import line_at
from rwkvctl.tui.logs.lines import level, needle_of, pieces, stamp_s
from rwkvctl.tui.logs.store import LogStore, Scan, line_test
from rwkvctl.tui.widgets.strips import lit


def lines(store: LogStore) -> list[str]:
    return [store.line(number).decode() for number in range(store.first, store.end)]


def filled(*texts: str, most: int = 1000) -> LogStore:
    store = LogStore(most)
    store.feed("".join(f"{text}\n" for text in texts))
    return store


@given(st.lists(st.text(st.characters(exclude_characters="\n", exclude_categories=["Cs"]), max_size=20), max_size=30),
       st.lists(st.integers(0, 200), max_size=10))  # fmt: skip
def test_pieces_cut_anywhere_give_the_same_lines(texts: list[str], cuts: list[int]) -> None:
    whole, store, at = "".join(f"{text}\n" for text in texts), LogStore(), 0
    for cut in sorted(cuts):
        store.feed(whole[at:cut])
        at = max(at, cut)
    store.feed(whole[at:])
    assert lines(store) == texts


@given(st.integers(1, 40), st.lists(st.integers(0, 3000), max_size=8))
def test_the_oldest_are_given_up_and_numbers_stay(most: int, counts: list[int]) -> None:
    store, fed = LogStore(most), 0
    for count in counts:
        store.extend([f"line {fed + n}".encode() for n in range(count)])
        fed += count
    assert store.end == fed
    assert store.end - store.first == min(most, fed)
    assert lines(store) == [f"line {n}" for n in range(max(0, fed - most), fed)]


def test_a_line_without_an_end_is_bounded_and_waits() -> None:
    store = LogStore()
    for _ in range(100):
        store.feed("x" * 1000)
    assert store.end == 0
    store.feed("\nnext\n")
    assert len(store.line(0)) <= 17_000
    assert lines(store)[1] == "next"


TEXTS = st.lists(st.sampled_from(["error here", "Error THERE", "all fine", "fine error", "", "x=1 ok=0"]), max_size=60)


@given(TEXTS, st.sampled_from(["error", "Error", "fine error", "!fine", "error !here", "re:ok=\\d", "", "re:^$"]))
def test_filter_and_search_find_what_a_look_at_each_line_finds(texts: list[str], wanted: str) -> None:
    store, test = filled(*texts), line_test(wanted)
    expected = [number for number, text in enumerate(texts) if test.passes(text.encode())]
    scan = Scan(test, store)
    while not scan.done:
        scan.step(7)
    assert list(scan.hits) == expected
    for start in range(len(texts) + 1):
        ahead = [number for number in store.seek(test, start) if number >= 0]
        behind = [number for number in store.seek(test, start, backward=True) if number >= 0]
        assert ahead == [number for number in expected if number >= start]
        assert behind == [number for number in reversed(expected) if number < start]


def test_small_letters_mean_any_case_and_others_only_themselves() -> None:
    assert line_test("error").passes(b"ERROR")
    assert not line_test("Error").passes(b"ERROR")
    with pytest.raises(ValueError, match="is not a regular expression"):
        line_test("re:(")


def test_places_of_hits_stay_when_their_lines_go() -> None:
    store = LogStore(100)
    places = LogPlaces(store)
    places.filter("hit", "")
    for number in range(1000):
        store.feed(f"{number} {'hit' if number % 10 == 0 else 'miss'}\n")
        if number % 7 == 0:
            places.look_on(8192)
    while not places.look_on(8192):
        pass
    kept = {places.number(place) for place in range(places.first, places.end)}
    assert kept == {number for number in range(store.first, 1000) if number % 10 == 0}
    assert places.place(950) == 95
    assert places.number(95) == 950


def test_levels_filter_and_combine_with_words() -> None:
    store = filled(
        "02:58:50 I worker fine", "02:58:51 W grade two answers", "02:58:52 E judge 429", "ValueError: no", "I W"
    )
    places = LogPlaces(store)
    for least, text, found in (("warn", "", [1, 2, 3, 4]), ("bad", "", [2, 3]), ("warn", "judge", [2])):
        places.filter(text, least)  # type: ignore[arg-type]
        places.look_on(100)
        assert [places.number(place) for place in range(places.first, places.end)] == found


@pytest.mark.parametrize(
    ("line", "expected"),
    [("02:58:50 E judge", "bad"), ("02:58:50.114 W grade", "warn"), ("2026-11-21 02:58:50 WARNING x", "warn"),
     ("Traceback (most recent call last):", "bad"), ("KeyError: 'x'", "bad"), ("all is well", ""), ("EW", "")],
)  # fmt: skip
def test_level_of_a_line(line: str, expected: str) -> None:
    assert level(line) == expected


def test_stamps() -> None:
    assert stamp_s("02:58:50.5 x") == 2 * 3600 + 58 * 60 + 50.5
    assert stamp_s("2026-11-21T02:58:50Z x") == stamp_s("2026-11-21 02:58:50 x")
    assert stamp_s("2026-99-99T02:58:50Z x") is None
    assert stamp_s("no time") is None
    assert pieces(b"02:58:50 I x", "off") == [("I x", "")]
    assert pieces(b"02:58:50 I x", "relative", stamp_s("02:51:46")) == [("  +7m04s I x", "")]
    assert pieces(b"no time", "relative", 0.0) == [("no time", "")]


def test_colours_become_roles_and_nothing_else_does() -> None:
    assert pieces(b"\x1b[31mred\x1b[0m plain \x1b[1;32mgreen\x1b[m") == [
        ("red", "bad"),
        (" plain ", ""),
        ("green", "ok"),
    ]
    hidden = pieces(b"\x1b[8;5mhidden\x1b[48;2;0;0;0m\x1b[2Jx")
    assert "".join(text for text, _ in hidden) == "hidden␛[2Jx"
    assert {role for _, role in hidden} == {""}


def test_what_was_searched_stands_out() -> None:
    needle = needle_of("b.c")
    assert needle is not None
    assert lit([("ab.cB.Cd", "dim")], needle) == [("a", "dim"), ("b.c", "badge"), ("B.C", "badge"), ("d", "dim")]
    assert needle_of("!x") is None
    assert needle_of("re:(") is None


HOURS = [f"{h:02d}:{m:02d}:00 line" for h in (22, 23, 0, 1, 2, 3) for m in range(60)]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("02:30", "02:30:00 line"),
        ("@23:59", "23:59:00 line"),
        ("0:00:00", "00:00:00 line"),
        ("01:15:30", "01:16:00 line"),
    ],
)
def test_a_time_is_found_over_midnight(text: str, line: str) -> None:
    store = filled("no stamp here", *HOURS, *["and none here"] * 5)
    found = line_at(store, text)
    assert found is not None
    assert store.line(found).decode() == line


def test_the_latest_day_counts_and_a_later_time_is_none() -> None:
    twice = [f"{h:02d}:00:00 day {day}" for day in (1, 2) for h in range(24)]
    store = LogStore()
    store.feed("".join(f"{line} {'x' * 3000}\n" for line in twice))  # several pieces
    found = line_at(store, "05:00")
    assert found is not None
    assert store.line(found).startswith(b"05:00:00 day 2")
    assert line_at(filled("03:00:00 x"), "04:00") is None
    assert line_at(filled("03:00:00 x"), "noon") is None
    assert line_at(filled("03:00:00 x", "04:00:00 y"), "01:00") == 0


def test_every_stamp_of_a_random_log_is_found() -> None:
    store = filled(*HOURS)
    for number in range(0, len(HOURS), 17):
        assert line_at(store, re.split(" ", HOURS[number])[0]) == number
