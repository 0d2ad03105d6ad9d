"""Read a request's body as its struct: null means not given, unknown fields are counted, faults name their field."""

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, TypeVar

import msgspec

from rwkv_engine.openai.refusals import Refusal, bad

T = TypeVar("T")
MOST_NAMES = 50
LONGEST_NAME = 40
_PLACE = re.compile(r" - at `(?:key` in `)?\$\.?(\w*)")
_MISSING = re.compile(r"Object missing required field `(\w+)`")


@dataclass(slots=True)
class BodyReader:
    """Reads bodies. `ignored` counts the fields that had no effect, over all requests."""

    ignored: Counter[str] = field(default_factory=Counter)

    def read(self, body: bytes, kind: type[T]) -> T:
        """Return the body as a struct of type `kind`. Raises Refusal if it is not a JSON object, or a field has a wrong
        type or range."""
        given = parsed(body, kind)
        known = {f.encode_name for f in msgspec.structs.fields(kind)}  # type: ignore[arg-type]
        self._count(given.keys() - known)
        fields = {name: value for name, value in given.items() if value is not None and name in known}
        try:
            return msgspec.convert(fields, kind, str_keys=True)
        except msgspec.ValidationError as error:
            raise named(error) from error

    def _count(self, names: set[str]) -> None:
        for name in names:
            short = name[:LONGEST_NAME] if name.isprintable() else "unprintable"
            self.ignored[short if short in self.ignored or len(self.ignored) < MOST_NAMES else "others"] += 1

    def notes(self) -> tuple[str, ...]:
        """Return the ignored fields as a line of /v1/stats."""
        if not self.ignored:
            return ()
        counts = ", ".join(f"{name} ({count})" for name, count in self.ignored.most_common())
        return (f"fields of OpenAI requests that have no effect: {counts}",)


def parsed(body: bytes, kind: type[Any]) -> dict[str, Any]:
    """Return the body as a JSON object. Raises Refusal if it is none, or a number in it is out of range."""
    try:
        given = msgspec.json.decode(body)
    except msgspec.ValidationError:
        raise number_out_of_range(body, kind) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise bad(None, f"the body is not JSON: {error}") from error
    if not isinstance(given, dict):
        raise bad(None, "the body is not a JSON object")
    return given


def number_out_of_range(body: bytes, kind: type[Any]) -> Refusal:
    """Return the refusal for a number that no float holds, with the name of its field."""
    try:
        msgspec.json.decode(body, type=kind)
    except msgspec.ValidationError as error:
        return named(error)
    except msgspec.DecodeError:
        pass
    return bad(None, "the body holds a number that is out of range")


def named(error: msgspec.ValidationError) -> Refusal:
    """Return the refusal for a value of the wrong type or out of its range."""
    text = str(error)
    place = _PLACE.search(text)
    param = place[1] if place and place[1] else None
    if (match := _MISSING.match(text)) and param is None:
        return bad(match[1], "the request must have this field")
    return bad(param, text.partition(" - at `")[0])
