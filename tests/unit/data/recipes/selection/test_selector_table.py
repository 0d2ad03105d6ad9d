"""A selector as a recipe writes it: what it means, that it round-trips, and what is refused."""

import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rwkv_data.definition.errors import SettingError
from rwkv_data.recipes.selection.pass_rate import PassRate
from rwkv_data.recipes.selection.selector import SELECTION_RULES, Selector
from rwkv_data.recipes.selection.selector_table import selector_of, table_of


def read(text):
    return selector_of(tomllib.loads(f"select = {{{text}}}")["select"])


SHARES = st.floats(0, 1)
SELECTORS = st.builds(
    lambda rule, k, seed, bounds: Selector(
        rule=rule, k=None if rule == "all-correct" else k, seed=seed, pass_rate=bounds and PassRate(*sorted(bounds))
    ),
    st.sampled_from(SELECTION_RULES), st.integers(1, 4096), st.integers(0, 2**63 - 1),
    st.none() | st.tuples(SHARES, SHARES),
)  # fmt: skip


def test_what_it_means():
    assert read('rule = "shortest-correct", k = 1, seed = 7, pass_rate = [0.1, 0.9]') == Selector(
        rule="shortest-correct", k=1, seed=7, pass_rate=PassRate(0.1, 0.9)
    )
    assert read('rule = "k-correct", k = 4') == Selector(rule="k-correct", k=4)
    assert read('rule = "first-correct"').k == 1
    assert read('rule = "all-correct", pass_rate = [0, 1]') == Selector(
        rule="all-correct", k=None, pass_rate=PassRate(0.0, 1.0)
    )


@given(SELECTORS)
def test_it_round_trips(selector):
    assert selector_of(table_of(selector)) == selector


@given(SELECTORS)
def test_it_round_trips_through_toml(selector):
    table = table_of(selector)
    text = ", ".join(f"{name} = {value!r}" for name, value in table.items())
    assert read(text) == selector
    assert table_of(read(text)) == table


THERE_ARE = "all-correct, first-correct, shortest-correct, longest-correct, k-correct"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", f"the rule of a selector is missing; there are {THERE_ARE}"),
        ("k = 1", f"the rule of a selector is missing; there are {THERE_ARE}"),
        ('rule = "shortest"', f"the rule of a selector is 'shortest'; there are {THERE_ARE}"),
        ('rule = ["k-correct"]', f"the rule of a selector is ['k-correct']; there are {THERE_ARE}"),
        ('rule = "first-correct", ks = 2', "no setting 'ks' of a selector; it has rule, k, seed, pass_rate"),
        ('rule = "first-correct", "\\u001b[2J" = 2', r"no setting '\x1b[2J' of a selector; it has rule, k, seed"),
        ('rule = "all-correct", k = 2', "all-correct takes every correct sample, so it has no setting k"),
        ('rule = "k-correct", k = 0', "k of a selector is 0, not a whole number from 1 to 4096"),
        ('rule = "k-correct", k = 5000', "k of a selector is 5000, not a whole number from 1 to 4096"),
        ('rule = "k-correct", k = 1.0', "k of a selector is 1.0, not a whole number"),
        ('rule = "k-correct", k = true', "k of a selector is True, not a whole number"),
        ('rule = "k-correct", seed = -1', "seed of a selector is -1, not a whole number from 0 to 9223372036854775807"),
        ('rule = "k-correct", seed = "7"', "seed of a selector is '7', not a whole number"),
        ('rule = "k-correct", pass_rate = 0.5', "pass_rate of a selector is 0.5, not two shares from 0 to 1 in order"),
        ('rule = "k-correct", pass_rate = []', "pass_rate of a selector is [], not two shares"),
        ('rule = "k-correct", pass_rate = [0.1]', "not two shares"),
        ('rule = "k-correct", pass_rate = [0, 0.5, 1]', "not two shares"),
        ('rule = "k-correct", pass_rate = [0.9, 0.1]', "not two shares from 0 to 1 in order"),
        ('rule = "k-correct", pass_rate = [-0.1, 1]', "not two shares"),
        ('rule = "k-correct", pass_rate = [10, 90]', "not two shares from 0 to 1"),
        ('rule = "k-correct", pass_rate = [0, nan]', "not two shares"),
        ('rule = "k-correct", pass_rate = [0, inf]', "not two shares"),
        (f'rule = "k-correct", pass_rate = [0, {"9" * 400}]', "not two shares"),
        ('rule = "k-correct", pass_rate = [false, true]', "not two shares"),
        ('rule = "k-correct", pass_rate = ["0", "1"]', "not two shares"),
    ],
)
def test_what_is_refused_is_named_with_what_there_is(text, says):
    with pytest.raises(SettingError) as caught:
        read(text)
    assert says in str(caught.value)
    assert str(caught.value).isprintable()
