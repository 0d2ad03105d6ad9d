r"""The content of a box that a prompt has opened (`\boxed{`) and the model should close.

The engine stops at the tokens `}\` and ` }\`, but a model can also close the box with another token (`}.`, `}}\`) and
go on talking, or stop inside an inner group, because the stop token swallowed that group's closing brace.
"""

import re

_BOX = re.compile(r"\\(?:boxed|fbox|framebox)(?![a-zA-Z])")
_BETWEEN = re.compile(r"[\s$,;.、，]*(?:and|or|和|或)?[\s$\\()\[\]]*")
_WORD = re.compile(r"[^\s$]*")
_LONGEST = 2000
_MOST = 30
_NEAR = 40


def inside_box(text: str) -> str:
    """Return the text up to the brace that closes the box; all of it if none does."""
    return text[: _end(text)].strip()


def closes_box(text: str) -> bool:
    """Whether the box is closed in the text, so that what follows is no part of the answer."""
    return _end(text) is not None


def _end(text: str) -> int | None:
    """Return the offset of the brace that closes a group not opened in the text; None if there is none. Escaped braces
    do not count."""
    depth, escaped = 0, False
    for index, char in enumerate(text):
        if escaped or char == "\\":
            escaped = not escaped
        elif char == "{":
            depth += 1
        elif char == "}":
            depth -= 1
            if depth < 0:
                return index
    return None


def open_groups(text: str) -> int:
    """Return how many groups are open at the end: their closing braces were swallowed by a stop token."""
    bare = text.replace("\\\\", "").replace("\\{", "").replace("\\}", "")
    return max(0, bare.count("{") - bare.count("}"))


def last_box(text: str) -> str | None:
    r"""The content of the last box of a whole text; of the last boxes if nothing but `,` or `and` stands between them.

    `\boxed{...}` with balanced braces, `\boxed 5`, `\fbox{...}`. A last box that is never closed ends with its line.
    None if there is no box.
    """
    found: list[str] = []
    before = len(text)
    for match in reversed(list(_BOX.finditer(text))[-_MOST:]):
        content, end = _content(text, match.end())
        if found and not (before - _NEAR < end <= before and _BETWEEN.fullmatch(text, end, before)):
            break
        before = match.start()
        if content and content not in found:
            found.insert(0, content)
    return ", ".join(found) if found else None


def _content(text: str, start: int) -> tuple[str, int]:
    """Return the content of the box whose command ends at `start`, and the offset of the box's end."""
    while text[start : start + 1].isspace():
        start += 1
    if text[start : start + 1] != "{":
        word = _WORD.match(text, start, start + _LONGEST)
        return (word[0].rstrip(".,"), word.end()) if word else ("", start)
    window = text[start + 1 : start + 1 + _LONGEST]
    end = _end(window)
    if end is not None:
        return window[:end].strip(), start + end + 2
    line = window.partition("\n")[0].strip().rstrip("$").strip()
    return line + "}" * open_groups(line), len(text)
