r"""The unit behind an answer: `5 \text{ cm}` is not `5 \text{ m}`, and is `0.05 \text{ m}`.

Only units that are known here are compared; other words behind an answer ("5 apples") say nothing.
"""

import re
from dataclasses import dataclass
from fractions import Fraction

_TABLE = """
length 1 m meter metre
length 1/100 cm centimeter centimetre
length 1/1000 mm millimeter millimetre
length 1000 km kilometer kilometre
length 254/10000 inch inches in
length 3048/10000 ft foot feet
length 9144/10000 yd yard
length 1609344/1000 mi mile
time 1 s sec second
time 60 min minute
time 3600 h hr hour
time 86400 d day
time 604800 week
time 2629746 month
time 31556952 year
mass 1 g gram gramme
mass 1/1000 mg milligram
mass 1000 kg kilogram
mass 1000000 ton tonne
mass 45359237/100000 lb pound
mass 28349523125/1000000000 oz ounce
volume 1 l liter litre
volume 1/1000 ml milliliter millilitre
volume 473176473/1000000000 pint
volume 946352946/1000000000 quart
volume 3785411784/1000000000 gallon
money 1 dollar
money 1/100 cent
angle 1 degree
radian 1 radian rad
speed 1609344/3600000 mph
energy 1 j joule
force 1 n newton
power 1 w watt
charge 1 c coulomb
potential 1 v volt
frequency 1 hz hertz
temperature 1 k kelvin
"""
_UNITS = {
    name: (dimension, Fraction(size))
    for dimension, size, *names in map(str.split, _TABLE.strip().split("\n"))
    for name in names
}
_CAPITALS = frozenset("JNWCVKL")
"""Units of one letter that are also written as capitals."""

_GROUP = r"\\(?:text|mbox|mathrm|textrm|rm|operatorname)\s*\{[^{}]{0,40}\}"
_POWER = r"(?:\s*\^\s*\{?\s*-?[1-9]\s*\}?)?"
_WORD = rf"(?:{_GROUP}|[a-zA-Z]{{1,12}}){_POWER}"
_BEHIND = re.compile(
    rf"(?P<value>.+?(?:(?<=[0-9)}}\]!])|(?=\s*(?:\\[,;: ]|~|\s)*{_GROUP})))\s*(?:\\[,;: ]|~|\s)*"
    rf"(?P<unit>(?:\^\s*\{{?\s*\\circ\s*\}}?|\\degree|°)(?:\s*(?:\\(?:text|mathrm|mbox|rm)\s*\{{\s*)?[CF]\s*\}}?)?"
    rf"|{_WORD}(?:(?:\\cdot|\s|~|\\[,;: ]|/|per(?![a-z]))+{_WORD}){{0,3}})\s*",
    re.DOTALL,
)
_PIECE = re.compile(
    r"(?P<per>/|\bper\b)|(?P<kind>\bsquare\b|\bcubic\b)|(?P<name>[a-zA-Z]+)\s*\}?\s*(?:\^\s*\{?\s*(?P<power>-?[1-9])\s*\}?)?"
)
_SCALE = re.compile(
    r"(?:circ|degree|°)s?[\s}]*(?:\\(?:text|mathrm|mbox|rm)\s*\{\s*)?([CF])(?:elsius|ahrenheit)?\s*\}?\s*$",
    re.IGNORECASE,
)
_LONGEST = 400


@dataclass(frozen=True, slots=True)
class Unit:
    """A unit: its dimensions as powers, and its size in the base units."""

    dimensions: tuple[tuple[str, int], ...]
    size: Fraction

    def converts_to(self, other: "Unit") -> bool:
        """Whether both units measure the same. Degrees without a scale may be those of an angle or of a temperature."""
        if {self.dimensions, other.dimensions} == _CELSIUS_OR_COULOMB:
            return True
        scales = {self.dimensions, other.dimensions} - {_DEGREES.dimensions}
        return len(scales) < 2 and (not scales or self.dimensions == other.dimensions or scales <= _SCALES)


_DEGREES = Unit((("angle", 1),), Fraction(1))
_SCALES = {(("celsius", 1),), (("fahrenheit", 1),)}
_CELSIUS_OR_COULOMB = {(("celsius", 1),), (("charge", 1),)}
"""Both readings of `37 C`."""


def split(text: str) -> tuple[str, Unit | None]:
    """Return a text without the known unit at its end, and that unit; the text itself and None if there is none."""
    match = _BEHIND.fullmatch(text) if len(text) <= _LONGEST else None
    if match is None:
        return text, None
    unit = _read(match["unit"])
    return (match["value"].strip(), unit) if unit is not None else (text, None)


def _read(text: str) -> Unit | None:
    if "circ" in text or "°" in text or "degree" in text:
        scale = _SCALE.search(text)
        return Unit((({"c": "celsius", "f": "fahrenheit"}[scale[1].lower()], 1),), Fraction(1)) if scale else _DEGREES
    powers: dict[str, int] = {}
    size, sign, kind = Fraction(1), 1, 1
    for piece in _PIECE.finditer(re.sub(r"\\(?:text|mbox|mathrm|textrm|rm|operatorname|cdot)", " ", text)):
        if piece["per"]:
            sign = -1
        elif piece["kind"]:
            kind = 2 if piece["kind"] == "square" else 3
        else:
            known = _known(piece["name"])
            if known is None:
                return None
            power = sign * kind * int(piece["power"] or 1)
            powers[known[0]] = powers.get(known[0], 0) + power
            size, kind = size * known[1] ** power, 1
    kept = tuple(sorted((name, power) for name, power in powers.items() if power))
    return Unit(kept, size) if kept else None


def _known(name: str) -> tuple[str, Fraction] | None:
    if len(name) <= 2:
        return _UNITS.get(name.lower() if name in _CAPITALS or name == "Hz" else name)
    folded = name.casefold()
    return _UNITS.get(folded) or _UNITS.get(folded.removesuffix("es")) or _UNITS.get(folded.removesuffix("s"))
