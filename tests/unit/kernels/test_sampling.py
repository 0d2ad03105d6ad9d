"""The sampler against a plain restatement of its rule, row by row in Python floats."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rwkv_kernels import sampling
from rwkv_kernels.draw import Costs, Draw
from rwkv_kernels.philox import uniforms


def restated(logits: list[float], draw: Draw) -> int:
    """Draw by the sampler's rule in plain Python."""
    if draw.greedy:
        return logits.index(max(logits))
    z = [x / draw.temperature for x in logits]
    top = max(z)
    p = [math.exp(x - top) for x in z]
    total = sum(p)
    point = float(uniforms([draw.key], [draw.position])[0])
    kept, mass = [], 0.0
    for rank, i in enumerate(sorted(range(len(z)), key=lambda i: (-logits[i], i))):
        if (0 < draw.top_k <= rank) or (draw.top_p < 1.0 and mass >= draw.top_p * total):
            break
        kept.append(i)
        mass += p[i]
    kept.sort()
    goal, seen = point * sum(p[i] for i in kept), 0.0
    for i in kept:
        seen += p[i]
        if seen > goal:
            return i
    return kept[-1]


draws = st.builds(
    Draw,
    temperature=st.sampled_from([0.0, 0.3, 1.0, 2.5]),
    top_k=st.sampled_from([0, 1, 2, 5, 50]),
    top_p=st.sampled_from([0.0, 0.3, 0.75, 0.9, 1.0]),
    key=st.integers(0, 2**64 - 1),
    position=st.integers(0, 5000),
)


@given(st.lists(draws, min_size=1, max_size=5), st.sampled_from([7, 64, 257, 600]), st.integers(0, 10_000))
def test_it_draws_what_the_rule_says(rows: list[Draw], vocabulary: int, seed: int) -> None:
    logits = torch.randn(len(rows), vocabulary, generator=torch.Generator().manual_seed(seed)) * 3
    wanted = [restated(logits[i].tolist(), draw) for i, draw in enumerate(rows)]
    assert sampling.sample(logits.clone(), rows) == wanted


@settings(max_examples=30, deadline=None)
@given(st.lists(draws, min_size=2, max_size=6), st.integers(0, 10_000))
def test_a_row_does_not_depend_on_the_others(rows: list[Draw], seed: int) -> None:
    logits = torch.randn(len(rows), 257, generator=torch.Generator().manual_seed(seed))
    together = sampling.sample(logits.clone(), rows)
    assert together == [sampling.sample(logits[i : i + 1].clone(), [draw])[0] for i, draw in enumerate(rows)]


def test_equal_logits_are_ordered_by_id() -> None:
    logits = torch.zeros(1, 65536)
    assert sampling.sample(logits.clone(), [Draw()]) == [0]
    seen = {sampling.sample(logits.clone(), [Draw(1.0, top_k=3, key=key)])[0] for key in range(60)}
    assert seen == {0, 1, 2}
    assert sampling.best_first(torch.tensor([1.0, 5.0, 5.0, 5.0, 0.0, 0.0, 0.0, 0.0]), 2).tolist() == [1, 2]


def test_a_wide_nucleus_is_found_beyond_the_first_look() -> None:
    logits = torch.randn(1, 5000, generator=torch.Generator().manual_seed(1)) * 0.01
    for key in range(20):
        draw = Draw(1.0, top_p=0.9, key=key)
        assert sampling.sample(logits.clone(), [draw]) == [restated(logits[0].tolist(), draw)]


def test_banned_ids_are_never_drawn() -> None:
    logits = torch.tensor([[9.0, 1.0, 0.0]])
    banned = np.array([0])
    assert sampling.sample(logits.clone(), [Draw(banned=banned)]) == [1]
    drawn = {sampling.sample(logits.clone(), [Draw(5.0, banned=banned, key=key)])[0] for key in range(40)}
    assert drawn == {1, 2}


def test_frequencies_follow_the_softmax() -> None:
    logits = torch.tensor([[0.0, 1.0, 2.0, -1.0]])
    p = torch.softmax(logits[0].double(), 0)
    many = sampling.sample(logits.repeat(8000, 1), [Draw(1.0, key=9, position=i) for i in range(8000)])
    counts = torch.bincount(torch.tensor(many), minlength=4)
    chi2 = float(((counts - 8000 * p) ** 2 / (8000 * p)).sum())
    assert chi2 < 16.3  # 3 degrees of freedom, p = 0.001


@pytest.mark.parametrize("bad", [[math.nan, 1.0], [math.inf, 0.0], [-math.inf, -math.inf]])
def test_logits_without_a_finite_maximum_give_no_token(bad: list[float]) -> None:
    logits = torch.tensor([bad, [0.0, 1.0]])
    assert sampling.sample(logits, [Draw(1.0), Draw()]) == [-1, 1]


class DenseCosts:
    """The penalty rule as rwkv-skills' kernel states it, over a whole vector."""

    def __init__(self, size: int, presence: float, frequency: float, decay: float, unpenalised: set[int]) -> None:
        self.p, self.rule, self.unpenalised = np.zeros(size, np.float32), (presence, frequency, decay), unpenalised

    def add(self, token: int) -> None:
        presence, frequency, decay = self.rule
        self.p *= np.float32(decay)
        self.p[token] += np.float32(frequency if self.p[token] != 0 else presence)
        for each in self.unpenalised:
            self.p[each] = 0


@given(
    st.lists(st.integers(0, 30), max_size=80),
    st.sampled_from([0.0, 0.5, 1.0]),
    st.sampled_from([0.0, 0.25]),
    st.sampled_from([0.0, 0.9, 0.99, 1.0]),
    st.sets(st.integers(0, 30), max_size=4),
)
def test_costs_follow_the_dense_rule(
    tokens: list[int], presence: float, frequency: float, decay: float, unpenalised: set[int]
) -> None:
    sparse, dense = (
        Costs(presence, frequency, decay, unpenalised),
        DenseCosts(31, presence, frequency, decay, unpenalised),
    )
    for token in tokens:
        sparse.add(token)
        dense.add(token)
        found = np.zeros(31, np.float32)
        if (current := sparse.current()) is not None:
            found[current[0]] = current[1]
        assert np.array_equal(found, dense.p)


def test_the_kept_ones_are_drawn_in_id_order() -> None:
    """As the uniform grows the ids grow, whichever of them is best; the rejected ones never appear."""
    logits = torch.tensor([[1.0, 3.0, -9.0, 2.0]])
    draws = [Draw(1.0, top_k=3, key=key) for key in range(200)]
    ids = sampling.sample(logits.repeat(200, 1), draws)
    points = uniforms([draw.key for draw in draws], [0] * 200)
    assert [ids[i] for i in points.argsort()] == sorted(ids)
    assert set(ids) == {0, 1, 3}


def test_biases_are_added_and_costs_subtracted() -> None:
    costs = Costs(0.5, 0.25, 0.5, frozenset({3}))
    for token in (2, 2, 3, 1):
        costs.add(token)
    # 2: 0.5 -> 0.5*0.5+0.25 = 0.5 -> 0.25 -> 0.125; 3 is free; 1: 0.5
    logits = torch.ones(1, 4)
    sampling.adjust(logits[0], Draw(costs=costs.current(), bias=(np.array([0, 1]), np.array([2, 1], np.float32))))
    assert logits.tolist() == [[3.0, 1.5, 0.875, 1.0]]


@settings(max_examples=60, deadline=None)
@given(draws, st.sampled_from([7, 64, 257]), st.sets(st.integers(0, 256), min_size=1, max_size=20), st.integers(0, 999))
def test_what_is_not_allowed_is_never_drawn_and_the_rule_stays(
    draw: Draw, vocabulary: int, able: set[int], seed: int
) -> None:
    able = {token % vocabulary for token in able}
    logits = torch.randn(1, vocabulary, generator=torch.Generator().manual_seed(seed)) * 3
    bits = np.zeros(-(-vocabulary // 32) * 32, np.uint8)
    bits[list(able)] = 1
    barred = np.array([token for token in range(vocabulary) if token not in able], np.int64)
    wanted = sampling.sample(logits.clone(), [replace(draw, banned=barred)])
    mask = np.packbits(bits, bitorder="little").view(np.uint32)
    assert sampling.sample(logits.clone(), [replace(draw, allowed=mask)]) == wanted
    assert wanted[0] in able


def test_nothing_is_drawn_where_nothing_is_allowed() -> None:
    nothing = np.zeros(9, np.uint32)
    assert sampling.sample(torch.randn(2, 257), [Draw(allowed=nothing), Draw(1.0, allowed=nothing)]) == [-1, -1]


@pytest.mark.parametrize("temperature", [1e-50, 1e-38, 1e-6])
def test_a_temperature_next_to_nothing_takes_the_best(temperature: float) -> None:
    logits = torch.randn(3, 300) * 30
    best = logits.argmax(-1).tolist()
    assert sampling.sample(logits, [Draw(temperature=temperature, top_p=0.9, key=key) for key in range(3)]) == best


def test_logits_that_overflow_at_a_low_temperature_are_refused_not_raised() -> None:
    logits = torch.full((1, 64), -3e38)
    logits[0, 5] = 3e38
    assert sampling.sample(logits, [Draw(temperature=1e-4, key=1)]) == [-1]
