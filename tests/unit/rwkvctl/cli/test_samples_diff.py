"""`samples diff`: what it says when one number means two rows."""

import pytest

from rwkvctl.cli.commands.samples import rows_differ


@pytest.mark.parametrize(
    ("one", "other", "says"),
    [
        ("q7", "q9", "these are different rows: row 3 is q7 in j1 and q9 in j2"),
        ("q\x1b7", "q9", "these are different rows: row 3 is q␛7 in j1 and q9 in j2"),
        ("q7", "q7", ""),
        ("q7", "", ""),
        ("", "", ""),
    ],
)
def test_different_rows_of_one_number_are_named(one: str, other: str, says: str) -> None:
    assert rows_differ(3, {"j1": {"row_id": one}, "j2": {"row_id": other}}) == says
    assert rows_differ(3, {"j1": {}, "j2": {"row_id": other}}) == ""
