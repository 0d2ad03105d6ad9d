"""Names of checkpoints, whole and as lists show them: what is shown can be typed.

A list with too little room shows `g1-0.1b-20260910` for `rwkv7-g1-0.1b-20260910-ctx4096`, and `rwkv7-g1…ctx4096` where
that is still too long.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Final

TOLD_LEAST: Final = (re.compile(r"-ctx\d+$"), re.compile(r"^rwkv-?\d+-"))
"""What a name can do without where there is no room: the context length, then the architecture."""
LEFT_OUT: Final = "…"
"""Stands where the middle of a text was cut out."""


def shorter(name: str) -> Iterator[str]:
    """The name, and what is left of it after each part that tells least: `a-ctx4096`, `a`."""
    yield name
    for part in TOLD_LEAST:
        if (rest := part.sub("", name)) != name:
            name = rest
            yield name


def is_shown_as(name: str, word: str) -> bool:
    """Whether a list with little room may show this name as this word."""
    if LEFT_OUT not in word:
        return word in shorter(name)
    front, _, back = word.partition(LEFT_OUT)
    return any(
        len(form) > len(front + back) and form.startswith(front) and form.endswith(back) for form in shorter(name)
    )


def meant(word: str, names: Iterable[str]) -> list[str]:
    """The names that a word means: the one that it is, else those that are shown so."""
    known = list(dict.fromkeys(names))
    return [word] if word in known else [name for name in known if is_shown_as(name, word)]
