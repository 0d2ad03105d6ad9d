"""Reading the fields of a row, for benchmark files: ours and an operator's own."""

from rwkv_data.definition.rows import (
    LETTERS,
    canonical,
    check_choice,
    check_question,
    first,
    json_text,
    letters,
    shown,
    shuffled,
    text,
    texts,
    whole,
)

__all__ = [
    "LETTERS",
    "canonical",
    "check_choice",
    "check_question",
    "first",
    "json_text",
    "letters",
    "shown",
    "shuffled",
    "text",
    "texts",
    "whole",
]
