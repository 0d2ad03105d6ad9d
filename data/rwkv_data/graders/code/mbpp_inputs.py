"""Restore the inputs of MBPP+, which are stored as JSON without tuples, sets and complex numbers.

The types of each task's arguments are from evalplus `data/mbpp.py`, mbpp_deserialize_inputs (26d6d00).
"""

from collections.abc import Callable, Sequence
from typing import Any

Arguments = Sequence[Any]


def mbpp_plus_arguments(task: int, arguments: Arguments) -> list[Any]:
    """Return the arguments of one input with their types restored."""
    form = next((form for tasks, form in _FORMS if task in tasks), list)
    return form(arguments)


def _tuples(items: Any) -> list[Any]:
    return [tuple(item) if isinstance(item, list) else item for item in items]


def _deep_tuple(value: Any) -> Any:
    return tuple(_deep_tuple(item) for item in value) if isinstance(value, list) else value


def _sets(arguments: Arguments) -> list[Any]:
    return [[set(item) if isinstance(item, list) and item else {} for item in arguments[0]]]


def _tuple_values(arguments: Arguments) -> list[Any]:
    return [{key: tuple(item) for key, item in arguments[0].items()}, *arguments[1:]]


_FORMS: tuple[tuple[set[int], Callable[[Arguments], list[Any]]], ...] = (
    (
        {2, 116, 132, 143, 222, 261, 273, 394, 399, 421, 424, 429, 470, 560, 579, 596, 616, 630, 726, 740, 744, 809},
        lambda arguments: [tuple(item) for item in arguments],
    ),
    (
        {63, 64, 70, 94, 120, 237, 272, 299, 400, 409, 417, 438, 473, 614, 780},
        lambda arguments: [_tuples(item) for item in arguments],
    ),
    ({259, 278, 401, 445}, lambda arguments: [tuple(_tuples(item)) for item in arguments]),
    ({75, 413, 444, 753}, lambda arguments: [_tuples(arguments[0]), *arguments[1:]]),
    ({250, 307, 405, 446, 617, 720, 763, 808}, lambda arguments: [tuple(arguments[0]), *arguments[1:]]),
    ({106, 750}, lambda arguments: [arguments[0], tuple(arguments[1]), *arguments[2:]]),
    ({580, 615, 791}, lambda arguments: [_deep_tuple(item) for item in arguments]),
    ({115}, _sets),
    ({124}, lambda arguments: [float(arguments[0]), complex(arguments[1])]),
    ({252}, lambda arguments: [complex(arguments[0])]),
    ({722}, _tuple_values),
)
