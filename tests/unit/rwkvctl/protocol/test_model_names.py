"""What a list shows of a checkpoint's name can be typed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rwkvctl.cli.render import short_model
from rwkvctl.protocol.model_names import is_shown_as, meant, shorter

WHOLE = "rwkv7-g1-0.1b-20260910-ctx4096"


def test_what_tells_least_goes_first() -> None:
    assert list(shorter(WHOLE)) == [WHOLE, "rwkv7-g1-0.1b-20260910", "g1-0.1b-20260910"]
    assert list(shorter("mine")) == ["mine"]


@given(st.sampled_from([WHOLE, "my finetune", "rwkv-7-world-1.5b", "步骤-ctx512"]), st.integers(4, 40))
def test_what_a_list_shows_of_a_name_at_any_width_means_it(name: str, width: int) -> None:
    shown = short_model(name, width)
    assert is_shown_as(name, shown)
    assert meant(shown, [name, "another"]) == [name]


@pytest.mark.parametrize(
    "word", ["", "g1", "0.1b", "rwkv7", "g1-0.1b-20260910-ctx4096", "rwkv7-g1-0.1b-20260910…ctx4096x"]
)
def test_a_part_of_a_name_that_no_list_shows_means_nothing(word: str) -> None:
    assert meant(word, [WHOLE]) == []


def test_a_whole_name_means_itself_and_a_shown_one_all_that_share_it() -> None:
    longer = WHOLE.replace("4096", "8192")
    assert meant("g1-0.1b-20260910", [WHOLE, longer]) == [WHOLE, longer]
    assert meant("g1-0.1b-20260910", [WHOLE, "g1-0.1b-20260910"]) == ["g1-0.1b-20260910"]
    assert meant("rwkv7-…ctx8192", [WHOLE, longer]) == [longer]
