"""How many rows each part of a mix gives."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rwkv_data.recipes.mixing.mix import MixPart, shares

COUNTS = st.integers(0, 5000)
WEIGHTS = st.one_of(st.integers(1, 9).map(float), st.sampled_from([0.1, 0.3, 0.7, 2.5]), st.floats(1e-6, 1e6))
TABLES = st.one_of(
    st.fixed_dictionaries({}),
    st.fixed_dictionaries({"limit": st.integers(1, 6000)}),
    st.fixed_dictionaries({"weight": WEIGHTS}),
)
CASES = st.lists(st.tuples(TABLES, COUNTS), max_size=6)
WEIGHTED = st.lists(st.tuples(st.fixed_dictionaries({"weight": WEIGHTS}), COUNTS), min_size=1, max_size=6)
ROUNDING = 1e-6
"""By how much a share that is computed with floats may be wrong."""


def parts_of(tables: list[dict[str, float]]) -> list[MixPart]:
    return [MixPart(f"r{number}", is_recipe=True, **table) for number, table in enumerate(tables, 1)]


def given_by(*tables: dict[str, float], there: list[int]) -> list[int]:
    return shares(parts_of(list(tables)), there)


@given(CASES)
def test_a_part_gives_no_more_than_it_has_or_than_its_limit(case: list[tuple[dict[str, float], int]]) -> None:
    found = given_by(*(table for table, _ in case), there=[count for _, count in case])
    assert len(found) == len(case)
    for (table, count), share in zip(case, found, strict=True):
        assert isinstance(share, int)
        assert 0 <= share <= min(count, table.get("limit", count))


@given(CASES)
def test_a_part_without_a_weight_gives_all_that_it_may_whatever_the_others_have(
    case: list[tuple[dict[str, float], int]],
) -> None:
    found = given_by(*(table for table, _ in case), there=[count for _, count in case])
    for (table, count), share in zip(case, found, strict=True):
        if "weight" not in table:
            assert share == min(count, table.get("limit", count))


@given(WEIGHTED)
def test_weighted_parts_are_in_proportion_within_a_row_of_one_that_gives_all(
    case: list[tuple[dict[str, float], int]],
) -> None:
    weights, there = [table["weight"] for table, _ in case], [count for _, count in case]
    found = given_by(*(table for table, _ in case), there=there)

    def is_measure(at: int) -> bool:
        """Whether all shares are those of this part, multiplied by the weights."""
        exact = [there[at] * weight / weights[at] for weight in weights]
        return all(
            -ROUNDING * one <= one - share <= 1 + ROUNDING * one for one, share in zip(exact, found, strict=True)
        )

    assert any(is_measure(at) for at, share in enumerate(found) if there[at] - share <= 1)


@given(st.lists(st.tuples(st.integers(1, 20), COUNTS), min_size=1, max_size=6))
def test_some_part_with_a_whole_weight_gives_all_and_the_others_their_multiple(case: list[tuple[int, int]]) -> None:
    multiples = [
        [count * other // weight for other, _ in case] for weight, count in case
    ]  # what all would give if this one gave all
    possible = [one for one in multiples if all(share <= count for share, (_, count) in zip(one, case, strict=True))]
    assert given_by(*({"weight": float(weight)} for weight, _ in case), there=[count for _, count in case]) in possible


@given(WEIGHTED, st.randoms(use_true_random=False))
def test_the_order_of_the_parts_does_not_matter(case: list[tuple[dict[str, float], int]], shuffled: object) -> None:
    order = list(range(len(case)))
    shuffled.shuffle(order)  # type: ignore[attr-defined]
    found = given_by(*(table for table, _ in case), there=[count for _, count in case])
    other = given_by(*(case[at][0] for at in order), there=[case[at][1] for at in order])
    assert other == [found[at] for at in order]


@pytest.mark.parametrize(
    ("weights", "there", "shares_of_them"),
    [
        ([2, 1], [100, 100], [100, 50]),
        ([2, 1], [100, 10], [20, 10]),
        ([1, 1], [7, 7], [7, 7]),
        ([1, 3], [3, 7], [2, 7]),
        ([1, 1], [0, 7], [0, 0]),
        ([5e-324, 1e6], [1, 10**9], [0, 10**9]),
        ([0.5], [7], [7]),
        ([0.25, 0.75], [100, 299], [99, 299]),
    ],
)
def test_shares_by_weight(weights: list[float], there: list[int], shares_of_them: list[int]) -> None:
    assert given_by(*({"weight": weight} for weight in weights), there=there) == shares_of_them


def test_limits_and_whole_parts_stand_beside_weights() -> None:
    tables = ({"weight": 1}, {"limit": 5}, {}, {"weight": 2}, {"limit": 50})
    assert given_by(*tables, there=[10, 9, 8, 7, 6]) == [3, 5, 8, 7, 6]


def test_no_part_gives_nothing() -> None:
    assert shares([], []) == []


@pytest.mark.parametrize(("weights", "there"), [([0.1, 0.3], [10, 30]), ([0.1, 0.7], [100, 700])])
def test_a_decimal_weight_is_what_the_recipe_says(weights: list[float], there: list[int]) -> None:
    assert given_by(*({"weight": weight} for weight in weights), there=there) == there
