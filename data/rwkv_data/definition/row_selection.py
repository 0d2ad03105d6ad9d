"""Select the rows of a set that are asked: all, the part for choosing settings, or a share; always the same ones.

A row's place in the draw is a hash of its text, so neither the order of the file nor other rows' presence moves it from
one side to the other as long as the set keeps its size.
"""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Final, Literal, TypeAlias

from rwkv_data.definition.rows import canonical
from rwkv_data.definition.stage import Row

Part = Literal["all", "search", "report"]
RowsByIndex: TypeAlias = Sequence[Row] | Mapping[int, Row]
"""Rows of a set by their index in it: all of them, or at least those that are chosen from."""
PARTS: Final[tuple[Part, ...]] = ("all", "search", "report")
SEARCH_SHARE: Final = 0.4
"""The share of the rows for a search for settings; the other rows report the score of what it found."""


def part_of(indices: Sequence[int], part: Part, rows: RowsByIndex) -> list[int]:
    """Return the indices that belong to a part, in order."""
    if part == "all":
        return list(indices)
    search = set(_first(indices, round(len(indices) * SEARCH_SHARE), "part", rows))
    return [index for index in indices if (index in search) == (part == "search")]


def share_of(indices: Sequence[int], share: float, rows: RowsByIndex) -> list[int]:
    """Return a share of the indices (at least one), in order."""
    if share >= 1 or not indices:
        return list(indices)
    chosen = set(_first(indices, max(1, round(len(indices) * share)), "share", rows))
    return [index for index in indices if index in chosen]


def _first(indices: Sequence[int], most: int, salt: str, rows: RowsByIndex) -> list[int]:
    return sorted(indices, key=lambda index: hashlib.sha256(salt.encode() + canonical(rows[index])).digest())[:most]


def count(rows: int, part: Part, share: float) -> int:
    """Return how many of `rows` rows belong to a part and a share."""
    search = round(rows * SEARCH_SHARE)
    left = {"all": rows, "search": search, "report": rows - search}[part]
    return left if share >= 1 or not left else max(1, round(left * share))
