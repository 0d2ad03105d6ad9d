"""Python values as JSON text and back, between processes that do not trust each other.

What JSON has (None, bools, strings, lists, finite floats, small integers) stands for itself; everything else is an
object with one key that names its kind. What has no form here (functions, objects of a class) arrives as `Opaque`: it
keeps its truth value, the name of its type and, of iterators, ranges, deques and views, the items; it is equal to
nothing, and sent back it is again what it was. Subclasses of plain types arrive as the plain type. Decoding builds
plain values only: it calls nothing that the text names.
"""

import builtins
import itertools
import json
import marshal
import math
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import Any

_SMALL = 1 << 53
_MOST_HEX = 1 << 22  # 16 million bits: no test needs more, and hex is read in linear time
_MOST_ITEMS = 1_000_000
_MOST_KEPT = 100_000
_WITH_ITEMS: tuple[type, ...] = (range, deque, type({}.keys()), type({}.values()), type({}.items()))
_TYPES = {kind.__name__: kind for kind in (bool, int, float, complex, str, bytes, list, tuple, dict, set, frozenset)}

_kept: list[object] = []  # what this process has sent as Opaque, to recognise it when it comes back


class UnreadableError(ValueError):
    """A text that is not the form of a value."""


class Opaque:
    """A value of another process that could not be sent; `number` identifies it there."""

    __slots__ = ("_items", "_truth", "number", "type_name")

    def __init__(self, type_name: str, number: int, items: list[Any] | None, *, truth: bool) -> None:
        self.type_name = ascii(type_name[:80])[1:-1]  # a name is a hostile text too: no surrogates, no control codes
        self.number = number
        self._items = items
        self._truth = truth

    def __bool__(self) -> bool:
        return self._truth

    def __iter__(self) -> Iterator[Any]:
        return iter(self._known())

    def __len__(self) -> int:
        return len(self._known())

    def __getitem__(self, place: Any) -> Any:
        return self._known()[place]

    def _known(self) -> list[Any]:
        if self._items is None:
            raise TypeError(f"{self.type_name!r} object is not iterable")
        return self._items

    def __repr__(self) -> str:
        return f"<{self.type_name}>"


class Reference:
    """A name that means something in the process it is sent to."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name


class Digest:
    """The digest of a value that is too large to send. It equals a value with the same digest and nothing else."""

    __slots__ = ("_digest",)

    def __init__(self, digest: str) -> None:
        self._digest = digest

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Digest) and other._digest == self._digest

    def __hash__(self) -> int:
        return hash(self._digest)

    def __repr__(self) -> str:
        return "<a huge value>"


def encode_or_digest(value: Any) -> str:
    """Return the text of a value, or of its digest if it has millions of items (Mbpp/255: 1.7 million tuples of 77)."""
    if _item_count(value) <= _MOST_ITEMS:
        return encode(value)
    import hashlib  # it brings OpenSSL along, which every fork would carry

    try:
        return json.dumps({"x": hashlib.sha256(marshal.dumps(value, 2)).hexdigest()})
    except ValueError:  # holds what is no plain data
        return encode(value)


def _item_count(value: object) -> int:
    """Return the number of items of a list or tuple and of those directly in it, without visiting each."""
    if type(value) not in {list, tuple}:
        return 0
    items: list[Any] = list(value)  # type: ignore[call-overload]
    nested = len(items) > 1000 and set(map(type, items)) <= {list, tuple}
    return len(items) + (sum(map(len, items)) if nested else 0)


def encode(value: object) -> str:
    """Return the text of a value. A value that is nested too deeply or circular becomes Opaque as a whole."""
    try:
        return json.dumps(_pack(value))
    except RecursionError:
        return json.dumps(_opaque(object()))


def decode(text: str | bytes, names: Mapping[str, object] | None = None) -> Any:
    """Return the value of a text; references are looked up in `names`. Raises UnreadableError."""
    try:
        return json.loads(text, object_hook=lambda tagged: _unpack(tagged, names or {}))
    except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError) as error:
        raise UnreadableError(f"not a value: {error}"[:200]) from error


def _pack(value: Any) -> object:
    writer = _WRITERS.get(type(value))
    if writer is None:
        writer = next((write for kind, write in _WRITERS.items() if isinstance(value, kind)), _opaque)
    return writer(value)


def _pack_integer(value: int) -> object:
    return int(value) if -_SMALL < value < _SMALL else {"i": hex(value)}


def _pack_float(value: float) -> object:
    return float(value) if math.isfinite(value) else {"f": float.__repr__(value)}


def _pack_type(value: type) -> object:
    return {"r": value.__name__} if vars(builtins).get(value.__name__) is value else _opaque(value)


def _opaque(value: object) -> dict[str, object]:
    number = len(_kept) if len(_kept) < _MOST_KEPT else -1
    if number >= 0:
        _kept.append(value)
    return {"o": [_truth(value), type(value).__name__[:80], number, _items(value)]}


def _truth(value: object) -> bool:
    try:
        return bool(value)
    except Exception:  # noqa: BLE001  # whatever the foreign class raises
        return True


def _items(value: object) -> list[object] | None:
    """Return the items of an iterable; an endless one runs into the limit of time or of items."""
    if not isinstance(value, _WITH_ITEMS) and not hasattr(type(value), "__next__"):
        return None
    items = list(itertools.islice(iter(value), _MOST_ITEMS + 1))  # type: ignore[call-overload]
    return [_pack(item) for item in items] if len(items) <= _MOST_ITEMS else None


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
    Opaque: lambda value: {"h": value.number},
    type: _pack_type,
}


def _unpack(tagged: dict[str, Any], names: Mapping[str, object]) -> object:
    ((tag, body),) = tagged.items()
    if tag == "r":
        return names[body] if body in names else _TYPES[body]
    return _READERS[tag](body)


def _integer(body: Any) -> int:
    if len(body) > _MOST_HEX:
        raise UnreadableError("an integer of more than 16 million bits")
    return int(body, 16)


def _unpack_opaque(body: Any) -> Opaque:
    truth, name, number, items = body
    if items is not None and not isinstance(items, list):
        raise UnreadableError("items are no list")
    return Opaque(str(name), int(number), items, truth=bool(truth))


def _back(number: Any) -> object:
    if type(number) is not int or number < 0:
        raise UnreadableError("it was never here")
    return _kept[number]


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
    "o": _unpack_opaque,
    "x": lambda body: Digest(str(body)),
    "h": _back,
}
