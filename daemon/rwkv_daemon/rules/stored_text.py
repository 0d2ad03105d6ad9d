"""Texts in a form that every database can store: PostgreSQL has no NUL, and models do write it."""

from typing import Final

ESCAPE: Final = "\U0010fffe"
"""Begins an escape for what PostgreSQL cannot store: `ESCAPE 0` is the character NUL, `ESCAPE 1` is ESCAPE itself."""


def text_in(text: str) -> str:
    """Return a text in a form that PostgreSQL can store."""
    if "\0" in text or ESCAPE in text:
        return text.replace(ESCAPE, ESCAPE + "1").replace("\0", ESCAPE + "0")
    return text


def text_out(text: str) -> str:
    """Return the original of a text that `text_in` escaped."""
    if ESCAPE in text:
        return text.replace(ESCAPE + "0", "\0").replace(ESCAPE + "1", ESCAPE)
    return text
