"""Errors in the fields of a request, as sentences that name the field."""

import functools
import re
import typing
from typing import Any, Final

from msgspec import Meta, Struct

from rwkv_daemon.logs.timestamps import seconds
from rwkvctl.protocol.ranges import IS_MOMENT

PLACE: Final = re.compile(r"(.*) - at `\$\.?(.*)`")


def no_moment(request: Struct) -> str:
    """Return a sentence about the first field of a request that should be a time and is none; empty if all are."""
    for name in moments(type(request)):
        text = getattr(request, name)
        try:
            fits = not text or seconds(text) >= 0
        except (ValueError, OverflowError):
            fits = False
        if not fits:
            return f"{name}: expected a time since 1970, such as 2026-11-01T12:00Z, got {text[:40]!r}"
    return ""


@functools.cache
def moments(kind: type[Struct]) -> tuple[str, ...]:
    """Return the names of a request's fields that are times."""
    hints = typing.get_type_hints(kind, include_extras=True)
    return tuple(name for name, hint in hints.items() if is_moment(hint))


def is_moment(hint: Any) -> bool:
    """Whether a type hint is that of a time."""
    found = [one.extra for one in getattr(hint, "__metadata__", ()) if isinstance(one, Meta) and one.extra]
    return any(IS_MOMENT in extra for extra in found)


def sentence(error: Exception) -> str:
    """Return a decoder's error as `field: what it must be`."""
    found = PLACE.fullmatch(str(error))
    if found is None or not found[2]:
        return str(error)
    return f"{found[2]}: {found[1][:1].lower()}{found[1][1:]}"
