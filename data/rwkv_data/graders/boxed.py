r"""The content of a box that a prompt has opened (`\boxed{`) and the model was to close.

The engine stops at the tokens `}\` and ` }\`, but a model can also close the box with another token (`}.`, `}}\`) and
go on talking, or stop inside an inner group, because the stop token swallowed that group's closing brace.
"""


def inside_box(text: str) -> str:
    """The text up to the brace that closes the box; all of it if none does."""
    return text[: _end(text)].strip()


def closes_box(text: str) -> bool:
    """Whether the box is closed in the text, so that what follows is no part of the answer."""
    return _end(text) is not None


def _end(text: str) -> int | None:
    """Where the brace stands that closes nothing opened in the text. Escaped braces do not count."""
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
    """How many groups are still open at the end: closing braces that a stop token swallowed."""
    bare = text.replace("\\\\", "").replace("\\{", "").replace("\\}", "")
    return max(0, bare.count("{") - bare.count("}"))
