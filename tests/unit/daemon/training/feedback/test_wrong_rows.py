"""Which rows a checkpoint gets wrong are shown: what it had right first, then one of each kind in turn."""

from hypothesis import given
from hypothesis import strategies as st

from rwkv_daemon.training.feedback.error_samples import WrongRow, WrongRows, in_turn
from rwkvctl.protocol.training.feedback import MOST_ERRORS

kinds = st.tuples(st.booleans(), st.sampled_from(["no_answer", "wrong"]), st.sampled_from(["", "law", "maths"]))


def wrong(row: int, reason: str = "wrong", subject: str = "") -> WrongRow:
    return WrongRow(row, 0, reason, subject, "A", "B")


def added(found: list[tuple[bool, str, str]]) -> WrongRows:
    rows = WrongRows()
    for row, (was_right, reason, subject) in enumerate(found):
        rows.add(wrong(row, reason, subject), was_right=was_right)
    return rows


def test_the_first_of_each_group_comes_before_the_second_of_any() -> None:
    groups = [[wrong(1), wrong(2), wrong(3)], [wrong(4)], [], [wrong(5), wrong(6)]]
    assert [one.row for one in in_turn(groups)] == [1, 4, 5, 2, 6, 3]
    assert list(in_turn([])) == []


def test_lost_rows_come_first_each_reason_and_subject_in_turn() -> None:
    rows = added([
        (False, "wrong", "law"), (False, "no_answer", "law"), (True, "wrong", "maths"), (True, "wrong", "maths"),
        (True, "wrong", "law"), (False, "wrong", "law"),
    ])  # fmt: skip
    assert [(was_right, row.row) for was_right, row in rows.chosen()] == [
        (True, 4), (True, 2), (True, 3), (False, 1), (False, 0), (False, 5),
    ]  # fmt: skip
    assert (rows.wrong, rows.lost) == (6, 3)


def test_a_rare_error_is_shown_beside_a_frequent_one() -> None:
    rows = added([(False, "wrong", "law")] * 500 + [(False, "no_answer", "maths")])
    assert 500 in [row.row for _, row in rows.chosen()]


@given(st.lists(kinds, max_size=80))
def test_counts_are_of_all_and_what_is_shown_is_ten_at_most(found: list[tuple[bool, str, str]]) -> None:
    rows = added(found)
    chosen = rows.chosen()
    assert (rows.wrong, rows.lost) == (len(found), sum(was_right for was_right, *_ in found))
    assert len(chosen) == min(MOST_ERRORS, len(found))
    assert len({row.row for _, row in chosen}) == len(chosen)
    assert [was_right for was_right, _ in chosen] == sorted((one for one, _ in chosen), reverse=True)
    assert sum(was_right for was_right, _ in chosen) == min(MOST_ERRORS, rows.lost)
    assert all(found[row.row] == (was_right, row.reason, row.subject) for was_right, row in chosen)


@given(st.lists(kinds, min_size=1, max_size=80))
def test_groups_are_shown_as_evenly_as_they_can_be(found: list[tuple[bool, str, str]]) -> None:
    rows = added(found)
    chosen = rows.chosen()
    for side in (True, False):
        counts = {key: sum(found[row.row] == key for _, row in chosen) for key in rows.groups if key[0] == side}
        for key, count in counts.items():
            assert count == found.count(key) or count >= max(counts.values()) - 1


@given(st.lists(kinds, max_size=80))
def test_a_group_keeps_its_first_rows_and_no_more_than_can_be_shown(found: list[tuple[bool, str, str]]) -> None:
    for key, group in added(found).groups.items():
        assert [row.row for row in group] == [row for row, one in enumerate(found) if one == key][:MOST_ERRORS]
