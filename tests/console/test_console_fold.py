"""Repeated lines folded into one."""

from rwkvctl.tui.logs.filter import LogPlaces
from rwkvctl.tui.logs.store import LogStore, Scan, line_test, shape_of


def folded(lines: list[str], most: int = 1000) -> tuple[LogStore, Scan]:
    store = LogStore(most)
    scan = Scan(line_test(""), store, folds=True)
    for line in lines:
        store.feed(line + "\n")
        scan.prune()
        scan.step()
    return store, scan


def shown(store: LogStore, scan: Scan) -> list[str]:
    return [f"{scan.folded.get(number, 0)}:{store.line(number).decode()}" for number in scan.hits]


def test_lines_that_differ_in_figures_alone_become_first_and_newest() -> None:
    lines = [f"02:58:{n:02d} I batch={n} tok/s={n * 1.5}" for n in range(20)]
    assert shown(*folded(lines)) == [f"0:{lines[0]}", f"18:{lines[19]}"]


def test_another_line_between_ends_a_run() -> None:
    assert shown(*folded(["a 1", "a 2", "b", "a 3", "a 4", "a 5", "", "", ""])) == [
        "0:a 1", "0:a 2", "0:b", "0:a 3", "1:a 5", "0:", "0:", "0:"]  # fmt: skip


def test_a_mark_is_never_folded() -> None:
    store = LogStore()
    for n in range(3):
        store.feed(f"a {n}\n")
        store.note(f"mark {n}")
    scan = Scan(line_test(""), store, folds=True)
    scan.step()
    assert len(scan.hits) == 6


def test_old_lines_go_with_what_was_folded_before_them() -> None:
    lines = [f"a {n}" for n in range(50)] + [f"b {n}" for n in range(50)] + [f"c{'x' * n}" for n in range(100)]
    _, scan = folded(lines, most=100)
    assert not scan.folded
    assert len(scan.hits) == 100
    assert scan.dropped == 4


def test_the_shape_of_a_long_line_costs_its_length_once() -> None:
    assert shape_of(b"." * 16_000) == b"." * 16_000
    assert shape_of(b"1.2.3.4 x 99%") == b"0 x 0"


def test_places_fold_and_unfold_around_the_same_line() -> None:
    store = LogStore()
    store.feed("".join(f"a {n}\n" for n in range(10)) + "E boom\n" + "".join(f"a {n}\n" for n in range(10)))
    places = LogPlaces(store)
    places.folds = True
    places.filter("", "")
    places.look_on(1000)
    assert [places.number(place) for place in range(places.first, places.end)] == [0, 9, 10, 11, 20]
    assert [places.folded(place) for place in range(places.first, places.end)] == [0, 8, 0, 0, 8]
    assert places.place(10) == 2
    places.folds = False
    places.filter("", "")
    assert places.place(10) == 10
    assert places.folded(10) == 0
