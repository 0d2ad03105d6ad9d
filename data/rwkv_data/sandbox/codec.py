"""Python values as JSON text and back, between processes that do not trust each other.

What JSON has (None, bools, strings, lists, finite floats, small integers) stands for itself; everything else is an
object with one key that names its kind. What has no form here (functions, iterators, objects of a class) arrives as
`Opaque`, which keeps its truth value and the name of its type and is equal to nothing. Subclasses of plain types
arrive as the plain type. Decoding builds plain values only: it calls nothing that the text names.
"""

import json
import math
from collections.abc import Callable, Mapping
from typing import Any

_SMALL = 1 << 53
_MOST_HEX = 1 << 22  # 16 million bits: no test needs more, and hex is read in linear time


class UnreadableError(ValueError):
    """Text that is not the form of a value."""


class Opaque:
    """A value of another process that could not travel."""

    __slots__ = ("_truth", "type_name")

    def __init__(self, type_name: str, *, truth: bool) -> None:
        self.type_name = type_name[:80]
        self._truth = truth

    def __bool__(self) -> bool:
        return self._truth

    def __repr__(self) -> str:
        return f"<{self.type_name}>"


class Reference:
    """A name that means something in the process it is sent to."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name


def encode(value: object) -> str:
    """Text of a value. Too deep or circular values become Opaque as a whole."""
    try:
        return json.dumps(_pack(value))
    except RecursionError:
        return json.dumps(_opaque(value))


def decode(text: str | bytes, names: Mapping[str, object] | None = None) -> Any:
    """The value of a text; references are looked up in `names`. Raises UnreadableError."""
    try:
        return json.loads(text, object_hook=lambda tagged: _unpack(tagged, names or {}))
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise UnreadableError(f"not a value: {error}"[:200]) from error


def _pack(value: Any) -> object:
    writer = _WRITERS.get(type(value))
    if writer is None:
        writer = next((write for kind, write in _WRITERS.items() if isinstance(value, kind)), _opaque)
    return writer(value)


def _opaque(value: object) -> dict[str, object]:
    try:
        truth = bool(value)
    except Exception:  # noqa: BLE001  # whatever the foreign class raises
        truth = True
    return {"o": [truth, type(value).__name__[:80]]}


def _unpack(tagged: dict[str, Any], names: Mapping[str, object]) -> object:
    ((tag, body),) = tagged.items()
    if tag == "r":
        return names[body]
    if tag == "o":
        return Opaque(str(body[1]), truth=bool(body[0]))
    return _READERS[tag](body)


def _integer(body: Any) -> int:
    if len(body) > _MOST_HEX:
        raise UnreadableError("an integer of more than 16 million bits")
    return int(body, 16)


_READERS: dict[str, Callable[[Any], object]] = {
    "i": _integer,
    "f": float,
    "t": tuple,
    "d": dict,
    "s": set,
    "z": frozenset,
    "c": lambda body: complex(body[0], body[1]),
    "b": lambda body: body.encode("latin-1"),
    "a": lambda body: bytearray(body.encode("latin-1")),
}


def _pack_integer(value: int) -> object:
    return int(value) if -_SMALL < value < _SMALL else {"i": hex(value)}


def _pack_float(value: float) -> object:
    return float(value) if math.isfinite(value) else {"f": float.__repr__(value)}


_WRITERS: dict[type, Callable[[Any], object]] = {
    type(None): lambda value: value,
    bool: bool,
    int: _pack_integer,
    float: _pack_float,
    str: str.__str__,
    list: lambda value: [_pack(item) for item in list.__iter__(value)],
    tuple: lambda value: {"t": [_pack(item) for item in tuple.__iter__(value)]},
    dict: lambda value: {"d": [[_pack(key), _pack(item)] for key, item in dict.items(value)]},
    set: lambda value: {"s": [_pack(item) for item in set.__iter__(value)]},
    frozenset: lambda value: {"z": [_pack(item) for item in frozenset.__iter__(value)]},
    complex: lambda value: {"c": [_pack_float(value.real), _pack_float(value.imag)]},
    bytes: lambda value: {"b": value.decode("latin-1")},
    bytearray: lambda value: {"a": value.decode("latin-1")},
    Reference: lambda value: {"r": value.name},
}
