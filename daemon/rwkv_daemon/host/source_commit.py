"""The commit that this code is of."""

from pathlib import Path


def source_commit() -> str:
    """Return the commit of the git checkout that this code runs from, read from its files; empty if there is none."""
    for parent in Path(__file__).parents:
        head = parent / ".git" / "HEAD"
        if head.is_file():
            text = head.read_text(encoding="utf-8").strip()
            reference = parent / ".git" / text.removeprefix("ref: ")
            if not text.startswith("ref: "):
                return text
            return reference.read_text(encoding="utf-8").strip() if reference.is_file() else ""
    return ""
