r"""The content of a box that a prompt has opened (`\boxed{`) and the model was to close.

The engine stops at the tokens `}\` and ` }\`, but a model can also close the box with another token (`}.`, `}}\`) and
go on talking, or stop inside an inner group, because the stop token swallowed that group's closing brace.
"""


def inside_box(text: str) -> str:
    """The text up to the brace that closes the box; all of it if none does. Escaped braces do not count."""
    depth, escaped = 0, False
    for index, char in enumerate(text):
        if escaped or char == "\\":
            escaped = not escaped
        elif char == "{":
            depth += 1
        elif char == "}":
            depth -= 1
            if depth < 0:
                return text[:index].strip()
    return text.strip()


def open_groups(text: str) -> int:
    """How many groups are still open at the end: closing braces that a stop token swallowed."""
    bare = text.replace("\\\\", "").replace("\\{", "").replace("\\}", "")
    return max(0, bare.count("{") - bare.count("}"))
