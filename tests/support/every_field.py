"""Requests of every type with one field that is extreme, found by reflection: new types and fields are among them."""

import copy
import json
import typing
from collections.abc import Iterator
from dataclasses import dataclass
from types import UnionType
from typing import Any, Final, Literal, Union
from urllib.parse import quote, urlencode

import msgspec

from rwkvctl.protocol.ranges import IS_MOMENT
from rwkvctl.protocol.requests import EventsRequest
from rwkvctl.protocol.routes import ROUTES

HUGE: Final = (2**31, 2**53, 2**63 - 1, 2**63, 2**64, 10**30)
INTEGERS: Final = (*HUGE, *(-number for number in HUGE), 0, -1, 1, None, 1.5, "null", "nan", "")
FLOATS: Final = ("nan", "inf", "-inf", 1e308, -1e308, 5e-324, -1.0, 0.0, 2**63, None, "null", "")
MOMENTS: Final = (
    "null", "nan", "0", "-1", "9" * 30, "9999-12-31T23:59:59-23:59", "0001-01-01T00:00:00+23:59", "2026-13-45", "12h",
    "2026-02-30T25:61Z", "\0", "2026-11-01T12:00Z", "1969-12-31", "10000-01-01",
)  # fmt: skip
TEXTS: Final = (
    "9" * 25, "j" + "9" * 25, "e" + "9" * 25, "j-1", "j" + str(2**63), "j1", "-1", "nan", "null", "\0", "j1\0",
    "\N{ARABIC-INDIC DIGIT ONE}", "j\N{SUPERSCRIPT TWO}", "%00", "..", "\ufffe",
)  # fmt: skip
NAMES: Final = {"job": "j1", "target": "j1", "a": "j1", "b": "j1", "path": "/nowhere", "model": "builtin"}


@dataclass(frozen=True)
class Extreme:
    """One request. `field` is where the extreme value stands, `kind` what is there: int, float, moment or str."""

    method: str
    target: str
    body: bytes
    field: str
    kind: str
    value: Any

    @property
    def bytes(self) -> bytes:
        length = b"content-length: %d\r\n" % len(self.body) if self.body else b""
        return f"{self.method} {self.target} HTTP/1.1\r\nhost: x\r\n".encode() + length + b"\r\n" + self.body


def numeric(hint: Any, path: str = "") -> Iterator[tuple[str, str, Any]]:
    """The fields of a type that are numbers, times or texts, as (path, kind, metadata)."""
    metadata = getattr(hint, "__metadata__", ())
    if metadata:
        hint = hint.__origin__
    if hint in (int, float):
        yield path, hint.__name__, metadata
    elif hint is str:
        is_moment = any(one.extra and IS_MOMENT in one.extra for one in metadata)
        yield path, "moment" if is_moment else "str", metadata
    elif isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        for name, one in typing.get_type_hints(hint, include_extras=True).items():
            yield from numeric(one, f"{path}.{name}" if path else name)
    elif typing.get_origin(hint) in (Union, UnionType):
        for one in typing.get_args(hint):
            yield from numeric(one, path)
    elif typing.get_origin(hint) is tuple:
        yield from numeric(typing.get_args(hint)[0], f"{path}[]")
    elif typing.get_origin(hint) is dict:
        yield from numeric(typing.get_args(hint)[1], f"{path}{{}}")
    else:
        assert hint in (bool, type(None)) or typing.get_origin(hint) is Literal, f"{path}: {hint} is not looked at"


def least(hint: type[msgspec.Struct]) -> dict[str, Any]:
    """The fields that a request must have, with values that fit."""
    return {field.name: needed(field.name, field.type) for field in msgspec.structs.fields(hint) if field.required}


def needed(name: str, hint: Any) -> Any:
    while getattr(hint, "__metadata__", ()):
        hint = hint.__origin__
    if typing.get_origin(hint) is Literal:
        return typing.get_args(hint)[0]
    if typing.get_origin(hint) is tuple:
        return []
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        return least(hint)
    return 0 if hint in (int, float) else NAMES.get(name, "x")


def put(fields: dict[str, Any], path: str, value: Any, hint: Any) -> dict[str, Any]:
    """The fields with a value at that path."""
    found = copy.deepcopy(fields)
    place: Any = found
    *outer, last = path.replace("[].", "[]/").replace("{}.", "{}/").replace("/", ".").split(".")
    for step in outer:
        name = step.removesuffix("[]")
        if step.endswith("[]"):
            place[name] = [{"path": "/nowhere"}]
            place = place[name][0]
        else:
            place = place.setdefault(name, {})
    name = last.removesuffix("[]").removesuffix("{}")
    place[name] = [value] if last.endswith("[]") else {"x": value} if last.endswith("{}") else value
    return found


def extremes() -> Iterator[Extreme]:
    """Every request type, every field, every extreme value."""
    values = {"int": INTEGERS, "float": FLOATS, "moment": MOMENTS, "str": TEXTS}
    for hint, (method, path) in ROUTES.items():
        for field, kind, _ in numeric(hint):
            for value in values[kind]:
                yield made(hint, method, path, field, kind, value)


def made(hint: type[msgspec.Struct], method: str, path: str, field: str, kind: str, value: Any) -> Extreme:
    fields = put(least(hint), field, value, hint)
    if hint is EventsRequest:
        fields["follow"] = "no"
    target = path
    for name in [name for name in fields if f"{{{name}}}" in path]:
        target = target.replace(f"{{{name}}}", quote(str(fields.pop(name)), safe="") or "x")
    if method == "POST":
        return Extreme(method, target, json.dumps(fields).encode(), field, kind, value)
    query = {name: ",".join(map(str, one)) if isinstance(one, list) else str(one) for name, one in fields.items()}
    return Extreme(method, f"{target}?{urlencode(query)}", b"", field, kind, value)
