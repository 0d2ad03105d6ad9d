"""Reading what a judge wrote: tolerant of decoration, never of ambiguity.

Replies are hostile input: a judge repeats what the judged model wrote, and that model may have written verdicts of its
own. So a verdict is taken from one place only (the whole reply, its last line of a kind, or one JSON object), and a
reply that says two things says nothing. Everything here is linear in a reply that is cut to LONGEST characters.
"""

import json
import re
from typing import Any

LONGEST = 100_000
_DECORATION = " \t\r\n`*_#>\"'“”‘’.,;:!()[]{}-–—"
_BEFORE_A_NAME = " \t`*_#>\"'-"
_FENCE = re.compile(r"```[a-zA-Z]{0,10}[ \t]*\n?")
_LONGEST_LINE = 400


def without_thought(reply: str) -> str:
    """Return what follows the last `</think>`; what follows an unclosed `<think>` is all thought."""
    text = reply[-LONGEST:]
    _, closed, behind = text.rpartition("</think>")
    return (behind if closed else text.partition("<think")[0]).strip()


def bare(text: str) -> str:
    """Return a text without the quotes, backticks, emphasis and punctuation around it."""
    return text.strip(_DECORATION)


def only_word(reply: str, words: tuple[str, ...]) -> str | None:
    """Return the one of some (lower-case) words that a reply holds, in any case; None if it holds none or several."""
    text = without_thought(reply).lower()
    found = {word for word in words if re.search(rf"(?<![a-z_]){re.escape(word)}(?![a-z_])", text)}
    return found.pop() if len(found) == 1 else None


def last_field(reply: str, names: tuple[str, ...]) -> str | None:
    """Return what follows `NAME:` in the last line that begins with one of the (lower-case) names; None without one."""
    for line in reversed(without_thought(reply).split("\n")):
        name, colon, value = line[:_LONGEST_LINE].replace("：", ":").partition(":")
        if colon and name.strip(_BEFORE_A_NAME).lower().removeprefix("final ") in names:
            return bare(value)
    return None


def json_object(reply: str) -> dict[str, Any] | None:
    """Return a reply that is one JSON object and nothing else (a code fence is allowed); None for any other."""
    text = _FENCE.sub("", without_thought(reply)).strip()
    if not (text.startswith("{") and text.endswith("}")):
        return None
    return _decoded(text)


def embedded_object(reply: str) -> dict[str, Any] | None:
    """Return the JSON object between the first `{` and the last `}` of a reply; None if there is none."""
    text = without_thought(reply)
    return _decoded(text[text.find("{") : text.rfind("}") + 1]) if "{" in text else None


def _decoded(text: str) -> dict[str, Any] | None:
    try:
        value = json.loads(text, strict=False)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def text_of(value: object, longest: int = 2000) -> str:
    """Return a field of a reply as text; empty if it is not a text."""
    return value[:longest].strip() if isinstance(value, str) else ""


def yes_or_no(value: object) -> bool | None:
    """Read yes or no in the ways that judges write them; None for anything else, also for a value that says both."""
    if isinstance(value, bool):
        return value
    words = re.findall(r"[a-z]+", value.lower()[:_LONGEST_LINE]) if isinstance(value, str) else []
    said = {word in {"yes", "true"} for word in words if word in {"yes", "no", "true", "false"}}
    first = bool(words) and words[0] in {"yes", "no", "true", "false"}
    return said.pop() if first and len(said) == 1 else None
