"""The console in tmux over a real daemon: it outlives the daemon's death, fits any size, and leaves nothing behind."""

import importlib.util
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest
import waiting

PARTS = Path(__file__).resolve().parents[2] / "console" / "test_console_tmux.py"


def load() -> Any:
    """The hands of the tmux tests: tests have no packages."""
    name = "console_tmux_hands"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, PARTS)
        assert spec is not None
        assert spec.loader is not None
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]


hands = load()
tmux = hands.tmux


def start(tmux: Any, folder: Path, node: Any, width: int = 120, height: int = 36) -> None:
    hands.start(tmux, folder, width, height, RWKVCTL_SOCKET=str(node.socket), RWKVCTL_HOME=str(node.home))


def test_a_daemon_that_is_killed_is_missed_and_found_again_and_nothing_is_lost(
    tmux: Any, tmp_path: Path, fresh: Any
) -> None:
    fresh.engines_do(answers=20)
    (job,) = fresh.dispatch()
    fresh.wait_until_some(job, 1)
    start(tmux, tmp_path, fresh)
    hands.wait_for(tmux, "Running 1", "● daemon up")
    tmux("send-keys", "5")
    hands.wait_for(tmux, f"{job} + daemon · following", "samples to do")
    fresh.kill()
    hands.wait_for(tmux, "daemon gone", "reconnecting in", "samples to do")
    tmux("send-keys", ",")
    hands.wait_for(tmux, "1 engines and 1 runners are alive", "gone for")
    tmux("send-keys", "1")
    hands.wait_for(tmux, "Running · not known since", "daemon gone", job)
    fresh.start()
    hands.wait_for(tmux, "● daemon up", "Running 1", gone="daemon gone")
    tmux("send-keys", "5")
    hands.wait_for(tmux, "lines fetched")
    assert fresh.job(job)["state"] == "generating"
    fresh.engines_do()
    assert fresh.wait_for_state(job, "done", "failed")["state"] == "done"
    tmux("send-keys", "Q")
    hands.wait_for(tmux, "finished 0")
    hands.is_restored(tmux)


def test_every_screen_fits_a_small_and_a_huge_terminal(tmux: Any, tmp_path: Path, measured: Any) -> None:
    start(tmux, tmp_path, measured, 80, 24)
    hands.wait_for(tmux, "Running 0")
    for key, words in (
        ("5", "following"),
        ("E", "newest first"),
        (",", "resident"),
        ("0", "keys of"),
        ("1", "Running 0"),
    ):
        tmux("send-keys", key)
        text = hands.wait_for(tmux, words)
        assert all(len(line) <= 80 for line in text.splitlines())
        tmux("resize-window", "-x", "300", "-y", "80")
        hands.wait_for(tmux, words, "1Overview", "EEvents")
        tmux("resize-window", "-x", "80", "-y", "24")
        hands.wait_for(tmux, words, "3Jobs 4", gone="Overview  2Queue")
    tmux("send-keys", "Q")
    hands.wait_for(tmux, "finished 0")
    hands.is_restored(tmux)


@pytest.mark.parametrize("how", ["hangup", "interrupt"])
def test_it_ends_with_its_terminal_and_on_the_second_interrupt(
    tmux: Any, tmp_path: Path, measured: Any, how: str
) -> None:
    start(tmux, tmp_path, measured)
    hands.wait_for(tmux, "Running 0")
    pid = hands.console_pid(tmux)
    if how == "interrupt":
        tmux("send-keys", "/", "x")
        tmux("send-keys", "C-c")
        hands.wait_for(tmux, "? help")
        tmux("send-keys", "C-c")
        hands.wait_for(tmux, "^c again")
        tmux("send-keys", "C-c")
        hands.wait_for(tmux, "finished 0")
        hands.is_restored(tmux)
    else:
        os.kill(pid, signal.SIGHUP)
    waiting.wait_for(lambda: not Path(f"/proc/{pid}").exists(), "the console has ended")
