r"""Texts of HellaSwag in the form in which they are asked (Zellers et al. 2019, arXiv 1905.07830).

lm-evaluation-harness joins `activity_label: ctx_a` and ctx_b with a capital letter, and takes WikiHow's marks out of
the query and of each ending: " [title]" becomes ". ", whatever else stands in brackets is removed, and two blanks
become one, once.
"""

from typing import Any

from rwkv_data.definition import rows
from rwkv_data.definition.stage import Row
from rwkv_data.prepare.row_shapes.choice_rows import letter_of

_ENDS = (".", "!", "?", '"', "'", ")")


def from_source(raw: Row) -> dict[str, Any]:
    """A hub row, or one of the copies that have the joined text alone."""
    first, second = halves(raw)
    endings = rows.texts(raw, "endings")
    label = rows.first(raw, "label")
    return {
        "question": cleaned(f"{rows.text(raw, 'activity_label')}: {first} {second.capitalize()}"),
        "choices": [cleaned(ending) for ending in endings],
        "answer": letter_of(int(label) if str(label).isdecimal() else -1, len(endings)),
        "subject": rows.text(raw, "activity_label"),
        "source": str(raw.get("source_id") or ""),
    }


def cleaned(text: str) -> str:
    """Return the text without WikiHow's marks: " [title]" becomes ". ", other bracketed text is removed."""
    return _without_brackets(text.strip().replace(" [title]", ". ")).replace("  ", " ")


def halves(raw: Row) -> tuple[str, str]:
    """ctx_a and ctx_b. Where there is only the joined text, ctx_b is the unfinished sentence that an ActivityNet text
    ends with; a WikiHow text has none."""
    if "ctx_a" in raw:
        return str(raw["ctx_a"]), str(raw.get("ctx_b") or "")
    whole = rows.text(raw, "ctx" if "ctx" in raw else "context")
    if str(raw.get("source_id") or "").startswith("activitynet") and not whole.rstrip().endswith(_ENDS):
        first, stop, second = whole.rpartition(". ")
        if stop:
            return first + stop.rstrip(), second
    return whole, ""


def _without_brackets(text: str) -> str:
    r"""`\[.*?\]` removed, in time linear in the text."""
    kept, place = [], 0
    while (opening := text.find("[", place)) >= 0:
        closing, line_end = text.find("]", opening), text.find("\n", opening)
        if closing < 0:
            break
        if 0 <= line_end < closing:
            kept.append(text[place : line_end + 1])
            place = line_end + 1
        else:
            kept.append(text[place:opening])
            place = closing + 1
    return "".join([*kept, text[place:]])
