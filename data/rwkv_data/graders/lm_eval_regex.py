"""lm_eval's regex filter, as the harness-compatible graders need it (release 0.4.13)."""

import re

from rwkv_data.definition.answer import Grade

INVALID = "[invalid]"


def found(pattern: re.Pattern[str], text: str, which: int = 0) -> str:
    """Return the first non-empty group of the match with index `which` in the text; "[invalid]" if there is none."""
    matches = pattern.findall(text)
    if not matches:
        return INVALID
    match = matches[which]
    if isinstance(match, tuple):
        match = next((group for group in match if group), INVALID)
    return str(match).strip()


def verdict(right: bool, extracted: str, expected: str, route: str, **parts: float) -> Grade:
    """Return a grade of right or wrong; `no_answer` if no answer was found."""
    if extracted in {INVALID, ""}:
        return Grade(float(right), None, expected, "right" if right else "no_answer", route="", parts=parts)
    return Grade(float(right), extracted, expected, "right" if right else "wrong", route=route, parts=parts)
