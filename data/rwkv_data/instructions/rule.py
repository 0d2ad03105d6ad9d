"""Rules: functions of the response and of named arguments that come with the row."""

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeAlias, get_args

from rwkv_data.definition.errors import RowError

InstructionRule: TypeAlias = Callable[..., bool]
"""`rule(response, **arguments)`; its signature says which arguments there are, and of which kind."""

Relation = Literal["less than", "at least"]


def compared(count: int, relation: Relation, threshold: int) -> bool:
    """Whether a count stands in the relation that was asked for."""
    return count < threshold if relation == "less than" else count >= threshold


def bound(rule: InstructionRule, given: Mapping[str, Any]) -> Callable[[str], bool]:
    """Return the rule with a row's arguments. Raises RowError for an argument that is missing, unknown or of a wrong
    type.

    Upstream draws a missing argument at random, which makes the verdict meaningless, so here it is an error.
    """
    wanted = dict(list(inspect.signature(rule).parameters.items())[1:])
    if given.keys() != wanted.keys():
        raise RowError(f"it needs {sorted(wanted) or 'no arguments'}, and the row gives {sorted(given) or 'none'}")
    arguments = {name: _as_kind(name, given[name], parameter.annotation) for name, parameter in wanted.items()}
    return functools.partial(rule, **arguments)


def _as_kind(name: str, value: Any, kind: Any) -> Any:
    """Return an argument in its type. Tables on the hub hold whole numbers as floats where other rows have none."""
    if kind is int and isinstance(value, float) and value.is_integer():
        return int(value)
    if kind is int and isinstance(value, int) and not isinstance(value, bool):
        return value
    if kind is str and isinstance(value, str):
        return value
    if kind == list[str] and isinstance(value, list) and value and all(isinstance(item, str) for item in value):
        return value
    if get_args(kind) and value in get_args(kind):
        return value
    raise RowError(f"{name!r} is {value!r:.60}")
