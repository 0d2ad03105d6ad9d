"""Which rows are refused."""

import msgspec
import pytest
from training_rows import lineage, pair_row, plain_row

from rwkv_data.definition.errors import RowError
from rwkv_data.recipes.files import training_row
from rwkv_data.recipes.files.training_row import TrainingRow, Turn, check_row


@pytest.mark.parametrize(
    ("row", "said"),
    [
        (plain_row(), "the last turn is not the answer"),
        (plain_row("Q"), "the last turn is not the answer"),
        (plain_row("Q", "A", "Q"), "the last turn is not the answer"),
        (msgspec.structs.replace(plain_row("Q", "A"), chosen="A", rejected="B"), "the last turn is not the question"),
        (msgspec.structs.replace(plain_row("Q"), chosen="A"), "only one of a chosen and a rejected"),
        (TrainingRow(turns=(Turn("assistant", "A"),), lineage=lineage()), "do not take turns"),
        (TrainingRow(turns=(Turn("user", "Q"), Turn("user", "Q")), lineage=lineage()), "do not take turns"),
        (plain_row("Q", ""), "is empty"),
        (plain_row("Q", " \n\u3000"), "is empty"),
        (pair_row("Q", "A", ""), "is empty"),
        (plain_row("Q", "\ud800 surrogate"), "half a character"),
        (plain_row("Q", "A", system="\udfff"), "half a character"),
        (TrainingRow(turns=(Turn("user", "Q"), Turn("assistant", "A")), lineage=lineage(row_id="\ud800")), "half a"),
    ],
)
def test_a_row_that_no_file_can_hold_or_nobody_can_learn_from_is_refused(row: TrainingRow, said: str) -> None:
    with pytest.raises(RowError, match=said):
        check_row(row)


def test_a_row_has_a_largest_size(monkeypatch: pytest.MonkeyPatch) -> None:
    check_row(plain_row("Q", "long " * 200_000))
    size = len(msgspec.json.encode(plain_row("Q", "A")))
    monkeypatch.setattr(training_row, "LONGEST", size)
    check_row(plain_row("Q", "A"))
    with pytest.raises(RowError, match=f"the row has more than {size} bytes"):
        check_row(plain_row("Q", "AB"))
