"""Pieces of prompts that hold text from outside: cut to a length, and set apart so that it cannot give orders."""

import hashlib

from rwkv_data.judges.judge_rule import Messages

LONGEST_ANSWER = 8_000
LONGEST_QUESTION = 16_000
LONGEST_REFERENCE = 8_000
NONE = "(no answer)"


def cut(text: str, longest: int, head: float = 0.7) -> str:
    """Text of at most `longest` characters: too much loses its middle, and says how much."""
    if len(text) <= longest:
        return text
    note = f"\n[... {len(text) - longest} characters or more left out ...]\n"
    room = max(longest - len(note), 0)
    front = int(room * head)
    return (text[:front] + note + text[len(text) - (room - front) :])[:longest]


def fenced(name: str, text: str, longest: int) -> str:
    """Text between tags that it cannot close: they carry its own hash, which nobody can write into the text."""
    shown = cut(text, longest)
    tag = f"{name}-{hashlib.sha256(shown.encode(errors='replace')).hexdigest()[:12]}"
    return f"<{tag}>\n{shown}\n</{tag}>"


def chat(user: str, system: str = "") -> Messages:
    """One request: an optional system message and one from the user."""
    start: Messages = ({"role": "system", "content": system},) if system else ()
    return (*start, {"role": "user", "content": user})
