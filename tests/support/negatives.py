"""Answers that are wrong by construction: references changed in one place, and hedges around them."""

import re
from collections.abc import Iterator

from rwkv_data.graders.maths import physical_units

_COMMAND = re.compile(r"\\[a-zA-Z]+|\\.")
_BRACKETS = {"(": "[", "[": "(", ")": "]", "]": ")"}
_INTERVAL = re.compile(r"[(\[][^,()\[\]]*,[^,()\[\]]*[)\]]")


def perturbed(gold: str) -> Iterator[tuple[str, str]]:
    """A reference with one digit, sign, letter, unit, base or bracket changed, by the name of what was changed."""
    yield from (("digit", text) for text in _digits(gold))
    if sign := _sign(gold):
        yield "sign", sign
    yield from (("letter", text) for text in _letters(gold))
    value, unit = physical_units.split(gold)
    if unit is not None:
        yield "unit", f"{value} \\text{{ {'kilograms' if ('mass', 1) not in unit.dimensions else 'hours'}}}"
    if re.fullmatch(r"[0-9A-F]+_\{?[0-9]+\}?", gold):
        yield "base", re.sub(r"_\{?([0-9]+)\}?$", lambda base: f"_{{{int(base[1]) + 1}}}", gold)
    if _INTERVAL.fullmatch(gold):
        yield "bracket", _BRACKETS[gold[0]] + gold[1:]
        yield "bracket", gold[:-1] + _BRACKETS[gold[-1]]


def hedged(gold: str, other: str) -> Iterator[tuple[str, str]]:
    """A reference among several candidates, denied, or excluded."""
    yield "or", f"{other} \\text{{ or }} {gold}"
    yield "or", f"{gold} \\text{{ or }} {other}"
    yield "or", f"either {other} or {gold}"
    yield "not", f"\\text{{not }} {gold}"
    yield "except", f"\\text{{all real numbers except }} {gold}"


def _digits(gold: str) -> Iterator[str]:
    """The first, the middle and the last digit, each one higher."""
    places = [match.start() for match in re.finditer(r"[0-9]", gold)]
    for place in dict.fromkeys([*places[:1], *places[len(places) // 2 : len(places) // 2 + 1], *places[-1:]]):
        yield gold[:place] + str((int(gold[place]) + 1) % 10) + gold[place + 1 :]


def _sign(gold: str) -> str:
    if gold.startswith("-"):
        return gold[1:]
    return f"-{gold}" if re.match(r"[1-9]|\\d?frac|\\sqrt", gold) and not re.search(r"[=,<>]|\\text", gold) else ""


def _letters(gold: str) -> Iterator[str]:
    """The first and the last variable, each another letter; not in words, nor in names of commands."""
    words = re.search(r"[a-zA-Z]{3}|[0-9] ?[a-zA-Z]{2}", _COMMAND.sub(" ", gold))
    if words or re.search(r"\\(?:text|mbox|mathrm)", gold):
        return
    hidden = {index for match in _COMMAND.finditer(gold) for index in range(*match.span())}
    places = [
        index for index, letter in enumerate(gold) if letter.isascii() and letter.isalpha() and index not in hidden
    ]
    if len({gold[place] for place in places}) > 1 or "=" not in gold:  # a lone variable before `=` may have any name
        for place in dict.fromkeys([*places[:1], *places[-1:]]):
            yield gold[:place] + ("k" if gold[place] not in "kK" else "u") + gold[place + 1 :]
