"""The race of a search: which points go on, which are dropped, and what is reported."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rwkv_data.definition.errors import SettingError
from rwkv_data.definition.sampling_search import RWKV_SKILLS_GRID, Search, shared_best, summary, survivors

GRID = {"temperature": ("0", "0.5", "1"), "top_p": ("0.5", "1")}
SEARCH = Search(stage="cot", grid=GRID, keep=0.5)


def verdicts(*shares: float, rows: int = 60) -> dict[int, dict[int, float]]:
    dice = random.Random(1)
    return {point: {row: float(dice.random() < share) for row in range(rows)} for point, share in enumerate(shares)}


def test_rwkv_skills_grid_has_192_points() -> None:
    points = Search(stage="cot", grid=RWKV_SKILLS_GRID).points
    assert len(points) == 192
    assert points[0]["cot.temperature"] == "0.3"
    assert points[1]["cot.frequency"] == "0.3"


def test_at_most_the_share_goes_on_best_first() -> None:
    found = verdicts(0.5, 0.55, 0.5, 0.45, 0.5, 0.5)
    assert len(survivors(SEARCH, found, range(6))) == 3


def test_a_point_that_is_surely_worse_goes_even_if_there_is_room() -> None:
    keep_all = Search(stage="cot", grid=GRID, keep=1.0)
    assert survivors(keep_all, verdicts(0.9, 0.1, 0.85), range(3)) == [0, 2]


def test_a_difference_that_never_varies_is_a_difference_too() -> None:
    keep_all = Search(stage="cot", grid=GRID, keep=1.0)
    always = {0: dict.fromkeys(range(8), 1.0), 1: dict.fromkeys(range(8), 0.0)}
    assert survivors(keep_all, always, range(2)) == [0]


@given(st.lists(st.lists(st.sampled_from([0.0, 1.0]), min_size=4, max_size=4), min_size=1, max_size=8))
def test_the_best_always_goes_on_and_nobody_comes_back(values: list[list[float]]) -> None:
    found = {point: dict(enumerate(row)) for point, row in enumerate(values)}
    live = survivors(SEARCH, found, range(len(values)))
    best = max(range(len(values)), key=lambda point: (sum(values[point]), -point))
    assert best in live
    assert set(survivors(SEARCH, found, live)) <= set(live)


def test_only_points_that_went_through_all_rows_can_be_the_best() -> None:
    found = verdicts(0.2, 0.4) | {2: {0: 1.0}}
    said = summary(SEARCH, found, 60)
    assert said["best"] == 1
    assert [point["rows"] for point in said["points"]] == [60, 60, 1, 0, 0, 0]


def test_the_shared_best_maximises_the_sum() -> None:
    one, other = summary(SEARCH, verdicts(0.9, 0.5, 0.7), 60), summary(SEARCH, verdicts(0.1, 0.5, 0.7), 60)
    settings, value = shared_best([one, other])
    assert settings == SEARCH.points[2]
    assert value == pytest.approx(one["points"][2]["value"] + other["points"][2]["value"])


def test_searches_of_other_grids_share_nothing() -> None:
    other = Search(stage="cot", grid={"temperature": ("0",)})
    with pytest.raises(SettingError, match="different grids"):
        shared_best([summary(SEARCH, verdicts(0.5), 60), summary(other, verdicts(0.5), 60)])
