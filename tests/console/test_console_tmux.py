"""The console in a real terminal: tmux shows what an operator sees, resizes, and is left as it was found."""

import importlib.util
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import waiting

CONFTEST = Path(__file__).resolve().parent.parent / "conftest.py"
Tmux = Callable[..., str]


def need_program(name: str) -> str:
    """The helper of tests/conftest.py, which has no package to be imported from."""
    spec = importlib.util.spec_from_file_location("tests_conftest_helper", CONFTEST)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return str(module.need_program(name))


@pytest.fixture
def tmux(tmp_path: Path) -> Iterator[Tmux]:
    """A private tmux server: `tmux(...)` is a command to it."""
    with server(tmp_path / "t") as call:
        yield call


@contextmanager
def server(socket: Path) -> Iterator[Tmux]:
    """A tmux server on a socket."""
    base = [need_program("tmux"), "-S", str(socket), "-f", "/dev/null"]

    def call(*words: str) -> str:
        return subprocess.run(
            [*base, *words], capture_output=True, text=True, check=True, timeout=waiting.LIMIT_S
        ).stdout

    try:
        yield call
    finally:
        subprocess.run([*base, "kill-server"], check=False, capture_output=True)


def start(tmux: Tmux, tmp_path: Path, width: int, height: int, *flags: str, **environ: str) -> None:
    """A shell in which the console is started, so that what it leaves behind is seen."""
    settings = {"RWKVCTL_SOCKET": str(tmp_path / "d.sock"), "TERM": "screen-256color", "PATH": os.environ["PATH"],
                "LANG": "C.UTF-8", "PS1": "shell> "} | environ  # fmt: skip
    words = ["env", "-i", *(f"{name}={value}" for name, value in settings.items()), "sh"]
    tmux("new-session", "-d", "-x", str(width), "-y", str(height), " ".join(f"'{word}'" for word in words))
    tmux("set", "-g", "status", "off")
    tmux("pipe-pane", "-o", f"cat > '{tmp_path / 'raw'}'")
    run(tmux, *flags)


def run(tmux: Tmux, *flags: str) -> None:
    """Start the console in the shell that is there."""
    console = " ".join([sys.executable, "-m", "rwkvctl.cli", "tui", *flags])
    tmux("send-keys", "-l", f"{console}; echo finished $?")
    tmux("send-keys", "Enter")


def wait_for(tmux: Tmux, *words: str, gone: str = "\0") -> str:
    def shown() -> str:
        text = tmux("capture-pane", "-p")
        return text if all(word in text for word in words) and gone not in text else ""

    return str(waiting.wait_for(shown, f"{words!r} are seen, {gone!r} is not", lambda: tmux("capture-pane", "-p")))


def is_restored(tmux: Tmux) -> None:
    """The shell can be used: its text is back, echo is on, the cursor is shown, the mouse is the terminal's."""
    assert tmux("display", "-p", "#{alternate_on} #{cursor_flag} #{mouse_any_flag}").split() == ["0", "1", "0"]
    tmux("send-keys", "-l", "echo back$((1+1))")
    wait_for(tmux, "echo back$((1+1))")
    tmux("send-keys", "Enter")
    wait_for(tmux, "back2")


def console_pid(tmux: Tmux) -> int:
    shell = tmux("display", "-p", "#{pane_pid}").strip()
    children = Path(f"/proc/{shell}/task/{shell}/children").read_text(encoding="utf-8").split()
    return int(children[0])


def test_it_starts_resizes_survives_the_daemon_and_leaves_the_terminal_as_it_was(
    tmux: Tmux, tmp_path: Path, fake_daemon: Any
) -> None:
    node = fake_daemon.Node()
    node.jobs = [fake_daemon.job(1, model=fake_daemon.EVIL), *node.jobs[1:]]
    node.log = fake_daemon.EVIL + "\n"
    with fake_daemon.serving(tmp_path / "d.sock", node):
        start(tmux, tmp_path, 120, 36)
        text = wait_for(tmux, "Running 1", "cpu:0", "Queue 1", "Events", "? help", "daemon up")
        assert all(len(line) <= 120 for line in text.splitlines())
        tmux("resize-window", "-x", "80", "-y", "24")
        wait_for(tmux, "Running 1", " up 1h01m  1 CPU", "? help", "1Overview 2Queu 3Jobs")
        tmux("resize-window", "-x", "200", "-y", "60")
        wait_for(tmux, "1Overview  2Queue", "CACHE%")
        tmux("resize-window", "-x", "40", "-y", "12")
        wait_for(tmux, "Running 1")
        tmux("resize-window", "-x", "100", "-y", "34")
        wait_for(tmux, "1Overview", "Running 1")
        tmux("send-keys", "Enter")
        wait_for(tmux, "The answer is 8.", "following")
    wait_for(tmux, "daemon gone", "The answer is 8.")
    tmux("send-keys", "1")
    wait_for(tmux, "Running · not known since", "daemon gone")
    with fake_daemon.serving(tmp_path / "d.sock", node):
        wait_for(tmux, "● daemon up", "Running 1")
        tmux("send-keys", "C-c")
        wait_for(tmux, "^c again")
        tmux("send-keys", "C-c")
        wait_for(tmux, "finished 0")
    is_restored(tmux)
    raw = (tmp_path / "raw").read_bytes()
    for evil in (b"\x1b]52;", b"\x1b]0;EVIL", b"\xc2\x9b31m", "\u202e".encode()):
        assert evil not in raw
    assert re.search("␛\\]52;c;".encode(), raw)


@pytest.mark.parametrize("how", ["TERM", "crash"])
def test_a_console_that_dies_leaves_the_terminal_as_it_was(
    tmux: Tmux, tmp_path: Path, fake_daemon: Any, how: str
) -> None:
    with fake_daemon.serving(tmp_path / "d.sock", fake_daemon.Node()):
        broken = {"PYTHONPATH": str(tmp_path)} if how == "crash" else {}
        if how == "crash":
            (tmp_path / "sitecustomize.py").write_text(CRASH, encoding="utf-8")
        start(tmux, tmp_path, 100, 30, **broken)
        wait_for(tmux, "Running 1")
        if how == "crash":
            tmux("send-keys", "z")
            wait_for(tmux, "deliberately broken", "finished 1")
        else:
            os.kill(console_pid(tmux), signal.SIGTERM)
            wait_for(tmux, "finished 143")
        is_restored(tmux)


CRASH = """
import importlib.abc, sys

class Break(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == "rwkvctl.tui.screens.overview":
            import rwkvctl.tui.screen
            def action_zoom(self):
                raise RuntimeError("deliberately broken")
            rwkvctl.tui.screen.ConsoleScreen.action_zoom = action_zoom
        return None

sys.meta_path.insert(0, Break())
"""


def test_keys_that_a_slow_line_brings_at_once_act_in_their_order(tmux: Tmux, tmp_path: Path, fake_daemon: Any) -> None:
    with fake_daemon.serving(tmp_path / "d.sock", fake_daemon.Node()):
        start(tmux, tmp_path, 120, 36)
        wait_for(tmux, "Running 1")
        tmux("send-keys", "5")
        wait_for(tmux, "following")
        tmux("send-keys", "-l", "vw/v:q")  # v and w are keys, and letters of what is typed behind the slash
        wait_for(tmux, "warnings and errors", "wrapped", "/ v:q")


def test_with_and_without_the_differ_tmux_shows_the_same(tmux: Tmux, tmp_path: Path, fake_daemon: Any) -> None:
    """Another terminal than our own reader: the same text, and the same colours."""
    node = fake_daemon.Node(heartbeat_s=3600.0)
    node.jobs = [fake_daemon.job(1, model="模型-数学-2.9b", detail="e\u0301a"), *node.jobs[1:]]
    socket, plain_folder = tmp_path / "d.sock", tmp_path / "plain"
    plain_folder.mkdir()
    with fake_daemon.serving(socket, node), server(tmp_path / "u") as plain:
        start(tmux, tmp_path, 110, 34, COLORTERM="truecolor")
        more = {"COLORTERM": "truecolor", "RWKVCTL_TUI_DIFF": "0", "RWKVCTL_SOCKET": str(socket)}
        start(plain, plain_folder, 110, 34, **more)
        for one in (tmux, plain):
            wait_for(one, "Running 1", "daemon up", "? help")
        for key, words in (("Enter", "The answer is 8."), ("?", "keys of Job"), ("q", "The answer is 8."),
                           ("1", "Queue 1")):  # fmt: skip
            for one in (tmux, plain):
                one("send-keys", key)
                wait_for(one, words, "? help")
            waiting.wait_for(
                lambda: styled(tmux) == styled(plain), "both show the same", lambda: f"{styled(tmux)}\n{styled(plain)}"
            )


def styled(tmux: Tmux) -> list[str]:
    """What is seen with its colours, without the line that counts seconds."""
    return [line for line in tmux("capture-pane", "-e", "-p").splitlines() if "up " not in line]
