"""What may reach a terminal as it is comes from a few modules that are named here."""

import ast
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2] / "rwkvctl"
MAKERS = {
    "text/sanitize.py", "text/progress_meter.py", "cli/render.py", "cli/watch.py", "cli/job_progress.py",
    "cli/commands/logs.py", "cli/commands/status.py",
}  # fmt: skip
"""Modules that make `Styled` text: each holds escape sequences or colours of our own."""
WRITERS = {
    "text/progress_meter.py", "text/json_envelope.py", "cli/render.py", "cli/selection.py",
    "cli/reference/json_page.py",
}  # fmt: skip
"""Modules that write to a standard stream themselves."""


def calls(path):
    """The calls of a module."""
    return [node for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, ast.Call)]


def modules():
    """The modules of the command line."""
    files = {path: path.relative_to(ROOT).as_posix() for path in sorted(ROOT.rglob("*.py"))}
    return {name: calls(path) for path, name in files.items() if not name.startswith("tui/")}


def test_only_these_modules_make_styled_text():
    made = {name for name, found in modules().items() for call in found
            if isinstance(call.func, ast.Name) and call.func.id == "Styled"}  # fmt: skip
    assert made == MAKERS


def test_only_these_modules_write_to_a_standard_stream():
    found = {name for name, calls_of in modules().items() for call in calls_of if writes(call.func)}
    assert found == WRITERS


def writes(function):
    """Whether a call writes past `Terminal.write`."""
    if isinstance(function, ast.Name):
        return function.id == "print"
    if not isinstance(function, ast.Attribute) or function.attr not in {"write", "writelines"}:
        return False
    stream = function.value
    return isinstance(stream, ast.Attribute) and stream.attr in {"stdout", "stderr", "out", "err", "stream"}
