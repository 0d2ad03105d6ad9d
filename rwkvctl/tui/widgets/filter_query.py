"""The filter language typed after `/`, the same in every list. Words separated by blanks must all match. A word matches
part of the row's text in any case; `!word` its absence; `~word` its letters in order; `field:word` part of one column;
`field:>5`, `>=`, `<`, `<=`, `=`, `!=` compare; `"two words"` keeps blanks; `re:` makes the rest of the line a regular
expression."""

import operator
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple

Read = Callable[[Any], object]
"""The value of a row in one column."""

Test = Callable[[str, Any], bool]
"""Whether a row passes, by its text in lower case and itself."""

WORDS: Final = re.compile(r'(?:[^\s"]|"[^"]*"?)+')
COMPARISON: Final = re.compile(r"(>=|<=|!=|>|<|=)(.+)")
NUMBER: Final = re.compile(r"([-+]?\d[\d,_]*\.?\d*)\s*([kKMGT]?)%?")
FACTORS: Final = {"": 1.0, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
OPERATORS: Final[dict[str, Callable[[Any, Any], bool]]] = {
    ">": operator.gt, ">=": operator.ge, "<": operator.lt, "<=": operator.le, "=": operator.eq, "!=": operator.ne,
}  # fmt: skip


class Query(NamedTuple):
    """A parsed filter and its text; without tests it matches every row."""

    text: str = ""
    tests: tuple[Test, ...] = ()


def parse(text: str, fields: Mapping[str, Read]) -> Query:
    """Read a filter over rows with these columns. Raises ValueError with a sentence for the operator."""
    text = text.strip()
    if text.startswith(("re:", "!re:")):
        return Query(text, (expression(text),))
    return Query(text, tuple(term(word, fields) for word in WORDS.findall(text)))


def expression(text: str) -> Test:
    """Return the test of a regular expression over the whole row, in any case."""
    wanted, pattern = not text.startswith("!"), text.partition("re:")[2]
    try:
        search = re.compile(pattern, re.IGNORECASE).search
    except re.error as error:
        raise ValueError(f"{pattern} is not a regular expression: {error}") from error
    return lambda hay, _: (search(hay) is not None) is wanted


def term(word: str, fields: Mapping[str, Read]) -> Test:
    """Return the test of one word: `!word`, `field:word`, `~word`, or a part of the row's text."""
    if len(word) > 1 and word.startswith("!"):
        inner = term(word[1:], fields)
        return lambda hay, row: not inner(hay, row)
    name, colon, rest = word.partition(":")
    if colon and rest and (field := found(name, fields)):
        return on_field(fields[field], rest.replace('"', ""))
    if len(word) > 1 and word.startswith("~"):
        search = re.compile(".*?".join(map(re.escape, word[1:].lower()))).search
        return lambda hay, _: search(hay) is not None
    part = word.replace('"', "").lower()
    return lambda hay, _: part in hay


def found(name: str, fields: Iterable[str]) -> str:
    """Return the column that a name means: it, or the only one that begins with it; empty if there is none."""
    wanted = name.lower()
    if not wanted:
        return ""
    exact = [field for field in fields if field.lower() == wanted]
    begun = [field for field in fields if field.lower().startswith(wanted)]
    return exact[0] if exact else begun[0] if len(begun) == 1 else ""


def on_field(read: Read, text: str) -> Test:
    """Return the test of one column: a comparison, or a part of its text."""
    match = COMPARISON.fullmatch(text)
    if not match:
        part = text.lower()
        return lambda _, row: part in str(read(row)).lower()
    sign, right = match[1], match[2]
    compare, limit = OPERATORS[sign], number(right)
    if limit is None:
        word = right.lower()
        return lambda _, row: compare(str(read(row)).lower(), word)

    def holds(_: str, row: Any) -> bool:
        left = read(row)
        found = left if isinstance(left, (int, float)) else number(str(left))
        return found is not None and compare(found, limit)

    return holds


def number(text: str) -> float | None:
    """Return a number as people write it, `1,200`, `480k`, `51.6 %`; None if it is not one."""
    match = NUMBER.fullmatch(text.strip().replace(" ", ""))
    return float(match[1].replace(",", "").replace("_", "")) * FACTORS[match[2]] if match else None
