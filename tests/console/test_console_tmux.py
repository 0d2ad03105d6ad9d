"""The console in a real terminal: tmux shows what an operator sees, and nothing evil gets through."""

import importlib.util
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

CONFTEST = Path(__file__).resolve().parent.parent / "conftest.py"


def need_program(name: str) -> str:
    """The helper of tests/conftest.py, which has no package to be imported from."""
    spec = importlib.util.spec_from_file_location("tests_conftest_helper", CONFTEST)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return str(module.need_program(name))


@pytest.fixture
def tmux(tmp_path: Path, fake_daemon: Any) -> Iterator[Callable[..., str]]:
    """Start the console in a private tmux server of some size; then `tmux(...)` is a command to it."""
    program = need_program("tmux")
    base = [program, "-S", str(tmp_path / "t"), "-f", "/dev/null"]

    def call(*words: str) -> str:
        return subprocess.run([*base, *words], capture_output=True, text=True, check=True, timeout=20).stdout

    node = fake_daemon.Node()
    node.jobs = [fake_daemon.job(1, model=fake_daemon.EVIL), *node.jobs[1:]]
    node.log = fake_daemon.EVIL + "\n"
    with fake_daemon.serving(tmp_path / "d.sock", node):
        yield call
        subprocess.run([*base, "kill-server"], check=False, capture_output=True)


def start(tmux: Callable[..., str], tmp_path: Path, width: int, height: int) -> None:
    settings = {"RWKVCTL_SOCKET": str(tmp_path / "d.sock"), "TERM": "xterm-256color", "PATH": os.environ["PATH"]}
    words = [
        "env",
        *(f"{name}={value}" for name, value in settings.items()),
        sys.executable,
        "-m",
        "rwkvctl.cli",
        "tui",
    ]
    raw = tmp_path / "raw"
    command = " ".join(f"'{word}'" for word in words)
    tmux("new-session", "-d", "-x", str(width), "-y", str(height), command)
    tmux("set", "-g", "status", "off")
    tmux("pipe-pane", "-o", f"cat > '{raw}'")


def wait_for(tmux: Callable[..., str], words: str) -> str:
    text = ""
    for _ in range(100):
        text = tmux("capture-pane", "-p")
        if words in text:
            return text
        time.sleep(0.1)
    raise AssertionError(f"no {words!r} in:\n{text}")


@pytest.mark.parametrize("size", [(120, 36), (80, 24)])
def test_an_operator_sees_the_overview_and_a_job(
    tmux: Callable[..., str], tmp_path: Path, fake_daemon: Any, size: tuple[int, int]
) -> None:
    start(tmux, tmp_path, *size)
    wait_for(tmux, "Running 1")
    text = wait_for(tmux, "cpu:0")
    for words in ("cpu:0", "Queue 1", "Events", "? Help"):
        assert words in text
    tmux("send-keys", "Enter")
    text = wait_for(tmux, "The answer is 8.")
    assert "following" in text
    tmux("send-keys", "Q")
    raw = (tmp_path / "raw").read_bytes()
    assert b"\x1b]52;" not in raw
    assert b"\x1b]0;EVIL" not in raw
    assert b"\xc2\x9b31m" not in raw
    assert "\u202e".encode() not in raw
    assert re.search("␛\\]52;c;".encode(), raw)
