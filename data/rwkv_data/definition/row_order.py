"""`order=FIELD`: rows are asked by the number that they have in a field or in labels, the lowest first.

Rows with equal numbers are asked in the order of the set. A row without a number there is not asked; a text that reads
as a number is one, as for `where`. A name with a dot or a slash is written in quotes, as without them it means a file
to the command line.
"""

from array import array
from collections.abc import Iterable, Iterator
from typing import Final

from rwkv_data.definition.errors import SettingError
from rwkv_data.definition.row_filter import SHOWN, FieldPart, number_of

LONGEST: Final = 220
"""Characters of the name of a field, or of labels with their version."""
OF_FILES: Final = "./"
"""Either in a name makes it that of a file."""
_QUOTES: Final = frozenset({"'", '"'})


def parse(text: str) -> str:
    """Return the name of the field that a text means; empty if it means none. Raises SettingError."""
    name = text.strip()
    if len(name) > 1 and name[0] in _QUOTES and name[-1] == name[0]:
        name = name[1:-1]
    if len(name) > LONGEST:
        raise SettingError(f"order={name[:SHOWN]!r}… has {len(name)} characters; no field has a name of so many")
    return name


def spelled(name: str) -> str:
    """Return a name as `parse` and the command line read it back."""
    plain = name == name.strip() and not any(mark in name for mark in OF_FILES)
    if plain and name[:1] not in _QUOTES:
        return name
    return f'"{name}"'


def ascending(column: Iterable[FieldPart]) -> "array[int]":
    """Return the indices of the rows that have a number in a field, in the order in which they are asked."""
    found = list(numbers(column))
    known = (index for index, number in enumerate(found) if number is not None)
    return array("Q", sorted(known, key=found.__getitem__))  # type: ignore[arg-type]  # those that are None are left out


def numbers(column: Iterable[FieldPart]) -> Iterator[int | float | None]:
    """Yield the number of each row in a field; None where there is none."""
    for values, codes in column:
        yield from map([None, *map(number_of, values)].__getitem__, codes)
