"""Parts of prompts with foreign text, cut to a length and fenced so that it is not taken for instructions."""

import hashlib

from rwkv_data.judges.judge_rule import Messages

LONGEST_ANSWER = 8_000
LONGEST_QUESTION = 16_000
LONGEST_REFERENCE = 8_000
NONE = "(no answer)"


def cut(text: str, longest: int, head: float = 0.7) -> str:
    """Return at most `longest` characters of a text. A longer one loses its middle, with a note of how much."""
    if len(text) <= longest:
        return text
    note = f"\n[... {len(text) - longest} characters or more left out ...]\n"
    room = max(longest - len(note), 0)
    front = int(room * head)
    return (text[:front] + note + text[len(text) - (room - front) :])[:longest]


def fenced(name: str, text: str, longest: int) -> str:
    """Return a text between tags that it cannot close: they carry the text's own hash, which it cannot contain."""
    shown = cut(text, longest)
    tag = f"{name}-{hashlib.sha256(shown.encode(errors='replace')).hexdigest()[:12]}"
    return f"<{tag}>\n{shown}\n</{tag}>"


def chat(user: str, system: str = "") -> Messages:
    """Return one request: an optional system message, and the user's."""
    start: Messages = ({"role": "system", "content": system},) if system else ()
    return (*start, {"role": "user", "content": user})
