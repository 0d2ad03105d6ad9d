"""Lines end at a line feed and nowhere else: `splitlines` and its kin also split at U+2028, U+0085, form feeds and a
bare carriage return, which models write, process names hold and paths may have."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROOMS = ("rwkvctl", "daemon", "data", "engine", "kernels", "weights")
FORBIDDEN = {"splitlines", "aiter_lines", "iter_lines"}
ALLOWED = {
    "data/rwkv_data/profiles/code.py": "prompts of rwkv-skills-v1 are built like this, and must stay equal to them",
    "data/rwkv_data/benchmarks/held_out_text.py": "keeps the ends, so that nothing is lost whatever is taken for one",
}


def splitters(path: Path) -> list[str]:
    """Where a file calls one of the forbidden methods."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return [
        f"{path.relative_to(ROOT)}:{node.lineno} {node.attr}"
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and node.attr in FORBIDDEN
    ]


def test_no_file_holds_the_marks_of_an_unfinished_merge() -> None:
    texts = (path for end in ("py", "md", "toml", "sh", "css", "js") for path in ROOT.rglob(f"*.{end}"))
    own = [path for path in texts if not any(part.startswith(".") for part in path.relative_to(ROOT).parts)]
    assert len(own) > 1000
    assert not [path for path in own if re.search(r"^(<{7} |>{7} )", path.read_text(encoding="utf-8"), re.MULTILINE)]


@pytest.mark.parametrize("room", ROOMS)
def test_nothing_splits_at_other_characters_than_a_line_feed(room: str) -> None:
    found = [
        place
        for path in sorted((ROOT / room).rglob("*.py"))
        if str(path.relative_to(ROOT)) not in ALLOWED
        for place in splitters(path)
    ]
    assert not found, "use split('\\n') (bytes: split(b'\\n'))"


def test_the_exceptions_are_still_needed() -> None:
    assert all(splitters(ROOT / path) for path in ALLOWED)
