"""[[mix]] of a recipe: what it says, and what is said of one that cannot be used."""

import pytest

from rwkv_data.definition.errors import SettingError
from rwkv_data.recipes.mixing.mix import Mix, MixPart
from rwkv_data.recipes.mixing.mix_table import MOST_PARTS, MixTable, parts_of
from rwkv_data.recipes.recipe_file import recipe_of

MIX = '[[mix]]\nrecipe = "r3"\n'
SAMPLES = {
    "jobs": 'jobs = ["j1"]\n' + MIX,
    "sample": MIX + '[[sample]]\nmodels = ["qwq"]\ndatasets = ["numina_math"]\n',
    "select": MIX + '[select]\nrule = "all-correct"\n',
    "empty select": MIX + "[select]\n",
    "pairs": MIX + '[pairs]\nrules = ["silc"]\n',
    "rewrite": MIX + '[rewrite]\nrule = "thought-solution"\n',
}


def test_a_mix_names_recipes_and_rows() -> None:
    found = recipe_of(
        'seed = 7\n[[mix]]\nrecipe = "r3"\nweight = 2\n[[mix]]\nrows = "chat"\nweight = 0.5\n'
        '[[mix]]\nrows = "open_chat-2"\nlimit = 1000\n[[mix]]\nrecipe = "r12"\n[clean]\nrequire_checked = true\n'
    )
    parts = (
        MixPart("r3", is_recipe=True, weight=2.0),
        MixPart("chat", is_recipe=False, weight=0.5),
        MixPart("open_chat-2", is_recipe=False, limit=1000),
        MixPart("r12", is_recipe=True),
    )
    assert found == Mix(parts, seed=7, require_checked=True)


def test_a_mix_needs_no_seed_and_no_second_bracket() -> None:
    assert recipe_of('[mix]\nrows = "chat"\n') == Mix((MixPart("chat", is_recipe=False),), 0, require_checked=False)


@pytest.mark.parametrize("text", SAMPLES.values(), ids=SAMPLES)
def test_a_mix_has_no_setting_of_samples(text: str) -> None:
    with pytest.raises(
        SettingError, match=r"has \[\[mix\]\], which takes rows that are made, and with it a setting of"
    ):
        recipe_of(text)


def test_a_seed_without_a_mix_is_refused() -> None:
    with pytest.raises(SettingError, match=r"seed belongs to \[\[mix\]\]"):
        recipe_of('seed = 0\njobs = ["j1"]\n[select]\nrule = "all-correct"\n')


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[[mix]]\n", r'\[\[mix\]\] 1 needs either recipe = "r3" or rows = "chat"'),
        (MIX + 'rows = "chat"\n', r"\[\[mix\]\] 1 needs either recipe"),
        (MIX + '[[mix]]\nrecipe = ""\n', r"\[\[mix\]\] 2 needs either recipe"),
        (MIX + '[[mix]]\nrecipe = "3"\n', r"recipe of \[\[mix\]\] 2 is '3', not the number of a recipe such as r3"),
        ('[[mix]]\nrecipe = "r0"\n', "not the number of a recipe"),
        ('[[mix]]\nrecipe = "r3\\n"\n', "not the number of a recipe"),
        ('[[mix]]\nrecipe = "r٣"\n', "not the number of a recipe"),
        ('[[mix]]\nrecipe = "../r3"\n', "not the number of a recipe"),
        (f'[[mix]]\nrecipe = "r{"1" * 18}"\n', "not the number of a recipe"),
        ('[[mix]]\nrows = "../chat"\n', r"rows of \[\[mix\]\] 1 is '\.\./chat', not a name that `rwkvctl data rows`"),
        ('[[mix]]\nrows = "Chat"\n', "not a name that"),
        ('[[mix]]\nrows = "r3"\n', "not a name that"),
        (f'[[mix]]\nrows = "{"a" * 49}"\n', "not a name that"),
        (MIX + "limit = 5\nweight = 1\n", r"\[\[mix\]\] 1 has a limit and a weight"),
        (MIX + "limit = 0\n", r">= 1 \(limit of \[\[mix\]\] 1\)"),
        (MIX + "limit = 1.5\n", r"a number, got `float` \(limit of \[\[mix\]\] 1\)"),
        (MIX + "limit = true\n", r"\(limit of \[\[mix\]\] 1\)"),
        (MIX + "weight = 0\n", r"> 0.0 \(weight of \[\[mix\]\] 1\)"),
        (MIX + "weight = -1\n", r"> 0.0 \(weight of \[\[mix\]\] 1\)"),
        (MIX + "weight = nan\n", r"\(weight of \[\[mix\]\] 1\)"),
        (MIX + "weight = inf\n", r"\(weight of \[\[mix\]\] 1\)"),
        (MIX + 'weight = "2"\n', r"\(weight of \[\[mix\]\] 1\)"),
        (MIX + MIX, "the recipe mixes 'r3' twice"),
        (MIX + "share = 2\n", r"there is no setting `share` \(\[\[mix\]\] 1\)"),
        ("mix = 7\n", r"expected a list, got a number \(mix\)"),
        ("mix = []\n", "names no samples"),
        ("seed = -1\n" + MIX, r">= 0 \(seed\)"),
        ('seed = "a"\n' + MIX, r"a number, got a text \(seed\)"),
    ],
)
def test_a_mix_that_cannot_be_used_is_refused_in_a_sentence(text: str, says: str) -> None:
    with pytest.raises(SettingError, match=says):
        recipe_of(text)


def test_a_mix_has_no_more_than_so_many_parts() -> None:
    tables = [MixTable(recipe=f"r{number}") for number in range(1, MOST_PARTS + 2)]
    assert len(parts_of(tables[:-1])) == MOST_PARTS
    with pytest.raises(SettingError, match=f"the recipe mixes 21 parts, and none mixes more than {MOST_PARTS}"):
        parts_of(tables)
