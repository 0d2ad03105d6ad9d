"""A recipe as its file says it: which samples there are to be, and which of them become training rows.

jobs = ["j81"]                        # samples that are there already, and
[[sample]]                            # samples to make: the flags of `rwkvctl dispatch`
models = ["qwq"]
datasets = ["numina_math"]
kinds = ["free_response.chat"]
limit = 1000
settings = {k = 8, where = "difficulty>=4"}

[rewrite]                             # have the writer rewrite what is right, and take of that
rule = "thought-solution"

[select]                              # a row with one answer for each sample that is taken; or
rule = "shortest-correct"
[pairs]                               # a row with two answers for each pair
rules = ["short-long", "fcs"]

[clean]
require_checked = true                # refuse while a benchmark is not prepared

Or one that takes rows that are made already:

seed = 7
[[mix]]
recipe = "r3"
weight = 2                            # in proportion to the other weights; or `limit = 1000`; or all
[[mix]]
rows = "chat"                         # kept by `rwkvctl data rows`
weight = 1
"""

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final, get_args

import msgspec
from msgspec import Meta

from rwkv_data import writers
from rwkv_data.definition.errors import SettingError
from rwkv_data.definition.rows import shown
from rwkv_data.recipes.mixing.mix import Mix
from rwkv_data.recipes.mixing.mix_table import MixTable, parts_of
from rwkv_data.recipes.selection.preference_pair import PairRule
from rwkv_data.recipes.selection.selector import Selector
from rwkv_data.recipes.selection.selector_table import selector_of
from rwkv_data.recipes.selection.thought_variants import VARIANT_RULES
from rwkv_data.writers.writer_rule import WriterRule
from rwkvctl.protocol.ranges import WHOLE, Rank, Seed

PAIR_RULES: Final[tuple[PairRule, ...]] = get_args(PairRule)
LONGEST: Final = 40_000
"""Most characters of a recipe."""
MOST_JOBS: Final = 1000
_MOST_TABLES: Final = 10
_MOST_DOTS: Final = 50
"""TOML's reader takes a time that is quadratic in the dots of a name."""
_STRING: Final = re.compile(r'"(?:[^"\\]|\\.)*+("?)|\'[^\']*+(\'?)')
"""A text, or the rest of a line behind a sign that begins one which does not end there."""
_NUMBERED: Final = re.compile(r"(\w+)\[(\d+)\]")
_NUMBERED_TABLES: Final = ("sample", "mix")
_WORDS: Final = {
    "Object contains unknown field": "there is no setting", "Object missing required field": "there is no",
    "`object | null`": "a table", "`object`": "a table", "`array`": "a list", "`str`": "a text",
    "`int | null`": "a number", "`float | null`": "a number", "`int`": "a number", "Expected": "expected",
}  # fmt: skip
_LARGEST_GAP: Final = 10**9


class SampleTable(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Samples to make, as the flags of `rwkvctl dispatch` say it."""

    models: tuple[str, ...]
    datasets: tuple[str, ...]
    kinds: tuple[str, ...] = ()
    limit: Annotated[int, Meta(ge=1, le=WHOLE)] | None = None
    seed: Seed | None = None
    settings: dict[str, str | int | float] = {}
    numerics: str = ""
    priority: Rank = 0


class _Pairs(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    rules: tuple[PairRule, ...]
    min_gap: int = 1


class _Rewrite(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    rule: str


class _Clean(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    require_checked: bool = False


class _File(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    jobs: tuple[str, ...] = ()
    sample: tuple[SampleTable, ...] = ()
    select: dict[str, Any] | None = None
    pairs: _Pairs | None = None
    rewrite: _Rewrite | None = None
    clean: _Clean = _Clean()
    mix: tuple[MixTable, ...] = ()
    seed: Seed | None = None


@dataclass(frozen=True, slots=True)
class PairRules:
    """Which pairs are made of a problem's samples: one for each rule that finds one. `min_gap` belongs to
    short-long."""

    rules: tuple[PairRule, ...]
    min_gap: int


@dataclass(frozen=True, slots=True)
class Recipe:
    """A recipe. `taking` says which samples become rows, or which pairs; `rewrite` is the rule by which they are
    rewritten before (None: they are not)."""

    jobs: tuple[str, ...]
    sample: tuple[SampleTable, ...]
    taking: Selector | PairRules
    require_checked: bool
    rewrite: WriterRule | None = None

    @property
    def needs_variants(self) -> bool:
        """Whether pairs are made of samples that are split into thoughts."""
        return isinstance(self.taking, PairRules) and not set(VARIANT_RULES).isdisjoint(self.taking.rules)


def recipe_of(text: str) -> Recipe | Mix:
    """Return the recipe, or the mix, that a text of TOML says. Raises SettingError with what is wrong, and where."""
    if len(text) > LONGEST:
        raise SettingError(f"the recipe has {len(text):,} characters, and none has more than {LONGEST:,}")
    if any(_without_texts(line).count(".") > _MOST_DOTS for line in text.split("\n")):
        raise SettingError(f"the recipe has a line with more than {_MOST_DOTS} dots outside of texts")
    try:
        found = msgspec.convert(_as_list(tomllib.loads(text)), _File, strict=True)
    except msgspec.ValidationError as error:
        raise SettingError(f"the recipe cannot be used: {_in_words(str(error))}") from None
    except (ValueError, RecursionError) as error:  # TOML's own error is one
        raise SettingError(f"the recipe is no TOML: {error}") from None
    if found.mix:
        return _mix(found)
    _check(found)
    rewrite = writers.rewriting_rule(found.rewrite.rule) if found.rewrite is not None else None
    if rewrite is not None and found.pairs is not None and "silc" in found.pairs.rules:
        raise SettingError("silc of [pairs] needs samples that are wrong, and only right ones are rewritten")
    return Recipe(found.jobs, found.sample, _taking(found), found.clean.require_checked, rewrite)


def _without_texts(line: str) -> str:
    return _STRING.sub(lambda found: "" if found[1] or found[2] else found[0], line)


def _in_words(error: str) -> str:
    """What msgspec says, as the file is spelled: `limit of [[sample]] 1` for `$.sample[0].limit`."""
    said, _, place = error.partition(" - at `$")
    for name, word in _WORDS.items():
        said = said.replace(name, word)
    table, _, setting = place.rstrip("`").removeprefix(".").partition(".")
    if numbered := _NUMBERED.fullmatch(table):
        table = f"[[{numbered[1]}]] {int(numbered[2]) + 1}" if numbered[1] in _NUMBERED_TABLES else numbered[1]
    where = f"{setting} of {table}" if setting else table
    return f"{said} ({where})" if where else said


def _as_list(plain: Mapping[str, Any]) -> dict[str, Any]:
    """Take `[sample]` for the only one of `[[sample]]`, and so `[mix]`."""
    return {
        name: [value] if name in _NUMBERED_TABLES and isinstance(value, dict) else value
        for name, value in plain.items()
    }


def _mix(found: _File) -> Mix:
    if any((found.jobs, found.sample, found.select is not None, found.pairs, found.rewrite)):
        raise SettingError(
            "the recipe has [[mix]], which takes rows that are made, and with it a setting of samples: make those rows "
            "by a recipe of their own, and name that in [[mix]]"
        )
    return Mix(parts_of(found.mix), found.seed or 0, found.clean.require_checked)


def _check(found: _File) -> None:
    if not found.jobs and not found.sample:
        raise SettingError(
            'the recipe names no samples; give it jobs = ["j81"], a table [sample] of what to sample, or tables '
            "[[mix]] of rows that are made"
        )
    if found.seed is not None:
        raise SettingError(
            "seed belongs to [[mix]]; that of samples stands in [[sample]], that of k-correct in [select]"
        )
    if len(found.jobs) > MOST_JOBS:
        raise SettingError(f"the recipe names {len(found.jobs):,} jobs, and none has more than {MOST_JOBS:,}")
    if repeated := [job for number, job in enumerate(found.jobs) if job in found.jobs[:number]]:
        raise SettingError(f"the recipe names the job {shown(repeated[0])} twice")
    if len(found.sample) > _MOST_TABLES:
        raise SettingError(
            f"the recipe has {len(found.sample)} tables of samples, and none has more than {_MOST_TABLES}"
        )
    for number, table in enumerate(found.sample, 1):
        for name in ("models", "datasets"):
            if not getattr(table, name):
                raise SettingError(f"{name} of [[sample]] {number} is empty: name what is to be sampled")


def _taking(found: _File) -> Selector | PairRules:
    if (found.select is None) == (found.pairs is None):
        both = "both [select] and [pairs]" if found.pairs else "neither [select] nor [pairs]"
        raise SettingError(f"the recipe has {both}: rows have one answer, or two of which one is preferred")
    if found.pairs is None:
        return selector_of(found.select or {})
    rules, gap = found.pairs.rules, found.pairs.min_gap
    if not rules or len(set(rules)) != len(rules):
        raise SettingError(f"rules of [pairs] names each rule once, at least one of {', '.join(PAIR_RULES)}")
    if not 1 <= gap <= _LARGEST_GAP:
        raise SettingError(f"min_gap of [pairs] is {gap}, not a number of tokens from 1 to {_LARGEST_GAP:,}")
    return PairRules(rules, gap)
