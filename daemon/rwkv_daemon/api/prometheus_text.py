"""Metric families in Prometheus' text format, version 0.0.4. Pure.

See https://prometheus.io/docs/instrumenting/exposition_formats/: `# HELP` and `# TYPE` once before the values of a
family; backslash, line feed and, in labels, the double quote are escaped.
"""

import math
from collections.abc import Iterable, Iterator
from typing import Final

from rwkvctl.protocol.service import FamilyView, Figure

PATH: Final = "/metrics"
CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"


def text(families: Iterable[FamilyView]) -> str:
    """Return the exposition of all families; those without values are left out."""
    return "".join(f"{line}\n" for family in families for line in lines(family))


def lines(family: FamilyView) -> Iterator[str]:
    """Yield the lines of one family; nothing if it has no values."""
    if not family.figures:
        return
    yield f"# HELP {family.name} {escaped(family.help)}"
    yield f"# TYPE {family.name} {family.type}"
    for figure in family.figures:
        yield f"{family.name}{labels(figure)} {number(figure.value)}"


def labels(figure: Figure) -> str:
    """Return the label set of a value, such as `{state="done",model="x"}`; empty if it has no labels."""
    if not figure.labels:
        return ""
    pairs = (f'{name}="{quoted(value)}"' for name, value in figure.labels.items())
    return "{" + ",".join(pairs) + "}"


def escaped(value: str) -> str:
    """Escape a text for a help line."""
    return value.replace("\\", r"\\").replace("\n", r"\n")


def quoted(value: str) -> str:
    """Escape a text for a label's quotes."""
    return escaped(value).replace('"', r"\"")


def number(value: float) -> str:
    """Return a value as Go's ParseFloat reads it, with `NaN`, `+Inf` and `-Inf`."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return str(int(value)) if value == int(value) and abs(value) < 2**53 else repr(float(value))
