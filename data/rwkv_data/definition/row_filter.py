r"""`where`: conditions on the fields of prepared rows, such as `difficulty>=4 source=math`. All of them must hold.

    where     = condition { blank condition }
    condition = word operator word              blanks may stand around the operator
    operator  = "=" | "!=" | "<" | "<=" | ">" | ">="
    word      = characters other than blanks, quotes, backslash and = < > !, or a text in quotes (" or '), in which a
                backslash stands before a quote or a backslash

The first word names a field. A value without quotes that reads as a number is compared as a number, with numbers and
with texts that read as one; any other value is compared as text, by = and != only. A row without the field does not
match, whatever the operator.
"""

import difflib
import math
import operator
import re
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Final, NamedTuple, TypeAlias

from rwkv_data.definition.errors import SettingError

Scalar: TypeAlias = bool | int | float | str
Compare: TypeAlias = Callable[[int | float, int | float], bool]

OPERATORS: Final[Mapping[str, Compare]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
EQUALITY: Final = frozenset({"=", "!="})
PIN: Final = "@"
"""Stands between the name of labels and their version: difficulty@1a2b3c4d."""
LONGEST: Final = 2000
"""Characters of a `where`, without the versions of labels, which are added to what somebody wrote."""
SHOWN: Final = 60
MOST_LISTED: Final = 24

_PINNED = re.compile(rf".+{PIN}[0-9a-f]{{8}}", re.DOTALL)
_VERSION = re.compile(rf"{PIN}[0-9a-f]{{8}}(?=[=!<>])")
_BARE = r"[^\s\"'\\=<>!]+"
_WORD = rf"{_BARE}|\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'"
_CONDITION = re.compile(rf"\s*({_WORD})\s*(!=|<=|>=|=|<|>)\s*({_WORD})(?=\s|\Z)", re.DOTALL)
_NUMBER = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)


class FieldPart(NamedTuple):
    """A field of consecutive rows: of each row a code, 0 where the row has no such field, else the place of its value
    in `values`, counted from 1."""

    values: Sequence[Scalar]
    codes: Sequence[int]


@dataclass(frozen=True, slots=True)
class Condition:
    """A field, an operator and a value: a number, or a text."""

    field: str
    operator: str
    value: int | float | str

    @property
    def text(self) -> str:
        """Return the condition in its one spelling."""
        return f"{_spelled(self.field)}{self.operator}{_spelled(self.value)}"

    def holds(self, value: Scalar) -> bool:
        """Whether a row with this value of the field matches."""
        if isinstance(self.value, str):
            return (_as_text(value) == self.value) == (self.operator == "=")
        number = number_of(value)
        return self.operator == "!=" if number is None else OPERATORS[self.operator](number, self.value)


@dataclass(frozen=True, slots=True)
class RowFilter:
    """Conditions in the order of their texts, each once, so that two spellings of one filter are equal."""

    conditions: tuple[Condition, ...]

    @property
    def text(self) -> str:
        """Return the filter as it enters the generation key."""
        return " ".join(condition.text for condition in self.conditions)

    @property
    def fields(self) -> list[str]:
        """Return the names of the fields that are looked at, each once."""
        return list(dict.fromkeys(condition.field for condition in self.conditions))

    def renamed(self, name_of: Callable[[str], str]) -> "RowFilter":
        """Return the filter with each field under another name."""
        return _in_order(replace(condition, field=name_of(condition.field)) for condition in self.conditions)


def parse(text: str) -> RowFilter | None:
    """Return the filter that a text means; None if it has no conditions. Raises SettingError."""
    if (length := len(_VERSION.sub("", text))) > LONGEST:
        raise SettingError(f"where has {length} characters; {LONGEST} are the most")
    found, place = list[Condition](), 0
    while text[place:].strip():
        match = _CONDITION.match(text, place)
        if match is None:
            rest = text[place:].strip()
            raise SettingError(
                f"where: {rest[:SHOWN]!r} does not begin with a condition; write FIELD=VALUE (or !=, <, <=, >, >=), "
                "blanks between conditions, and a value that holds blanks or marks in quotes"
            )
        found.append(_condition(*match.groups()))
        place = match.end()
    return _in_order(found) if found else None


def _in_order(conditions: Iterable[Condition]) -> RowFilter:
    found = {condition.text: condition for condition in conditions}
    return RowFilter(tuple(found[text] for text in sorted(found)))


def unknown_field(setting: str, named: Iterable[str], kinds: Mapping[str, str], labels: Container[str] = ()) -> str:
    """Return what is wrong if a field that a setting (`where`) names is none of `kinds` (name -> what it holds) nor of
    `labels`, which are those named with their version; empty if all are known."""
    unknown = next((name for name in named if name not in kinds and name not in labels), None)
    if unknown is None:
        return ""
    if is_pinned(unknown):
        why = "their file was removed, or they are of rows that were prepared before"
        return f"{setting}: there are no labels {unknown[:SHOWN]!r} for these rows ({why}): make them, or name others"
    near = difflib.get_close_matches(unknown, kinds, n=3, cutoff=0.5)
    names = [*near, *sorted(kinds.keys() - set(near))]
    listed = ", ".join(f"{_shown(name)} ({kinds[name]})" for name in names[:MOST_LISTED]) or "none"
    more = f" and {len(names) - MOST_LISTED} more" if len(names) > MOST_LISTED else ""
    told = f"no field {unknown[:SHOWN]!r} that is a number or a short text"
    return f"{setting}: the rows have {told}; there are {listed}{more}"


def is_pinned(name: str) -> bool:
    """Whether a name is that of labels with a version."""
    return _PINNED.fullmatch(name) is not None


def _shown(name: str) -> str:
    """Return the name of a field for a message: names of a foreign set may hold anything."""
    return name[:SHOWN] if name.isidentifier() else repr(name[:SHOWN])


def matching(where: RowFilter, column: Callable[[str], Iterable[FieldPart]]) -> bytes:
    """Return a byte for each row: 1 if all conditions hold, else 0. `column` gives the parts of a field by name."""
    each = (_flags(condition, column(condition.field)) for condition in where.conditions)
    return reduce(lambda one, other: bytes(map(operator.and_, one, other)), each)


def _flags(condition: Condition, column: Iterable[FieldPart]) -> bytes:
    """A condition is asked about once for each distinct value of a part."""
    found = bytearray()
    for values, codes in column:
        answers = bytes([False, *map(condition.holds, values)])
        found += bytes(map(answers.__getitem__, codes))
    return bytes(found)


def _condition(field: str, sign: str, value: str) -> Condition:
    read: int | float | str = _unquoted(value)
    if value[0] not in "\"'" and (number := _number(value)) is not None:
        read = number
    if isinstance(read, str) and sign not in EQUALITY:
        raise SettingError(
            f"where: {field[:SHOWN]}{sign}{value[:SHOWN]} compares numbers, and {value[:SHOWN]} is text, "
            "which is compared by = and != only"
        )
    return Condition(_unquoted(field), sign, read)


def _number(text: str) -> int | float | None:
    """Return the number that a text is; a whole one as an int, so that 4.0 and 4 are one. None for any other text."""
    if not _NUMBER.fullmatch(text):
        return None
    digits = text.lstrip("+-")
    if digits.isdecimal():
        return int(text)
    number = float(text)
    if math.isinf(number):
        return None
    return int(number) if number.is_integer() and abs(number) < 2**53 else number


def number_of(value: Scalar) -> int | float | None:
    """Return the number that a value is, or that a text reads as; None for any other."""
    if isinstance(value, bool):
        return None
    return _number(value) if isinstance(value, str) else value


def _as_text(value: Scalar) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else repr(value)


def _unquoted(word: str) -> str:
    return re.sub(r"\\(.)", r"\1", word[1:-1], flags=re.DOTALL) if word[0] in "\"'" else word


def _spelled(word: float | str) -> str:
    """Return a word as `parse` reads it back: in quotes where it would be cut, or read as a number."""
    if not isinstance(word, str):
        return repr(word)
    if re.fullmatch(_BARE, word) and _number(word) is None:
        return word
    return '"' + re.sub(r'(["\\])', r"\\\1", word) + '"'
