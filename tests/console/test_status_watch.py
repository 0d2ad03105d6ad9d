"""`status --watch`: in place, only what changed, through a restart of the daemon, and the terminal given back."""

import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from waiting import wait_for

from rwkvctl.cli.watch import ENTER, LEAVE, RedrawnLines


class Screen:
    """A terminal of so many cells that keeps what is written to it."""

    def __init__(self, width: int, height: int) -> None:
        self.width, self.height, self.sent = width, height, ""

    def write(self, text: str) -> None:
        self.sent += text


def test_only_changed_lines_are_written() -> None:
    screen: Any = Screen(40, 5)
    glass = RedrawnLines(screen)
    glass.show(["one", "two", "three"])
    assert screen.sent == "\x1b[?2026h\x1b[2J\x1b[1Hone\x1b[K\x1b[2Htwo\x1b[K\x1b[3Hthree\x1b[K\x1b[?2026l"
    screen.sent = ""
    glass.show(["one", "two", "three"])
    assert screen.sent == "", "nothing changed"
    glass.show(["one", "2"])
    assert screen.sent == "\x1b[?2026h\x1b[2H2\x1b[K\x1b[3H\x1b[K\x1b[?2026l"
    glass.show([str(number) for number in range(9)])
    assert glass.shown[-1] == "… 6 more lines; a taller terminal shows them"
    screen.sent, screen.height = "", 30
    glass.show(["one"])
    assert screen.sent == "\x1b[?2026h\x1b[2J\x1b[1Hone\x1b[K\x1b[?2026l", "another size: all of it anew"


@pytest.fixture
def watching(tmp_path: Path, fake_daemon: Any, console_module: Any) -> Iterator[Any]:
    """A node to be served on a socket, and what starts a verb on a terminal there."""
    begun: list[Any] = []

    def start(*words: str, size: tuple[int, int] = (80, 24)) -> Any:
        begun.append(
            console_module("console_terminal").Shell(tmp_path / "d.sock", size, *words, RWKVCTL_HOME=str(tmp_path))
        )
        return begun[-1]

    yield fake_daemon.Node(), start
    for shell in begun:
        if shell.pid:
            shell.end()


def wait(shell: Any, until: Callable[[], object]) -> None:
    """Read until something is so."""

    def read() -> None:
        shell.read(0.05)

    wait_for(until, "the terminal shows it", lambda: shell.received[-2000:], pause=read)


def ended(shell: Any) -> int:
    """Wait for the program to end, read the rest of its output, and return its exit code."""
    code = None
    while code is None:
        shell.read(0.05)
        pid, status = os.waitpid(shell.pid, os.WNOHANG)
        code = os.waitstatus_to_exitcode(status) if pid else None
    while shell.read(0.05):
        pass
    shell.pid = 0
    os.close(shell.fd)
    return int(code)


def test_it_is_redrawn_in_place_and_survives_a_restart(watching: Any, tmp_path: Path, fake_daemon: Any) -> None:
    node, start = watching
    shell = start("status", "--watch", "0.1")
    wait(shell, lambda: "reconnecting" in shell.received)
    assert shell.received.startswith(ENTER)
    with fake_daemon.serving(tmp_path / "d.sock", node):
        wait(shell, lambda: "j1" in shell.received and "up 1h01m" in shell.received)
        shell.received, asked = "", len(node.asked)
        wait(shell, lambda: len(node.asked) > asked + 5)
        assert shell.received == "", "no repaint without a change"
        node.change(1, done=99)
        wait(shell, lambda: "99/" in shell.received)
        assert len(shell.received) < 200, "one line"
    wait(shell, lambda: "reconnecting … below is the state at" in shell.received)
    shell.received = ""
    with fake_daemon.serving(tmp_path / "d.sock", node):
        wait(shell, lambda: "up 1h01m" in shell.received)
        os.write(shell.fd, b"\x03")
        assert ended(shell) == 130
    assert LEAVE in shell.received
    assert "99/" in shell.received.partition(LEAVE)[2], "the last look stays"


def test_a_terminal_is_given_back_when_it_is_ended(watching: Any, tmp_path: Path, fake_daemon: Any) -> None:
    node, start = watching
    with fake_daemon.serving(tmp_path / "d.sock", node):
        shell = start("status", "--watch", size=(40, 6))
        wait(shell, lambda: "more lines" in shell.received)
        os.kill(shell.pid, signal.SIGTERM)
        assert ended(shell) == 128 + signal.SIGTERM
    assert LEAVE in shell.received


def test_where_nothing_can_be_redrawn(watching: Any, tmp_path: Path, fake_daemon: Any) -> None:
    node, _ = watching
    environ = os.environ | {"RWKVCTL_SOCKET": str(tmp_path / "d.sock"), "RWKVCTL_HOME": str(tmp_path)}

    def begin(*words: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "rwkvctl.cli", "status", "--watch=0.1", *words]
        return subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, text=True)

    with fake_daemon.serving(tmp_path / "d.sock", node):
        plain, documents = begin(), begin("--json")
        try:
            assert plain.stdout is not None
            assert documents.stdout is not None
            for _ in range(3):
                assert json.loads(documents.stdout.readline())["schema"] == "rwkvctl.status/1"
            lines = [plain.stdout.readline()]
            while "j2" not in lines[-1]:
                lines.append(plain.stdout.readline())
            node.change(1, done=99)
            assert "99/" in plain.stdout.readline(), "only what changed"
            asked = len(node.asked)
            wait_for(lambda: len(node.asked) >= asked + 6, "both have looked again")
            assert not select.select([plain.stdout], [], [], 0)[0]
        finally:
            for process in (plain, documents):
                process.kill()
                process.wait()
                assert process.stdout is not None
                process.stdout.close()
    found = subprocess.run(
        [sys.executable, "-m", "rwkvctl.cli", "status", "--watch", "0"], env=environ, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert (found.returncode, "at least 0.1" in found.stderr) == (2, True)
