"""A selector as a recipe writes it:

    select = {rule = "shortest-correct", k = 1, seed = 7, pass_rate = [0.1, 0.9]}

`rule` is needed; k = 1, seed = 0 and no pass-rate are what holds otherwise.
"""

from collections.abc import Mapping
from typing import Any, Final

from rwkv_data.definition.errors import SettingError
from rwkv_data.definition.rows import shown
from rwkv_data.recipes.selection.pass_rate import PassRate
from rwkv_data.recipes.selection.selector import SELECTION_RULES, SelectionRule, Selector

SETTINGS: Final = ("rule", "k", "seed", "pass_rate")
_MOST: Final = 4096
_LARGEST_SEED: Final = 2**63 - 1


def selector_of(table: Mapping[str, Any]) -> Selector:
    """Return the selector that a table of TOML means. Raises SettingError."""
    for name in table:
        if name not in SETTINGS:
            raise SettingError(f"there is no setting {shown(name)} of a selector; it has {', '.join(SETTINGS)}")
    rule = _rule(table.get("rule"))
    if rule == "all-correct" and "k" in table:
        limited = ", ".join(each for each in SELECTION_RULES if each != rule)
        raise SettingError(f"all-correct takes every correct sample, so it has no setting k; {limited} have it")
    return Selector(
        rule=rule,
        k=None if rule == "all-correct" else _whole(table, "k", 1, 1, _MOST),
        seed=_whole(table, "seed", 0, 0, _LARGEST_SEED),
        pass_rate=_pass_rate(table["pass_rate"]) if "pass_rate" in table else None,
    )


def table_of(selector: Selector) -> dict[str, Any]:
    """Return a selector as a table with every setting that it has."""
    limit = {} if selector.k is None else {"k": selector.k}
    rate = {} if selector.pass_rate is None else {"pass_rate": [selector.pass_rate.low, selector.pass_rate.high]}
    return {"rule": selector.rule, **limit, "seed": selector.seed, **rate}


def _rule(value: Any) -> SelectionRule:
    for known in SELECTION_RULES:
        if value == known:
            return known
    raise SettingError(f"the rule of a selector is {shown(value)}; there are {', '.join(SELECTION_RULES)}")


def _whole(table: Mapping[str, Any], name: str, default: int, low: int, high: int) -> int:
    value = table.get(name, default)
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise SettingError(f"{name} of a selector is {shown(value)}, not a whole number from {low} to {high}")
    return value


def _pass_rate(value: Any) -> PassRate:
    bounds = value if isinstance(value, list | tuple) and all(map(_is_share, value)) else []
    if len(bounds) != 2 or bounds[0] > bounds[1]:
        raise SettingError(
            f"pass_rate of a selector is {shown(value)}, not two shares from 0 to 1 in order, such as [0.1, 0.9]"
        )
    return PassRate(float(bounds[0]), float(bounds[1]))


def _is_share(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1
