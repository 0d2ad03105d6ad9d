r"""What question rows of many sets have in common: the columns' several names, numbers, dollars around an answer."""

import re
from collections.abc import Sequence
from typing import Any

from rwkv_data.definition import rows
from rwkv_data.definition.errors import RowError
from rwkv_data.definition.stage import Row

_ZEROS = re.compile(r"(?<=\d)\.0+$")
_FORMULA = re.compile(r"\$([^$]+)\$", re.DOTALL)


def first_text(raw: Row, names: Sequence[str]) -> str:
    """The first of the fields that there is; it must be text."""
    value = rows.first(raw, *names)
    return rows.text({names[0]: value}, names[0])


def first_value(raw: Row, names: Sequence[str]) -> Any:
    """The first of the fields that there is, whatever it holds. Raises RowError if there is none."""
    value = rows.first(raw, *names)
    if value is None:
        raise RowError(f"{names[0]!r} is missing")
    return value


def number(value: Any) -> str:
    """A number as text: 27.0 is "27", "1,234" is "1234", "025" is "25". Raises RowError for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise RowError(f"{value!r} is no number")
    text = str(value).strip().replace(",", "")
    if not re.fullmatch(r"-?\d+(?:\.\d+)?", text, re.ASCII):
        raise RowError(f"{value!r} is no number")
    plain = _ZEROS.sub("", text)
    return str(int(plain)) if "." not in plain else plain


def bare(answer: str) -> str:
    r"""An answer without the dollars around it, or around each part of a list: "$69$,$84$" is "69,84"."""
    text = answer.strip().removesuffix(".").strip()
    if text.count("$") % 2:
        return text
    outside = _FORMULA.sub("", text)
    return _FORMULA.sub(r"\1", text).strip() if re.fullmatch(r"[\s,;]*", outside) else text


def kept(raw: Row, **names: str) -> dict[str, Any]:
    """Fields to carry along, under the names of ours, where the raw row has them: kept(raw, subject="type")."""
    return {ours: raw[theirs] for ours, theirs in names.items() if raw.get(theirs) is not None and raw[theirs] != ""}
