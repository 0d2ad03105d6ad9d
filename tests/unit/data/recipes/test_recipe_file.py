"""Recipes as their files say them, and what is said of those that cannot be read."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rwkv_data.definition.errors import SettingError
from rwkv_data.recipes.recipe_file import PairRules, recipe_of
from rwkv_data.recipes.selection.pass_rate import PassRate
from rwkv_data.recipes.selection.selector import Selector
from rwkv_data.writers import thought_solution

SAMPLE = '[[sample]]\nmodels = ["qwq"]\ndatasets = ["numina_math"]\n'
SELECT = '[select]\nrule = "all-correct"\n'


def test_a_recipe_says_what_is_sampled_and_what_is_taken() -> None:
    found = recipe_of(
        'jobs = ["j81"]\n[[sample]]\nmodels = ["qwq", "r1"]\ndatasets = ["numina_math"]\n'
        'kinds = ["free_response.chat"]\nlimit = 9\nseed = 7\nsettings = {k = 8, where = "difficulty>=4"}\n'
        '[select]\nrule = "shortest-correct"\npass_rate = [0.1, 0.9]\n[clean]\nrequire_checked = true\n'
    )
    assert (found.jobs, found.require_checked) == (("j81",), True)
    (table,) = found.sample
    assert (table.models, table.kinds, table.limit, table.seed) == (("qwq", "r1"), ("free_response.chat",), 9, 7)
    assert table.settings == {"k": 8, "where": "difficulty>=4"}
    assert found.taking == Selector(rule="shortest-correct", k=1, pass_rate=PassRate(0.1, 0.9))


def test_one_table_of_samples_needs_no_second_bracket() -> None:
    assert recipe_of(SAMPLE.replace("[[sample]]", "[sample]") + SELECT) == recipe_of(SAMPLE + SELECT)


def test_pairs_have_rules_and_a_gap() -> None:
    found = recipe_of('jobs = ["j1"]\n[pairs]\nrules = ["silc", "short-long"]\nmin_gap = 50\n')
    assert found.taking == PairRules(("silc", "short-long"), 50)


def test_what_is_right_may_be_rewritten_before_it_is_taken() -> None:
    found = recipe_of(SAMPLE + '[rewrite]\nrule = "thought-solution"\n' + SELECT)
    assert found.rewrite is thought_solution.RULE
    assert recipe_of(SAMPLE + SELECT).rewrite is None


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (SAMPLE + SELECT + '[rewrite]\nrule = "poem"\n', "there is no writer rule 'poem'; there are: thought-solution"),
        (SAMPLE + SELECT + "[rewrite]\n", "there is no `rule` .rewrite."),
        (SAMPLE + '[pairs]\nrules = ["silc"]\n[rewrite]\nrule = "thought-solution"\n', "only right ones are rewritten"),
        ("[select", "is no TOML: Expected"),
        (SELECT, "names no samples"),
        (SAMPLE, "neither \\[select\\] nor \\[pairs\\]"),
        (SAMPLE + SELECT + '[pairs]\nrules = ["silc"]', "both \\[select\\] and \\[pairs\\]"),
        (SAMPLE + "[pairs]\nrules = []", "names each rule once"),
        (SAMPLE + '[pairs]\nrules = ["silc", "silc"]', "names each rule once"),
        (SAMPLE + '[pairs]\nrules = ["fcs2"]', "Invalid enum value 'fcs2'"),
        (SAMPLE + '[pairs]\nrules = ["silc"]\nmin_gap = 0', "min_gap of \\[pairs\\] is 0"),
        (SAMPLE + "[select]\nrule = 'best'", "the rule of a selector is 'best'"),
        (SAMPLE.replace("models", "modles") + SELECT, "modles"),
        (SAMPLE.replace('"qwq"', "") + SELECT, "models of \\[\\[sample\\]\\] 1 is empty"),
        (SAMPLE.replace('"numina_math"', "") + SELECT, "datasets of \\[\\[sample\\]\\] 1 is empty"),
        (SAMPLE + "limit = 0\n" + SELECT, ">= 1"),
        (SAMPLE + 'seed = "a"\n' + SELECT, "a number, got a text .seed of ..sample.. 1"),
        ('jobs = ["j1", "j1"]\n' + SELECT, "the job 'j1' twice"),
        ("jobs = 7\n" + SELECT, "expected a list, got a number .jobs"),
        ("clean = 1\n" + SAMPLE + SELECT, "expected a table, got a number .clean"),
        ("x" * 40_001, "has 40,001 characters"),
        ("a" + ".a" * 60 + " = 1", "more than 50 dots"),
        ("[" + "a." * 60 + "a]", "more than 50 dots"),
        ('x = "' + ".a" * 60, "more than 50 dots"),
        (SAMPLE * 11 + SELECT, "has 11 tables"),
        ("limit = " + "1" * 5000, "is no TOML"),
        ("a = " + "[" * 39_000, "is no TOML"),
    ],
)
def test_one_that_cannot_be_used_is_refused_in_a_sentence(text: str, says: str) -> None:
    with pytest.raises(SettingError, match=says):
        recipe_of(text)


@given(st.text())
def test_any_text_is_a_recipe_or_refused(text: str) -> None:
    with pytest.raises(SettingError):
        recipe_of(text)


@pytest.mark.parametrize(
    ("text", "needs"),
    [
        ('[pairs]\nrules = ["short-long"]', False),
        ('[pairs]\nrules = ["silc", "fcs+reflection"]', True),
        (SELECT, False),
    ],
)
def test_pairs_of_thoughts_need_variants(text: str, needs: bool) -> None:
    assert recipe_of(f"{SAMPLE}{text}").needs_variants is needs


def test_a_rule_that_splits_is_no_rewriting() -> None:
    with pytest.raises(SettingError, match=r"split-thoughts rewrites no completion; there are: thought-solution\."):
        recipe_of(f'{SAMPLE}[rewrite]\nrule = "split-thoughts"\n{SELECT}')
